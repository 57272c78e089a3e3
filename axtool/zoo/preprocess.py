"""Operators in front of a model, as text  ->  calls, and the preparation of pictures that they mean.

`op.seq(op.color_convert('RGB'), op.letterbox(160, 160), op.to_tensor())` is read, never run: operators of this package
with plain values. What a preparation cannot say has no place there, since calibration and `axtool run` go by it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from axtool.errors import UsageError, nearest
from axtool.inputs.prepare import Preparation
from axtool.zoo.calls import Call

HINT = "color_convert, resize, letterbox or resize and center_crop, then to_tensor, then normalize; or prepare alone"
MOST_PIXELS = 1 << 16  # of an edge
ON_PICTURES = (
    "color_convert", "resize", "letterbox", "center_crop", "to_tensor", "to_image_tensor", "normalize",
    "linear_scaling", "prepare", "colorconvert", "centercrop", "totensor", "toimage", "linearscaling",
)  # fmt: skip
_MODES = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}


def calls_of(text: str) -> tuple[Call, ...]:
    """The calls of a text, those of `op.seq` one by one. Raises UsageError for anything but literal calls of `op`."""
    try:
        call = _call(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        told = getattr(error, "msg", "") or str(error)
        raise _fault(f"not calls of operators with plain values: {told}") from error
    return tuple(_spread(call))


def _call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call):
        raise ValueError(f"'{ast.unparse(node)[:60]}' is no call")
    of_op = (
        isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == "op"
    )
    name = node.func.attr if of_op and isinstance(node.func, ast.Attribute) else ""
    if not name or any(word.arg is None for word in node.keywords):
        raise ValueError(f"'{ast.unparse(node)[:60]}' is no call of op.NAME with named values")
    args = [_value(arg) for arg in node.args]
    return Call(name, *args, **{str(word.arg): _value(word.value) for word in node.keywords})


def _value(node: ast.expr) -> Any:
    try:
        return _call(node) if isinstance(node, ast.Call) else ast.literal_eval(node)
    except ValueError as error:
        raise ValueError(not_literal(error, node)) from error


def not_literal(error: Exception, node: ast.AST) -> str:
    """What is wrong with a value, without the insides of the parser: the first piece of it that is no plain value."""
    if "malformed" not in str(error):
        return str(error)
    plain: tuple[type[ast.AST], ...] = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.keyword)
    plain += (ast.expr_context, ast.operator, ast.UnaryOp, ast.unaryop, ast.BinOp)
    pieces = [*ast.iter_child_nodes(node)] if isinstance(node, ast.Call) else [node]
    values = [piece for piece in pieces if not (isinstance(node, ast.Call) and piece is node.func)]
    odd = next((one for value in values for one in ast.walk(value) if not isinstance(one, plain)), node)
    return f"'{ast.unparse(odd)[:60]}' is no plain value"


def _spread(call: Call) -> list[Call]:
    if call.name != "seq":
        return [call]
    inside = [arg for arg in call.args if isinstance(arg, Call)]
    if len(inside) < len(call.args) or call.keywords:
        raise _fault("op.seq takes operators")
    return [one for arg in inside for one in _spread(arg)]


def preparation_of(calls: Sequence[Call]) -> dict[str, Any]:
    """The `input` of a config that means the same. Raises UsageError, naming the operator, where there is none."""
    made = _Meaning()
    for call in calls:
        _refuse_unless_plain(call)
        try:
            made.add(call, call.built({}))
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise _fault(f"{call!r}: {error}") from error
    return made.values()


def _refuse_unless_plain(call: Call) -> None:
    """Before anything is built: only operators on pictures are, none of which opens a file or imports a module."""
    inside = [value for value in (*call.args, *call.keywords.values()) if isinstance(value, Call)]
    if call.name not in ON_PICTURES or inside:
        near = nearest(call.name, ON_PICTURES)
        told = f"; {near}" if near.startswith("did you mean") else ""
        raise _fault(f"{call!r} has no place in front of a model of the zoo{told}", HINT)


class _Meaning:
    """A preparation that grows by one operator after the other."""

    def __init__(self) -> None:
        self._input: dict[str, Any] = {}
        self._shorter = 0  # what `resize` makes of the shorter edge, until `center_crop` says the rest
        self._numbers = False  # whether the picture is a tensor already

    def add(self, call: Call, operator: Any) -> None:
        """Raises UsageError for an operator that has no place here, or not at this place."""
        kind = type(operator).__name__
        add = {
            "ColorConvert": self._color, "Resize": self._resize, "Letterbox": self._letterbox,
            "CenterCrop": self._crop, "ToTensor": self._tensor, "ToImageTensor": self._tensor,
            "Normalize": self._normalize, "LinearScaling": self._scaling, "Prepare": self._prepare,
        }[kind]  # fmt: skip
        if self._numbers != (kind in ("Normalize", "LinearScaling")):
            when = "behind" if kind in ("Normalize", "LinearScaling") else "in front of"
            raise _fault(f"{call!r}: its place is {when} to_tensor", HINT)
        add(call, operator)

    def values(self) -> dict[str, Any]:
        """Raises UsageError where something is missing."""
        if self._shorter:
            raise _fault("op.resize of the shorter edge wants op.center_crop behind it", HINT)
        if not self._numbers:
            raise _fault("no tensor is made: op.to_tensor is missing", HINT)
        return self._input

    def _color(self, call: Call, operator: Any) -> None:
        dst, src = operator.dst.value, operator.src and operator.src.value
        if dst not in ("RGB", "BGR", "GRAY") or src not in (None, "RGB"):
            raise _fault(f"{call!r}: pictures are RGB and become RGB, BGR or GRAY")
        self._once(call, color=dst)

    def _resize(self, call: Call, operator: Any) -> None:
        _whole(operator.width, operator.height, operator.size)
        mode = _MODES.get(operator.interpolation.value)
        if mode is None:
            raise _fault(f"{call!r}: a preparation has no interpolation {operator.interpolation.value}")
        extra = {} if mode == "linear" else {"interpolation": mode}
        if operator.size:
            self._shorter = operator.size
            self._once(call, resize="crop", **extra)
        else:
            self._once(call, resize="fit", size=[operator.height, operator.width], **extra)

    def _letterbox(self, call: Call, operator: Any) -> None:
        _whole(operator.width, operator.height, *operator.fill_color)
        fill = list(operator.fill_color)[:3]
        if len(set(fill)) > 1 and "color" not in self._input:
            raise _fault(f"{call!r}: a fill of several values wants color_convert in front of it")
        extra = {} if operator.anchor == "center" else {"anchor": operator.anchor}
        fill = fill[:1] if len(set(fill)) == 1 else fill
        self._once(call, resize="letterbox", size=[operator.height, operator.width], fill=fill, **extra)

    def _crop(self, call: Call, operator: Any) -> None:
        size = [operator.size] * 2 if isinstance(operator.size, int) else list(operator.size)
        _whole(*size)
        if not self._shorter or len(set(size)) > 1 or size[0] > self._shorter:
            raise _fault(f"{call!r}: wants op.resize(size=N) in front of it, and a square of at most N")
        self._once(call, size=size, crop=size[0] / self._shorter)
        self._shorter = 0

    def _tensor(self, call: Call, operator: Any) -> None:
        if self._shorter:
            raise _fault("op.resize of the shorter edge wants op.center_crop behind it", HINT)
        self._once(call, scale=1 / 255 if type(operator).__name__ == "ToTensor" else 1.0)
        self._numbers = True

    def _normalize(self, call: Call, operator: Any) -> None:
        self._affine(call, operator, operator.mean, operator.std)

    def _scaling(self, call: Call, operator: Any) -> None:
        """x / scale + shift is (x - mean) / std with std = scale and mean = -shift * scale."""
        scale, shift = (np.atleast_1d(np.asarray(v, np.float64)) for v in (operator.scale, operator.shift))
        scale, shift = np.broadcast_arrays(scale, shift)
        self._affine(call, operator, (-shift * scale).tolist(), scale.tolist())

    def _affine(self, call: Call, operator: Any, mean: Sequence[float], std: Sequence[float]) -> None:
        if operator.layout.value != "CHW":
            raise _fault(f"{call!r}: to_tensor makes CHW")
        self._once(call, mean=[float(v) for v in mean], std=[float(v) for v in std])

    def _prepare(self, call: Call, operator: Any) -> None:
        if self._input:
            raise _fault(f"{call!r}: says everything; leave out the others", HINT)
        Preparation.from_dict(operator.preparation)  # refuses what is none
        self._input, self._numbers = dict(operator.preparation), True

    def _once(self, call: Call, **values: Any) -> None:
        again = [key for key in values if key in self._input]
        if again:
            raise _fault(f"{call!r}: {', '.join(again)} is said already")
        self._input |= values


def _whole(*sizes: object) -> None:
    """Raises ValueError for what is no whole number that a picture could have."""
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= MOST_PIXELS:
            raise ValueError(f"want whole numbers from 0 to {MOST_PIXELS:,}, got {size!r}")


def _fault(what: str, hint: str = "") -> UsageError:
    return UsageError(f"{what}{f'; want {hint}' if hint else ''}", code="bad-config")
