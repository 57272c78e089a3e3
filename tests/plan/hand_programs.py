"""Small Programs written by hand, with random weights, for tests of the planner and of the timing."""

from __future__ import annotations

import numpy as np

from axtool.ops import packing
from axtool.ops.encoding import encode_command, encode_layer, ragged
from axtool.sim.engine import open_engine
from axtool.types import Layer, Plan, Program, QFormat, Tensor

FORMAT = QFormat("int8", (0.05,), (3,))
QUARTER = 1 << 28  # with f = 30: a quarter, as mantissa


class Net:
    """Adds one layer at a time; each method returns the name of the tensor that it makes."""

    def __init__(self, h: int, w: int, c: int, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.tensors: dict[str, Tensor] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.layers: list[Layer] = []
        self.inputs = [self.tensor("x", h, w, c)]

    def tensor(self, name: str, h: int, w: int, c: int) -> str:
        self.tensors[name] = Tensor(name, (1, h, w, c), FORMAT, "channel_last", (1, c, h, w))
        return name

    def input(self, name: str, h: int, w: int, c: int) -> str:
        self.inputs.append(self.tensor(name, h, w, c))
        return name

    def dims(self, name: str) -> tuple[int, int, int]:
        return self.tensors[name].shape[1:]

    def program(self, *outputs: str) -> Program:
        return Program(self.tensors, tuple(self.layers), self.constants, tuple(self.inputs), outputs)

    def layer(self, op: str, inputs: tuple[str, ...], dims: tuple[int, int, int], **attrs: object) -> str:
        at = len(self.layers)
        out = self.tensor(f"t{at}", *dims)
        self.layers.append(Layer(op, inputs, (out,), attrs, (f"/{op}_{at}",), f"{op}_{at}"))
        return out

    def constant(self, name: str, values: np.ndarray) -> str:
        name = f"{name}{len(self.layers)}"
        self.constants[name] = values
        self.tensors.setdefault(name, Tensor(name, values.shape, FORMAT))
        return name

    def conv(self, x, cout, k=3, stride=1, pad=None, dilation=1, group=1, act=0, op="conv") -> str:
        h, w, cin = self.dims(x)
        pad = k // 2 * dilation if pad is None else pad
        taps = k * k * (cin // group)
        if op == "conv_transpose":
            oh, ow = ((n - 1) * stride + (k - 1) * dilation + 1 - 2 * pad for n in (h, w))
            values = self.int8(cin, cout // group, k, k)
            weights = packing.pack_conv_weights(packing.outputs_first(values, group), group)
            wsum = values.reshape(group, -1, cout // group, k * k).sum(axis=(1, 3), dtype=np.int64).reshape(-1)
        else:
            oh, ow = ((n + 2 * pad - (k - 1) * dilation - 1) // stride + 1 for n in (h, w))
            values = self.int8(cout, cin // group, k, k)
            wsum = values.reshape(cout, -1).sum(axis=1, dtype=np.int64)
            weights = packing.pack_depthwise(values) if op == "depthwise" else packing.pack_conv_weights(values, group)
        f = 20 if act else 30  # behind a table the result is an int16 of 273 to an output step
        m = np.full(cout, int(2**f * (273 if act else 1) * 0.6 / (74 * taps**0.5)))
        bias = packing.fold_bias(self.random.integers(-500, 500, cout), 3, wsum)
        params = packing.pack_params(bias, m, f, wsum, 1 if op == "depthwise" else group)
        names = [x, self.constant("w", weights), self.constant("p", params)]
        if act:
            names.append(self.constant("table", np.arange(-512, 513).astype(np.int16) * 30))
        return self.layer(
            op, tuple(names), (oh, ow, cout), kernel=(k, k), stride=(stride, stride), dilation=(dilation, dilation),
            pad=(pad, pad), group=group, x_zp=3, out_zp=-2, lo=-128, hi=127, act=act,
        )  # fmt: skip

    def depthwise(self, x, k=3, stride=1) -> str:
        c = self.dims(x)[2]
        return self.conv(x, c, k, stride, group=c, op="depthwise")

    def add(self, a, b, sub=0) -> str:
        da, db = self.dims(a), self.dims(b)
        out = tuple(max(p, q) for p, q in zip(da, db, strict=True))
        return self.layer(
            "add", (a, b), out, a=da, b=db, zp_a=3, m_a=3 * QUARTER, f_a=30, zp_b=3, m_b=2 * QUARTER, f_b=30,
            out_zp=1, lo=-128, hi=127, sub=sub,
        )  # fmt: skip

    def mul(self, a, b) -> str:
        da, db = self.dims(a), self.dims(b)
        out = tuple(max(p, q) for p, q in zip(da, db, strict=True))
        return self.layer(
            "mul", (a, b), out, a=da, b=db, zp_a=3, zp_b=3, m=QUARTER // 8, f=30, out_zp=1, lo=-128, hi=127
        )

    def operand(self, h, w, c) -> str:
        return self.constant("operand", self.int8(1, h, w, c))

    def concat(self, *names: str, axis: int = 2) -> str:
        out, parts, at = list(self.dims(names[0])), [], 0
        for i, name in enumerate(names):
            parts += [at, 3, 0 if i % 2 else 3 * QUARTER, 30]
            at += self.dims(name)[axis]
        out[axis] = at
        return self.layer("concat", names, tuple(out), axis=axis, out_zp=3, parts=tuple(parts))

    def max_pool(self, x, k=3, stride=2, pad=1) -> str:
        h, w, c = self.dims(x)
        oh, ow = ((n + 2 * pad - k) // stride + 1 for n in (h, w))
        return self.layer(
            "max_pool", (x,), (oh, ow, c), kernel=(k, k), stride=(stride, stride), dilation=(1, 1), pad=(pad, pad)
        )

    def avg_pool(self, x, k=3, stride=1, pad=1) -> str:
        h, w, c = self.dims(x)
        kh, kw = (h, w) if k == 0 else (k, k)
        oh, ow = ((n + 2 * pad - kk) // stride + 1 for n, kk in ((h, kh), (w, kw)))
        rows = [(count, int(2**34 / count), 34) for count in range(1, kh * kw + 1) if 2**34 / count < 2**31]
        rows += [(count, int(2**30 / count), 30) for count in range(1, kh * kw + 1) if 2**34 / count >= 2**31]
        name = self.constant("counts", np.asarray(sorted(rows), np.int32))
        return self.layer(
            "avg_pool", (x, name), (oh, ow, c), kernel=(kh, kw), stride=(stride, stride), dilation=(1, 1),
            pad=(pad, pad), pad_end=(pad, pad), include_pad=0, zp=3, out_zp=1, lo=-128, hi=127,
        )  # fmt: skip

    def lut(self, x, per_channel=0) -> str:
        c = self.dims(x)[2]
        table = self.int8(c, 256) if per_channel else self.int8(256)
        return self.layer("lut", (x, self.constant("lut", table)), self.dims(x), per_channel=per_channel)

    def requantize(self, x) -> str:
        return self.layer("requantize", (x,), self.dims(x), zp=3, m=3 * QUARTER, f=30, out_zp=-4, lo=-128, hi=127)

    def slice(self, x, start, step, dims) -> str:
        return self.layer("slice", (x,), dims, start=start, step=step)

    def pad(self, x, before, after, mode=0) -> str:
        dims = tuple(b + n + a for b, n, a in zip(before, self.dims(x), after, strict=True))
        return self.layer("pad", (x,), dims, before=before, mode=mode, value=5)

    def resize(self, x, factor=2, linear=False) -> str:
        h, w, c = self.dims(x)
        dims = (h * factor, w * factor, c)
        if not linear:
            return self.layer("resize_nearest", (x,), dims, factor=(factor, factor))
        m = int(2**30 / (4 * factor * factor))
        return self.layer("resize_linear", (x,), dims, factor=(factor, factor), mode=0, zp=3, m=m, f=30, out_zp=3)

    def transpose(self, x, perm) -> str:
        dims = self.dims(x)
        return self.layer("transpose", (x,), tuple(dims[p] for p in perm), perm=perm)

    def reshape(self, x, dims) -> str:
        return self.layer("reshape", (x,), dims)

    def depth_to_space(self, x, block=2, mode=0) -> str:
        h, w, c = self.dims(x)
        return self.layer("depth_to_space", (x,), (h * block, w * block, c // block // block), block=block, mode=mode)

    def space_to_depth(self, x, block=2) -> str:
        h, w, c = self.dims(x)
        return self.layer("space_to_depth", (x,), (h // block, w // block, c * block * block), block=block)

    def int8(self, *shape: int) -> np.ndarray:
        return self.random.integers(-128, 128, shape, np.int8)


def residual_net(h: int = 40, w: int = 44, c: int = 24) -> Program:
    """conv, pool, two residual blocks, a concat and a head: most of what a detector does."""
    net = Net(h, w, 3)
    stem = net.max_pool(net.conv("x", c, 3, act=1))
    a = net.conv(stem, c, 3, act=1)
    b = net.add(net.conv(a, c, 1), stem)
    d = net.add(net.depthwise(b), net.operand(1, 1, c))
    up = net.resize(net.conv(d, c, 3, stride=2), 2)
    joined = net.concat(net.slice(up, (0, 0, 0), (1, 1, 1), net.dims(d)), d, b)
    head = net.conv(joined, 20, 1)
    return net.program(head, d)


def every_op() -> Program:
    """Each device op once, on odd sizes."""
    net = Net(10, 12, 8)
    x = net.conv("x", 20, 3, act=1)
    x = net.conv(x, 24, 3, group=2, dilation=2)
    x = net.conv(x, 24, 4, stride=2, pad=1, op="conv_transpose")
    x = net.lut(net.depthwise(x, 5), per_channel=1)
    y = net.mul(net.max_pool(x), net.lut(net.avg_pool(x, 3, 2, 1)))
    y = net.add(y, net.operand(1, 1, 24), sub=1)
    z = net.pad(y, (1, 2, 0), (3, 1, 4), mode=1)
    z = net.space_to_depth(net.slice(z, (13, 0, 27), (-1, 1, -1), (12, 14, 20)))
    z = net.depth_to_space(net.resize(net.requantize(z), 2, linear=True), 2, mode=1)
    z = net.pad(net.transpose(z, (2, 0, 1)), (0, 1, 1), (0, 1, 1), mode=2)
    h, w, c = net.dims(z)
    z = net.reshape(z, (c, h, w))
    z = net.resize(net.slice(net.pad(z, (0, 1, 0), (2, 0, 0)), (0, 0, 0), (3, 1, 2), (9, 11, 13)), 3)
    return net.program(net.add(z, net.avg_pool(z, 0, 1, 0)), y)


def run(plan: Plan, feeds: dict[str, np.ndarray], engine: str = "reference") -> dict[str, np.ndarray]:
    """The outputs (h, w, c) of a plan on int8 inputs (h, w, c). Memory not written by anyone is noise."""
    target_pixel = {name: plan_pixel(plan, name) for name in (*plan.program.inputs, *plan.program.outputs)}
    noise = np.random.default_rng(9)
    ext = noise.integers(0, 256, plan.sizes["ext"], np.uint8)
    ocm = noise.integers(0, 256, plan.sizes["ocm"], np.uint8)
    slots = {slot.tensor: slot for slot in plan.slots if slot.memory == "ext"}
    for name, array in plan.program.constants.items():
        raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        ext[slots[name].offset : slots[name].offset + raw.size] = raw
    for name, values in feeds.items():
        _pixels(ext, slots[name].offset, values.shape, target_pixel[name])[...] = values.view(np.uint8)
    layers = ragged([encode_layer(layer, plan.program) for layer in plan.program.layers])
    commands = ragged([encode_command(command) for command in plan.commands])
    open_engine(engine, *layers, *commands, plan.sizes).run(ext, ocm)
    return {
        name: _pixels(ext, slots[name].offset, plan.program.tensors[name].shape[1:], target_pixel[name])
        .view(np.int8)
        .copy()
        for name in plan.program.outputs
    }


def feeds_of(program: Program, seed: int = 5) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {name: random.integers(-128, 128, program.tensors[name].shape[1:], np.int8) for name in program.inputs}


def plan_pixel(plan: Plan, name: str) -> int:
    """Bytes between the pixels of a whole tensor in external memory: its slot holds exactly its pixels."""
    size = next(slot.size for slot in plan.slots if slot.memory == "ext" and slot.tensor == name)
    _, h, w, _ = plan.program.tensors[name].shape
    return size // (h * w)


def _pixels(memory: np.ndarray, offset: int, dims: tuple[int, int, int], pixel: int) -> np.ndarray:
    h, w, c = dims
    return memory[offset : offset + h * w * pixel].reshape(h, w, pixel)[:, :, :c]
