"""A model of the user's  ->  a config for it with comments, which `axzoo check` takes and people finish."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from axtool.errors import UsageError
from axtool.graph.front import Reading
from axtool.legible import legible
from axtool.runtime.postamble import Postamble
from axtool.target_file import load_target
from axtool.zoo.guess import guess
from axtool.zoo.heads import Heads, heads_of
from axtool.zoo.schema import Config

MADE = """  - kind: generated  # cuts of photographs of two packages, fetched once; pictures of your own say more
    generator: montages
    count: {count}
    seed: {seed}
    size: {size}
    base:
      - {{kind: pypi, package: scikit-image, version: 0.26.0, paths: [skimage/data/astronaut.png]}}
      - {{kind: pypi, package: foolbox, version: 3.3.4, paths: [foolbox/data/imagenet_00*.jpg]}}"""


@dataclass(frozen=True)
class Begun:
    """What is known of a model, and where its config goes. `guesses` say what `task` and `postamble` are from."""

    name: str
    title: str
    licence: str
    model: str
    sha256: str
    input_shapes: Mapping[str, tuple[int, ...]]
    dims: Mapping[str, int]
    preparation: Mapping[str, Any]
    task: Mapping[str, Any]
    postamble: Postamble
    calib: str | None
    guesses: tuple[str, ...]


def begin(
    name: str,
    model: Path,
    path: Path,
    calib: Path | None,
    labels: Sequence[str],
    input_shapes: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, int],
) -> Begun:
    """Read the model and guess. Paths become relative to the config at `path` where they lie below it.

    Raises UsageError for a name that is none, and the AxError of a model that cannot be read.
    """
    if not re.fullmatch("[a-z0-9][a-z0-9-]*", name):
        raise UsageError(
            f"'{name}' is no name: want lower case, digits and hyphens", hint="for example my-detector",
            code="bad-option",
        )  # fmt: skip
    if path.suffix != ".yaml" or path.stem != name:
        raise UsageError(f"--out {path}: a config has the name of its model: {name}.yaml", code="bad-option")
    if calib is not None and not calib.exists():
        raise UsageError("no such file or folder", where=str(calib), code="file-not-found")
    target = load_target(Config.model_fields["targets"].default[0])
    heads = heads_of(model, target, Reading(input_shapes=input_shapes, dims=dims))
    guessed = guess(heads, labels)
    return Begun(
        name=name,
        title=_title(name, heads),
        licence=str(heads.export.get("license", "")),
        model=_below(model, path),
        sha256=hashlib.sha256(model.read_bytes()).hexdigest(),
        input_shapes=input_shapes,
        dims=dims,
        preparation=_preparation(heads, guessed.task),
        task=guessed.task,
        postamble=guessed.postamble,
        calib=None if calib is None else _below(calib, path),
        guesses=guessed.notes,
    )


def begun_text(begun: Begun) -> str:
    """The config as YAML with comments."""
    size = list(begun.preparation.get("size", (224, 224)))
    licence = begun.licence or "unknown"
    shapes = {name: list(shape) for name, shape in begun.input_shapes.items()}
    lines = [
        f"# A config for {legible(begun.model)}, begun by `axzoo new`: read each line that has a comment, then",
        f"#   axzoo check {begun.name}.yaml",
        f"#   axzoo build {begun.name}.yaml --verify",
        _line(name=begun.name),
        _line(title=begun.title) + "  # one line: what it finds, the network, the size of its input",
        _line(licence=licence) + f"  # of the weights{'' if begun.licence else ': say it'}",
        _line(source={"kind": "file", "path": begun.model, "sha256": begun.sha256}),
    ]
    lines += [_line(input_shapes=shapes)] if shapes else []
    lines += [_line(dims=dict(begun.dims))] if begun.dims else []
    lines += ["# As the model was trained; a wrong scale, mean, colour or resize costs more accuracy than int8 does."]
    lines += _block("input", begun.preparation) if begun.preparation else ["# input: the model takes no picture"]
    lines += [f"# {legible(note)}" for note in begun.guesses]
    lines += _block("task", begun.task)
    params = begun.postamble.to_dict()
    lines += [f"# Hold the kernel against onnxruntime: axzoo eval {begun.name}.yaml"] if params else []
    lines += _block("postamble", params)
    lines += ["# Ranges come from these: some dozens of pictures as the model will see them."]
    lines += _pictures("calibration", begun.calib, size, seed=1)
    lines += ["# Figures are measured on these, which calibration must not have seen."]
    lines += _pictures("validation", None, size, seed=2)
    by_kind = {"classification": "top1_agreement", "semantic": "pixel_agreement", "": "sqnr_db"}
    metric = by_kind.get(str(begun.task.get("kind", "")), "found_share")
    lines += [
        "# What `build --verify` and `eval` must reach, once you know what it is:",
        f"# expected: [{{metric: {metric}, minimum: {20 if metric == 'sqnr_db' else 0.95}}}]",
    ]
    return "\n".join(lines) + "\n"


def _pictures(key: str, path: str | None, size: Sequence[int], *, seed: int) -> list[str]:
    made = MADE.format(count=32, seed=seed, size=list(size))
    return [f"{key}:", made if path is None else f"  - {_flow({'kind': 'file', 'path': path})}"]


def _block(key: str, values: Mapping[str, Any]) -> list[str]:
    return [f"{key}:", *(f"  {_line(**{name: value})}" for name, value in values.items())] if values else []


def _line(**item: Any) -> str:
    ((key, value),) = item.items()
    return f"{key}: {_flow(value)}"


def _flow(value: Any) -> str:
    """A value as YAML on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**9, sort_keys=False)
    return text.removesuffix("\n...\n").rstrip("\n")


def _below(path: Path, config: Path) -> str:
    """Relative to the folder of the config where it lies in it; else absolute."""
    folder, whole = config.resolve().parent, path.resolve()
    return os.path.relpath(whole, folder) if whole.is_relative_to(folder) else str(whole)


def _title(name: str, heads: Heads) -> str:
    size = "x".join(map(str, heads.size[::-1]))
    return f"{name}, {size}" if any(heads.size) else name


def _preparation(heads: Heads, task: Mapping[str, Any]) -> dict[str, Any]:
    """Of the first input where it is a picture: what its shape says, and what most models of the task want."""
    shape: tuple[int, ...] = next((spec.shape for spec in heads.inputs if len(spec.shape) == 4), ())
    if not any(heads.size) or not {1, 3} & {*shape[1:2], *shape[3:]}:
        return {}
    width, height = heads.size
    channels = shape[1] if shape[1] in (1, 3) else shape[3]
    resize = "letterbox" if task.get("kind") in ("detection", "pose", "segmentation") else "fit"
    return {
        "size": [height, width], "resize": resize, "color": "GRAY" if channels == 1 else "RGB", "scale": 1 / 255,
    }  # fmt: skip
