"""A Program while it is being made: tensors, layers and constants by name, and where each ONNX tensor is held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import LIMITS
from axtool.ops.precise import PRECISE, computes_in, moves_whole
from axtool.plan.convert import as_fx32, conversion, requantizing
from axtool.plan.layout import LAST, Axes, axes_of, moves_nothing, permutation, stored_shape
from axtool.plan.lower_wide import in_byte_channels, permute_steps
from axtool.target import Target
from axtool.types import BYTES, Kind, Layer, Layout, Precision, Program, QFormat, Quantization, Site, Tensor

Shape = tuple[int, ...]
RAW = QFormat("int32", (1.0,))  # of constants that are not numbers of a tensor


@dataclass(frozen=True, slots=True)
class Held:
    """An ONNX tensor, the stored tensor that has its elements, and in what layout."""

    tensor: str
    shape: Shape
    layout: Layout


@dataclass(frozen=True, slots=True)
class Sums:
    """What a MAC layer multiplies with and adds in the end: `real = input_scale * scale * (sum + bias)`, by channel.

    `axis` is the ONNX axis of the channels of its output.
    """

    input_scale: float
    scale: NDArray[np.float64]  # (cout,)
    bias: NDArray[np.int64]  # (cout,)
    axis: int


@dataclass
class Builder:
    """State of one lowering. `readers` are the sites that read each tensor."""

    target: Target
    quantization: Quantization
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layouts: Mapping[str, Layout]
    readers: Mapping[str, tuple[Site, ...]]
    reserved: frozenset[str]  # ONNX names: no helper tensor may take one
    tensors: dict[str, Tensor] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    flat: dict[str, str] = field(default_factory=dict)  # flattened tensors nobody made: a Gemm reads the image instead
    fused: set[int] = field(default_factory=set)  # indices of sites that an earlier layer already does
    converted: dict[tuple[str, str, Layout, int], str] = field(default_factory=dict)
    in_formats: dict[tuple[str, QFormat], str] = field(default_factory=dict)
    origins: dict[str, tuple[Site, ...]] = field(default_factory=dict)  # by name of the layer: what it does
    sums: dict[str, Sums] = field(default_factory=dict)  # by first output of the site
    without: frozenset[str] = frozenset()  # optimisations that are switched off, as `axtool.optimizations` names them
    current: tuple[Site, ...] = ()  # the site being lowered: the origin of what it needs done first

    # -- what is known ---------------------------------------------------------------------------------------------

    def format(self, name: str) -> QFormat:
        """The format of an ONNX tensor. Raises ValueError when quantization gave none, or one that no layer takes."""
        fmt = self.quantization.formats.get(name)
        if fmt is None:
            raise ValueError(f"tensor '{name}' has no format")
        if fmt.kind == "fp16" or (fmt.kind == "fx32" and fmt.fraction_bits is not None):
            return fmt
        if fmt.kind not in ("int8", "int16") or len(fmt.scale) != 1 or len(fmt.zero_point) != 1:
            raise ValueError(f"tensor '{name}': want int8 or int16 with one scale and zero point, got {fmt}")
        if fmt.kind == "int16" and fmt.zero_point[0]:
            raise ValueError(f"tensor '{name}': want the zero point 0 for int16, got {fmt.zero_point[0]}")
        return fmt

    @cached_property
    def mixed(self) -> bool:
        """Whether any tensor is stored in fx32 or fp16."""
        return any(fmt.kind in PRECISE for fmt in self.quantization.formats.values())

    def precision(self, site: Site) -> Precision:
        """What a site computes in: "int8" stands for int16 as well, which its formats tell apart."""
        if self.mixed and moves_whole(site):
            return "fx32" if any(self.is_precise(name) for name in site.outputs) else "int8"
        return computes_in(site, self.quantization.precision, [x for x in site.inputs if self.is_precise(x)])

    def is_precise(self, name: str) -> bool:
        """Whether an ONNX tensor is stored in fx32 or fp16."""
        fmt = self.quantization.formats.get(name)
        return fmt is not None and fmt.kind in PRECISE

    def only_reader(self, name: str) -> Site | None:
        """The one site that reads the tensor, when nobody else sees it: none that computes in something else."""
        readers = self.readers.get(name, ())
        if len(readers) != 1 or name in self.outputs:
            return None
        same = all(self.precision(site) == self.precision(readers[0]) for site in self.current)
        return readers[0] if same else None

    def is_used(self, name: str) -> bool:
        return bool(self.readers.get(name)) or name in self.outputs

    def free_name(self, wish: str) -> str:
        """`wish`, or `wish` with the first number that makes it unique."""
        name, count = wish, 1
        while name in self.tensors or name in self.reserved:
            count += 1
            name = f"{wish}.{count}"
        return name

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, name: str, layout: Layout, rank: int = 0, kind: Kind | None = None) -> str:
        """The stored tensor that holds an ONNX tensor in a layout, seen with `rank` dimensions (ones in front).

        Its numbers are of that kind (int8: of int8 or int16), by default of what the site being lowered computes in;
        a site of fp16, or one that only moves numbers, sees them as they are held.
        """
        held = self.in_kind(name, kind or self._kind_read())
        rank = rank or len(held.shape)
        key = (name, held.tensor, layout, rank)
        if key not in self.converted:
            lift = rank - len(held.shape)
            have = tuple(None if a is None else a + lift for a in axes_of(len(held.shape), held.layout))
            perm = permutation((have[0], have[1], have[2]), axes_of(rank, layout))
            shape = (1,) * lift + held.shape
            self.converted[key] = self.transposed(held.tensor, perm, Held("", shape, layout), f"{name}/{layout}")
        return self.converted[key]

    def _kind_read(self) -> Kind | None:
        """The kind of numbers that the site being lowered asks for; None: any."""
        site = self.current[0] if self.current else None
        if site is None or not self.mixed or self.precision(site) == "fp16":
            return None
        return None if moves_whole(site) and self.precision(site) in PRECISE else self.precision(site)

    def seen(self, name: str) -> Held:
        """An ONNX tensor in numbers of the kind that the site being lowered reads."""
        return self.in_kind(name, self._kind_read())

    def in_kind(self, name: str, kind: Kind | None) -> Held:
        """An ONNX tensor in numbers of a kind, converted where it is held in others, once."""
        held = self.held[name]
        have = self.tensors[held.tensor].format
        if kind is None or have.kind == kind or (kind in ("int8", "int16") and have.kind in ("int8", "int16")):
            return held
        if kind == "fx32":
            want: QFormat | None = as_fx32(have, self.quantization.ranges.get(name))
        else:
            want = QFormat("fp16") if kind == "fp16" else self.quantization.read_as.get(name)
        if want is None:
            raise ValueError(f"tensor '{name}' is {have.kind}, and nothing says in which {kind} it is read")
        key = (name, want)
        if key not in self.in_formats:
            self.in_formats[key] = self.in_format(held.tensor, want)
        return replace(held, tensor=self.in_formats[key])

    def transposed(self, tensor: str, perm: Sequence[int], as_: Held, wish: str, origin: Sequence[Site] = ()) -> str:
        """The stored tensor with its axes permuted: itself, when that moves nothing."""
        source = self.tensors[tensor]
        dims = source.numbers
        if moves_nothing((1, *dims), (perm[0], perm[1], perm[2])):
            return tensor
        *before, last = permute_steps(dims, (perm[0], perm[1], perm[2]), source.number_bytes)
        for op, size, attrs in before:
            half = self.free_name(f"{wish}/moved")
            onnx_shape = (1, *size)
            made = Tensor(half, stored_shape(onnx_shape, LAST, source.number_bytes), source.format, LAST, onnx_shape)
            tensor = self.layer(op, (tensor,), made, attrs, origin)
        made = replace(self.describe(wish, as_.shape, as_.layout, source.format), name=self.free_name(wish))
        return self.layer(last[0], (tensor,), made, last[2], origin)

    # -- making ----------------------------------------------------------------------------------------------------

    def describe(self, name: str, shape: Shape, layout: Layout, fmt: QFormat | None = None) -> Tensor:
        """The stored tensor of an ONNX tensor, in its own format when none is given."""
        fmt = fmt or self.format(name)
        return Tensor(name, stored_shape(shape, layout, BYTES[fmt.kind]), fmt, layout, shape)

    def layer(
        self, op: str, inputs: Sequence[str], made: Tensor, attrs: Mapping[str, Any], origin: Sequence[Site] = ()
    ) -> str:
        """Add a layer that makes a stored tensor. One without an origin is there for the site being lowered."""
        self.tensors[made.name] = made
        names = tuple(dict.fromkeys(site.name for site in origin or self.current))
        title = origin[0].name if origin and op != "requantize" else f"{made.name}/{op}"
        if title in self.origins:
            title = f"{title}/{made.name}"
        self.origins[title] = tuple(origin or self.current)
        self.layers.append(Layer(op, tuple(inputs), (made.name,), dict(attrs), names, title))
        return made.name

    def hold(self, name: str, tensor: str, shape: Shape, layout: Layout) -> None:
        """From now on the ONNX tensor is held by that stored tensor."""
        self.held[name] = Held(tensor, shape, layout)

    def make(
        self, op: str, inputs: Sequence[str], site: Site, attrs: Mapping[str, Any], layout: Layout,
        out: str = "", origin: Sequence[Site] = (), fmt: QFormat | None = None,
    ) -> None:  # fmt: skip
        """Add the layer that makes an output of a site, in its own format when none is given."""
        out = out or site.outputs[0]
        owner = origin[-1] if origin else site
        made = self.describe(out, owner.shapes[out], layout, fmt)
        self.hold(out, self.layer(op, inputs, made, attrs, origin or (site,)), made.onnx_shape, layout)

    def keep(self, op: str, source: str, site: Site, attrs: Mapping[str, Any], layout: Layout, out: str = "") -> None:
        """As `make`, for an op that cannot change the format: a requantize follows when the formats differ."""
        out = out or site.outputs[0]
        have = self.tensors[source].format
        attrs = in_byte_channels(attrs, self.tensors[source].number_bytes)
        if self.same_format(source, out):
            self.make(op, (source,), site, attrs, layout, out)
            return
        raw = replace(self.describe(out, site.shapes[out], layout, have), name=self.free_name(f"{out}/raw"))
        self.layer(op, (source,), raw, attrs, (site,))
        self.requantize(raw.name, site, layout, out)

    def alias(self, source: str, site: Site, layout: Layout, out: str = "") -> None:
        """The output is the stored tensor itself, requantized when the formats differ."""
        out = out or site.outputs[0]
        if self.same_format(source, out):
            self.hold(out, source, site.shapes[out], layout)
        else:
            self.requantize(source, site, layout, out)

    def requantize(
        self, source: str, site: Site, layout: Layout, out: str, bounds: tuple[float, float] = (-inf, inf)
    ) -> None:
        """The same real numbers, cut at the bounds, in the format of `out`."""
        want = self.format(out)
        ends = {"lo": step_of(bounds[0], want), "hi": step_of(bounds[1], want)}
        op, attrs = requantizing(self.tensors[source].format, want)
        self.make(op, (source,), site, attrs | ends, layout, out)

    def in_format(self, tensor: str, fmt: QFormat) -> str:
        """A stored tensor with the same real numbers in a format: itself, when it has it."""
        for op, attrs, made_in in conversion(self.tensors[tensor].format, fmt):
            source = self.tensors[tensor]
            name = self.free_name(f"{tensor}/{made_in.kind}")
            made = replace(self.describe(name, source.onnx_shape, source.layout, made_in), name=name)
            tensor = self.layer(op, (tensor,), made, attrs)
        return tensor

    def same_format(self, source: str, out: str) -> bool:
        """Whether an ONNX tensor has the format of a stored tensor; true when quantization gave it none."""
        return out not in self.quantization.formats or self.format(out) == self.tensors[source].format

    def constant(self, wish: str, values: NDArray[Any], fmt: QFormat = RAW) -> str:
        """A constant and its description."""
        name = self.free_name(wish)
        self.constants[name] = np.ascontiguousarray(values)
        self.tensors[name] = Tensor(name, tuple(int(n) for n in values.shape), fmt)
        return name

    # -- the end ---------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        """The finished program: each stage output under its own name, by a copy where one tensor has two of them."""
        self.current = ()
        names: dict[str, str] = {}
        for out in self.outputs:
            root = self.held[out].tensor
            if root == out:
                continue
            if root in self.inputs or root in self.outputs or root in names or root in self.constants:
                made = replace(self.tensors[root], name=out)
                self.layer("reshape", (root,), made, {})
            else:
                names[root] = out
        for root, out in names.items():
            self.tensors[out] = replace(self.tensors.pop(root), name=out)
        for out in self.outputs:
            held = self.held[out]
            self.tensors[out] = replace(self.tensors[out], layout=held.layout, onnx_shape=held.shape)
        layers = tuple(
            replace(layer, inputs=_renamed(layer.inputs, names), outputs=_renamed(layer.outputs, names))
            for layer in self.layers
        )
        return Program(self.tensors, layers, self.constants, self.inputs, self.outputs)


def step_of(real: float, fmt: QFormat) -> int:
    """The number of a format closest to a real one; infinities are the ends."""
    lo, hi = LIMITS[fmt.kind]
    if real in (inf, -inf):
        return hi if real > 0 else lo
    return int(np.clip(np.rint(real / fmt.scale[0] + fmt.zero_point[0]), lo, hi))


def spatial(values: Sequence[int | None], axes: Axes, default: int) -> tuple[int, int, int]:
    """Values given for each ONNX axis, as (h, w, c)."""
    h, w, c = (default if axis is None else int(values[axis] or 0) for axis in axes)
    return h, w, c


def _renamed(given: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(name, name) for name in given)
