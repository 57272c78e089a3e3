"""Ops that a user adds: what is known of each, and the ones that this process has.

A custom op is a pattern of ONNX nodes that becomes one device op. Its integers come from the user's `prepare`, its
bits from the user's `reference` or a C function of the same meaning; planning needs to know only which boxes it reads
and what it costs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from axtool.errors import UsageError
from axtool.types import QFormat, Site

DOMAIN = "ax.custom"
MOST_INPUTS = 3  # that are known only at run time
MOST_CYCLES = 1e15  # of one box

Ints = NDArray[np.int8]
Reads = Literal["pixel", "whole"]


@dataclass(frozen=True, slots=True)
class Case:
    """One place in a model where a custom op stands, for which `prepare` makes the numbers.

    Real values are `(q - zero_point) * scale`. `constants` are the inputs of the pattern that the model knows, by the
    pattern's names; `shapes` the ONNX shapes of all its inputs and of the output.
    """

    inputs: tuple[QFormat, ...]  # of the inputs known at run time, in the pattern's order
    output: QFormat
    constants: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def no_numbers(case: Case) -> NDArray[np.generic]:
    """For an op that needs no numbers of its own."""
    return np.zeros(1, np.int8)


def ten_instructions(height: int, width: int, channels: int) -> float:
    """As an elementwise product: ten instructions for each channel of an array-sized tile of 32 x 32."""
    return 10.0 * -(-height // 32) * -(-width // 32) * channels


@dataclass(frozen=True)
class CustomOp:
    """A user's op.

    `pattern` is an ONNX function as text, `Name (x, y) => (z) { ... }`, with one output: the nodes that the op
    replaces, and what it means in float. `body`, where given, is what onnxruntime runs instead of the pattern's nodes,
    for nodes that it does not know.

    `reference(inputs, numbers)` computes the op in integers: int8 boxes (h, w, c), and what `prepare` returned, as
    bytes -> int8 (h, w, c). With `reads="pixel"` it may be called for any box of pixels, with all their channels; with
    `reads="whole"` it always sees all of every input. `native` is (library, function): a C function of the same bits,

        int32_t function(const int8_t *const *inputs, int64_t input_count, const int64_t *dims,
                         const uint8_t *numbers, int64_t number_bytes, int8_t *output)

    with `dims` h, w, c of each input and then of the output, and 0 as its result; another one is an error. What they
    make depends on the arguments alone: calls come in any order and from any thread, those of `reference` one at a
    time, those of a C function several at once.

    `cost(height, width, channels)` is the cycles of the vector unit for one output box. `limit(shapes)` may say why the
    device cannot take one ("" where it can): ONNX shapes by the pattern's names.
    """

    pattern: str
    reference: Callable[[Sequence[Ints], NDArray[np.uint8]], Ints]
    prepare: Callable[[Case], NDArray[np.generic]] = no_numbers
    cost: Callable[[int, int, int], float] = ten_instructions
    reads: Reads = "pixel"
    native: tuple[Path, str] | None = None
    body: str = ""
    limit: Callable[[Mapping[str, tuple[int, ...]]], str] = field(default=lambda shapes: "")

    def __post_init__(self) -> None:
        """TypeError or ValueError for a field that is something else than it should be."""
        for key in ("pattern", "body"):
            if not isinstance(value := getattr(self, key), str):
                raise TypeError(f"{key} is a {type(value).__name__}, want text")
        for key in ("reference", "prepare", "cost", "limit"):
            if not callable(value := getattr(self, key)):
                raise TypeError(f"{key} is a {type(value).__name__}, want a function")
        if self.reads not in ("pixel", "whole"):
            raise ValueError(f"reads is {self.reads!r}, want 'pixel' or 'whole'")
        if self.native is not None:
            match self.native:
                case (str() | Path(), str()):
                    pass
                case _:
                    raise TypeError(f"native is {self.native!r}, want (library, name of the function)")
        hash(self)  # ops are kept in caches

    @property
    def name(self) -> str:
        """The pattern's name."""
        return self.pattern.split("(", 1)[0].strip()

    @property
    def id(self) -> int:
        """The integer that stands for the op in a row."""
        return id_of(self.name)


def id_of(name: str) -> int:
    """The integer that stands for a name: 31 bits of its SHA-256, since attributes of a row are int32."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little") >> 1


class _Known:
    """The ops of this process, like the limits: filled when a file of them is loaded."""

    def __init__(self) -> None:
        self.by_id: dict[int, CustomOp] = {}

    def add(self, op: CustomOp) -> None:
        """Make an op known. ValueError for a second op of the same name that is another one."""
        if self.by_id.get(op.id, op) != op:
            raise ValueError(f"there are two custom ops '{op.name}'")
        self.by_id[op.id] = op

    def forget(self) -> None:
        """Know none."""
        self.by_id.clear()


_KNOWN = _Known()
add, forget = _KNOWN.add, _KNOWN.forget


def known() -> Mapping[str, CustomOp]:
    """The ops that this process has, by name."""
    return MappingProxyType({op.name: op for op in _KNOWN.by_id.values()})


def of_site(site: Site) -> CustomOp:
    """The op that a node stands for. UsageError where it was not loaded."""
    return of_id(id_of(site.op))


def input_names(op: CustomOp) -> tuple[str, ...]:
    """The pattern's names of its inputs."""
    inside = op.pattern.split("(", 1)[1].split(")", 1)[0]
    return tuple(name.strip() for name in inside.split(",") if name.strip())


def output_of(op: CustomOp) -> str:
    """The pattern's name of its output."""
    return op.pattern.split("=>", 1)[1].split("(", 1)[1].split(")", 1)[0].strip()


def named_inputs(op: CustomOp, site: Site) -> tuple[tuple[str, str], ...]:
    """(name in the pattern, name of the tensor) of each input of a node."""
    return tuple(zip(input_names(op), site.inputs, strict=True))


@contextmanager
def users_code(what: str, hint: str) -> Iterator[None]:
    """The user's code runs inside: whatever it raises, `sys.exit` included, is about the op and becomes a UsageError.
    Only Ctrl-C passes.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UsageError(f"{what} fails: {told(error)}", code="custom-op-failed", hint=hint) from error


def told(error: BaseException) -> str:
    """The name of an error's type and what it says, even where saying it fails."""
    try:
        said = str(error)
    except Exception:  # the user's own type of error
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def cost_of(number: int, height: int, width: int, channels: int) -> float:
    """Cycles of the vector unit that the op of a row says of an output box. UsageError for what is no such number."""
    op = of_id(number)
    with users_code(f"cost of custom op '{op.name}'", "it gets height, width and channels of a box and returns cycles"):
        cycles = float(op.cost(height, width, channels))
    if not (math.isfinite(cycles) and 0 <= cycles < MOST_CYCLES):
        raise UsageError(f"cost of custom op '{op.name}' is {cycles}", code="custom-op-failed",
                         hint="return cycles, at least 0")  # fmt: skip
    return cycles


def limit_of(site: Site) -> str:
    """Why the device cannot take a node, as the op says it; "" where it can. UsageError for what is no text."""
    op = of_site(site)
    shapes = {name: site.shapes[tensor] for name, tensor in named_inputs(op, site)}
    with users_code(f"limit of custom op '{op.name}'", "it gets shapes by the pattern's names and returns a text"):
        said = op.limit(shapes)
    if not isinstance(said, str):
        raise UsageError(
            f"limit of custom op '{op.name}' returns {said!r}, which is no text",
            code="custom-op-failed",
            hint='return "" where the device can take the op, and else why it cannot',
        )
    return said


def of_id(number: int) -> CustomOp:
    """The op that a row names. UsageError where it was not loaded."""
    if number not in _KNOWN.by_id:
        have = ", ".join(sorted(known())) or "none"
        raise UsageError(
            f"the model has a custom op that is not loaded (loaded: {have})",
            code="custom-op-missing",
            hint="give the file that it was compiled with: --custom-ops FILE.py",
        )
    return _KNOWN.by_id[number]
