"""Options that several commands share: the input preparation and the shapes, read from text into plain values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from axtool.errors import UsageError, nearest

if TYPE_CHECKING:
    from axtool.inputs.prepare import Preparation

PREPARE = "How images become inputs"
GRAPH = "Shapes and graph"
SCALE_HELP = "Pixel values times this first: 1/255, or 1 where a mean or std above 2 is in 0..255 units."

CUSTOM_HELP = "A Python file of your own device ops (docs/custom-ops.md). It is run: give only files you trust."


def _load_custom(paths: list[Path] | None) -> list[Path] | None:
    if paths:
        from axtool.custom import load_files

        load_files(paths)
    return paths


Target = Annotated[str, typer.Option("--target", "-t", help="A chip of configs/targets by name, or a YAML file.")]
InputShape = Annotated[
    list[str] | None,
    typer.Option("--input-shape", metavar="NAME:1,3,H,W", help="Fix the shape of an input.", rich_help_panel=GRAPH),
]
Dim = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=N", help="Fix a symbolic dimension.", rich_help_panel=GRAPH),
]
SOURCE_HELP = "Your file of a model that does not come with axtool; `axzoo info` says where to get it."
Source = Annotated[Path | None, typer.Option("--source", metavar="FILE.onnx", help=SOURCE_HELP)]
DIRECTIVES_HELP = "A YAML file that fixes tiles, buffers, prefetch or residency of layers for the planner."
Directives = Annotated[Path | None, typer.Option("--directives", metavar="FILE", help=DIRECTIVES_HELP)]
CustomOps = Annotated[
    list[Path] | None,
    typer.Option("--custom-ops", metavar="FILE.py", help=CUSTOM_HELP, callback=_load_custom, show_default=False),
]
Permissive = Annotated[
    bool,
    typer.Option("--permissive", help="Accept an op newer than the declared opset.", rich_help_panel=GRAPH),
]
FixFp16 = Annotated[
    bool,
    typer.Option("--fix-fp16", help="Insert casts where float16 and float32 meet.", rich_help_panel=GRAPH),
]
Resize = Annotated[
    str | None,
    typer.Option("--resize", metavar="fit|letterbox|crop|none", help="Stretch, pad, or crop.", rich_help_panel=PREPARE),
]
Mean = Annotated[
    str | None,
    typer.Option("--mean", metavar="R,G,B", help="Subtracted after scaling.", rich_help_panel=PREPARE),
]
Std = Annotated[str | None, typer.Option("--std", metavar="R,G,B", help="Divided by.", rich_help_panel=PREPARE)]
Scale = Annotated[
    str | None,
    typer.Option("--scale", metavar="X", help=SCALE_HELP, rich_help_panel=PREPARE),
]
Color = Annotated[
    str | None, typer.Option("--color", metavar="RGB|BGR|GRAY", help="Channel order.", rich_help_panel=PREPARE)
]
Layout = Annotated[
    str | None, typer.Option("--layout", metavar="NCHW|NHWC", help="Axis order.", rich_help_panel=PREPARE)
]
Fill = Annotated[
    str | None,
    typer.Option("--fill", metavar="V", help="Letterbox border, 0..255 (114).", rich_help_panel=PREPARE),
]
Preprocess = Annotated[
    str | None,
    typer.Option(
        "--preprocess", metavar="FILE.py:FUNCTION", help="RGB uint8 (h, w, 3) to input.", rich_help_panel=PREPARE
    ),
]


def preparation(
    resize: str | None,
    mean: str | None,
    std: str | None,
    scale: str | None,
    color: str | None,
    layout: str | None,
    fill: str | None,
    base: Preparation | None = None,
) -> Preparation | None:
    """The preparation that the options say, over `base`; None when there is neither.

    What is replaced in `base`, which a file brought, is said.
    """
    given: dict[str, object] = {"resize": resize, "color": color, "layout": layout}
    given |= {"mean": numbers(mean, "--mean"), "std": numbers(std, "--std"), "fill": numbers(fill, "--fill")}
    given["scale"] = None if scale is None else number(scale, "--scale")
    chosen = {key: value for key, value in given.items() if value is not None}
    if not chosen:
        return base
    from dataclasses import replace

    from axtool.inputs.prepare import Preparation

    made = replace(base or Preparation(), **chosen)  # type: ignore[arg-type]
    if base is not None:
        _say_replaced(base, made, list(chosen))
    return made


def _say_replaced(base: Preparation, made: Preparation, keys: Sequence[str]) -> None:
    """Warn for every option that changes what the file says; a new mean or std may change the scale."""
    import logging

    from axtool.report.prepared import fraction, numbers

    def words(value: object) -> str:
        return numbers(value) if isinstance(value, tuple) else "none" if value is None else str(value)

    for key in keys:
        new, old = getattr(made, key), getattr(base, key)
        if key == "scale":
            new, old = fraction(made.factor), fraction(base.factor)
        if new != old:
            logging.getLogger("axtool").warning("--%s %s replaces %s of the file", key, words(new), words(old))
    if "scale" not in keys and made.factor != base.factor:
        text = "with this mean or std the scale is %s, not the %s of the file"
        logging.getLogger("axtool").warning(text, fraction(made.factor), fraction(base.factor))


def choice(word: str, known: Sequence[str], option: str) -> str:
    """The word, which must be a known one."""
    if word not in known:
        raise UsageError(f"{option} {word}: want {', '.join(known)}", hint=nearest(word, known), code="bad-option")
    return word


def qdq_file(text: str | None, out: Path) -> Path | None:
    """The file that `--emit qdq` or `--emit qdq=FILE.onnx` asks for; without a name, `out` with another ending."""
    if text is None:
        return None
    kind, given, file = text.partition("=")
    choice(kind, ("qdq",), "--emit")
    path = Path(file) if given else out.with_suffix(".qdq.onnx")
    if path.suffix.lower() != ".onnx":
        raise UsageError(
            f"--emit {text}: want a file name that ends in .onnx", hint="for example --emit qdq=model.qdq.onnx",
            code="bad-option",
        )  # fmt: skip
    return path


def number(text: str, option: str) -> float:
    """A decimal number or a fraction such as 1/255."""
    try:
        top, _, bottom = text.partition("/")
        return float(top) / float(bottom) if bottom else float(top)
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"{option} {text}: want a number or a fraction such as 1/255", code="bad-option") from None


def numbers(text: str | None, option: str) -> tuple[float, ...] | None:
    """Comma-separated numbers."""
    return None if text is None else tuple(number(part.strip(), option) for part in text.split(","))


def names(text: str | None, option: str) -> tuple[str, ...]:
    """Comma-separated names; none of them is empty."""
    parts = () if text is None else tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise UsageError(f"{option} '{text}': a name is empty", hint=f"for example {option} A,B", code="bad-option")
    return parts


def shapes(items: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """`NAME:1,3,640,640` for each input; names may hold colons."""
    result = {}
    for item in items or ():
        name, _, dims = item.rpartition(":")
        try:
            result[name] = tuple(int(d) for d in dims.lower().replace("x", ",").split(","))
        except ValueError:
            result[name] = ()
        if not name or not result[name] or min(result[name]) < 1:
            raise UsageError(
                f"--input-shape {item}: want NAME:1,3,H,W with sizes of at least 1",
                hint="for example --input-shape images:1,3,640,640",
                code="bad-option",
            )
    return result


def dims(items: Sequence[str] | None) -> dict[str, int]:
    """`batch=1` for each symbolic dimension."""
    result = {}
    for item in items or ():
        name, _, size = item.rpartition("=")
        if not name or not size.isdecimal() or len(size) > 18 or int(size) < 1:
            raise UsageError(
                f"--dim {item}: want NAME=N, N at least 1", hint="for example --dim batch=1", code="bad-option"
            )
        result[name] = int(size)
    return result
