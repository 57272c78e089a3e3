"""YOLO v9, v10, 11 and 26 up to their head convolutions, and the heads of poses, masks and rotated boxes, as shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from onnx import helper

from benchmarks.validation.shapes import Built, Shapes, finish, scaled

Block = Callable[[str, int], str]
V10_SIZES = {"n": (0.33, 0.25, 1024), "s": (0.33, 0.5, 1024), "b": (0.67, 1.0, 512)}
V11_SIZES = {"n": (0.5, 0.25, 1024), "s": (0.5, 0.5, 1024), "m": (0.5, 1.0, 512), "l": (1.0, 1.0, 512),
             "x": (1.0, 1.5, 512)}  # fmt: skip
# Channels of the stem, of the four stages, of the two ways down; bottlenecks of a block; whether AConv or ADown.
V9_SIZES = {
    "t": ((16, 32), (32, 64, 96, 128), (48, 64), 3),
    "s": ((32, 64), (64, 128, 192, 256), (96, 128), 3),
    "m": ((32, 64), (128, 240, 360, 480), (184, 240), 1),
}


def yolo_v9(name: str, size: int = 640, classes: int = 80, *, grouped: bool = False) -> Built:
    """YOLOv9 t, s or m without the branch of the training. `grouped`: the box branch of the authors' own head."""
    stem, stages, down, repeat = V9_SIZES[name]
    net = Shapes(f"yolov9{name}", size)
    x = "images"
    for cout in stem:
        x = _conv(net, x, cout, 3, 2)
    x = _elan(net, x, stages[0], repeat) if repeat == 1 else _elan_plain(net, x, stages[0])
    kept = []
    for cout in stages[1:]:
        x = _elan(net, _average_down(net, x, cout), cout, repeat)
        kept.append(x)
    top = _pooled(net, x, stages[3])
    n4 = _elan(net, net.concat(net.upsample(top), kept[1]), stages[2], repeat)
    o3 = _elan(net, net.concat(net.upsample(n4), kept[0]), stages[1], repeat)
    o4 = _elan(net, net.concat(_average_down(net, o3, down[0]), n4), stages[2], repeat)
    o5 = _elan(net, net.concat(_average_down(net, o4, down[1]), top), stages[3], repeat)
    return finish(net, *_plain_heads(net, (o3, o4, o5), classes, groups=4 if grouped else 1))


def yolo_v9c(size: int = 640, classes: int = 80) -> Built:
    """YOLOv9-C without the branch of the training, which is GELAN-C."""
    net = Shapes("yolov9c", size)
    x = _conv(net, _conv(net, "images", 64, 3, 2), 128, 3, 2)
    x = _elan(net, x, 256, 1, 128)
    p3 = _elan(net, _split_down(net, x, 256), 512, 1, 256)
    p4 = _elan(net, _split_down(net, p3, 512), 512, 1)
    p5 = _elan(net, _split_down(net, p4, 512), 512, 1)
    top = _pooled(net, p5, 512)
    n4 = _elan(net, net.concat(net.upsample(top), p4), 512, 1)
    o3 = _elan(net, net.concat(net.upsample(n4), p3), 256, 1)
    o4 = _elan(net, net.concat(_split_down(net, o3, 256), n4), 512, 1)
    o5 = _elan(net, net.concat(_split_down(net, o4, 512), top), 512, 1)
    return finish(net, *_plain_heads(net, (o3, o4, o5), classes))


def yolo_v10(name: str, size: int = 640, classes: int = 80) -> Built:
    """The head without non-maximum suppression: one branch of the two that are trained."""
    depth, width, most = V10_SIZES[name]
    net = Shapes(f"yolov10{name}", size)

    channels = scaled(width, most)

    def times(repeat: int) -> int:
        return max(1, round(repeat * depth))

    def c2f(x: str, cout: int, repeat: int, *, shortcut: bool = True, compact: bool = False) -> str:
        block = _compact if compact else _bottleneck
        return _c2f(net, x, channels(cout), times(repeat), lambda y, c: block(net, y, c, shortcut))

    def down(x: str, cout: int) -> str:  # channels first, then the stride in a depthwise convolution
        return net.depthwise(_conv(net, x, channels(cout)), 3, 2)

    large = name == "b"
    x = c2f(_conv(net, _conv(net, "images", channels(64), 3, 2), channels(128), 3, 2), 128, 3)
    p3 = c2f(_conv(net, x, channels(256), 3, 2), 256, 6)
    p4 = c2f(down(p3, 512), 512, 6)
    p5 = c2f(down(p4, 1024), 1024, 3, compact=name != "n")
    top = _psa(net, _sppf(net, p5), blocks=1)
    n4 = c2f(net.concat(net.upsample(top), p4), 512, 3, shortcut=large, compact=large)
    o3 = c2f(net.concat(net.upsample(n4), p3), 256, 3, shortcut=False)
    o4 = c2f(net.concat(_conv(net, o3, channels(256), 3, 2), n4), 512, 3, shortcut=large, compact=large)
    o5 = c2f(net.concat(down(o4, 512), top), 1024, 3, compact=True)
    return finish(net, *_light_heads(net, (o3, o4, o5), classes))


def yolo_11(name: str, size: int = 640, classes: int = 80, task: str = "detect") -> Built:
    """YOLO11; `task` is detect, pose, seg or obb. The attention block is written as exporters do."""
    depth, width, most = V11_SIZES[name]
    net = Shapes(f"yolo11{name}", size)
    nested = name in ("m", "l", "x")

    channels = scaled(width, most)

    def conv(x: str, cout: int) -> str:
        return _conv(net, x, channels(cout), 3, 2)

    def c3k2(x: str, cout: int, *, deep: bool = False, part: float = 0.5) -> str:
        def block(y: str, c: int) -> str:
            return _c3k(net, y, c) if deep or nested else _bottleneck(net, y, c, True, c // 2)

        return _c2f(net, x, channels(cout), max(1, round(2 * depth)), block, int(channels(cout) * part))

    x = c3k2(conv(conv("images", 64), 128), 256, part=0.25)
    p3 = c3k2(conv(x, 256), 512, part=0.25)
    p4 = c3k2(conv(p3, 512), 512, deep=True)
    p5 = c3k2(conv(p4, 1024), 1024, deep=True)
    top = _psa(net, _sppf(net, p5), blocks=max(1, round(2 * depth)))
    n4 = c3k2(net.concat(net.upsample(top), p4), 512)
    o3 = c3k2(net.concat(net.upsample(n4), p3), 256)
    o4 = c3k2(net.concat(conv(o3, 256), n4), 512)
    o5 = c3k2(net.concat(conv(o4, 512), top), 1024, deep=True)
    levels = (o3, o4, o5)
    return finish(net, *_light_heads(net, levels, classes), *task_heads(net, levels, task, channels(256)))


def yolo_26(name: str, size: int = 640, classes: int = 80, task: str = "detect") -> Built:
    """YOLO26: YOLO11 with nested blocks on the way up, attention in the last, and boxes of four numbers."""
    depth, width, most = V11_SIZES[name]
    net = Shapes(f"yolo26{name}", size)
    nested = name in ("m", "l", "x")

    channels = scaled(width, most)

    def conv(x: str, cout: int) -> str:
        return _conv(net, x, channels(cout), 3, 2)

    def c3k2(x: str, cout: int, *, deep: bool = True, part: float = 0.5, attends: bool = False) -> str:
        def block(y: str, c: int) -> str:
            if attends:
                return _psa_block(net, _bottleneck(net, y, c, True, c // 2))
            return _c3k(net, y, c) if deep or nested else _bottleneck(net, y, c, True, c // 2)

        times = 1 if attends else max(1, round(2 * depth))
        return _c2f(net, x, channels(cout), times, block, int(channels(cout) * part))

    x = c3k2(conv(conv("images", 64), 128), 256, deep=False, part=0.25)
    p3 = c3k2(conv(x, 256), 512, deep=False, part=0.25)
    p4 = c3k2(conv(p3, 512), 512)
    p5 = c3k2(conv(p4, 1024), 1024)
    top = _psa(net, net.add(p5, _sppf(net, p5)), blocks=max(1, round(2 * depth)))
    n4 = c3k2(net.concat(net.upsample(top), p4), 512)
    o3 = c3k2(net.concat(net.upsample(n4), p3), 256)
    o4 = c3k2(net.concat(conv(o3, 256), n4), 512)
    o5 = c3k2(net.concat(conv(o4, 512), top), 1024, attends=True)
    levels = (o3, o4, o5)
    return finish(net, *_light_heads(net, levels, classes, 4), *task_heads(net, levels, task, channels(256)))


def task_heads(net: Shapes, levels: Sequence[str], task: str, prototypes: int) -> list[str]:
    """A branch of key points (17 x 3), of mask coefficients (32) with prototypes of the first level, or of an angle."""
    extra = {"detect": 0, "pose": 51, "seg": 32, "obb": 1}[task]
    if not extra:
        return []
    width = max(net.channels[levels[0]] // 4, extra)
    made = [net.conv(_conv(net, _conv(net, x, width, 3), width, 3), extra) for x in levels]
    if task == "seg":
        x = net.deconv(_conv(net, levels[0], prototypes, 3), prototypes)
        made.append(_conv(net, _conv(net, x, prototypes, 3), 32))
    return made


def _plain_heads(net: Shapes, levels: Sequence[str], classes: int, groups: int = 1) -> list[str]:
    box = max(16, net.channels[levels[0]] // 4, 64)
    cls = max(net.channels[levels[0]], min(classes, 100))
    heads = []
    for x in levels:
        y = net.conv(_conv(net, x, box, 3), box, 3, group=groups, act="silu")
        heads.append(net.conv(y, 64, group=groups))
        heads.append(net.conv(_conv(net, _conv(net, x, cls, 3), cls, 3), classes))
    return heads


def _light_heads(net: Shapes, levels: Sequence[str], classes: int, numbers: int = 64) -> list[str]:
    """Boxes as in YOLOv8, of so many numbers; classes by depthwise 3x3 and 1x1 in turn."""
    box = max(16, net.channels[levels[0]] // 4, numbers)
    cls = max(net.channels[levels[0]], min(classes, 100))
    heads = []
    for x in levels:
        heads.append(net.conv(_conv(net, _conv(net, x, box, 3), box, 3), numbers))
        y = _conv(net, net.depthwise(x, 3, 1, "silu"), cls)
        heads.append(net.conv(_conv(net, net.depthwise(y, 3, 1, "silu"), cls), classes))
    return heads


def _conv(net: Shapes, x: str, cout: int, k: int = 1, s: int = 1) -> str:
    return net.conv(x, cout, k, s, act="silu")


def _c2f(net: Shapes, x: str, cout: int, repeat: int, block: Block, inner: int | None = None) -> str:
    inner = cout // 2 if inner is None else inner
    parts = net.halves(_conv(net, x, 2 * inner))
    for _ in range(repeat):
        parts.append(block(parts[-1], inner))
    return _conv(net, net.concat(*parts), cout)


def _bottleneck(net: Shapes, x: str, c: int, shortcut: bool, inner: int | None = None) -> str:
    y = _conv(net, _conv(net, x, c if inner is None else inner, 3), c, 3)
    return net.add(x, y) if shortcut else y


def _compact(net: Shapes, x: str, c: int, shortcut: bool) -> str:
    """Depthwise 3x3, 1x1 to twice the channels, depthwise, 1x1 back, depthwise (a 7x7 merges into its 3x3)."""
    y = _conv(net, net.depthwise(x, 3, 1, "silu"), 2 * c)
    y = net.depthwise(_conv(net, net.depthwise(y, 3, 1, "silu"), c), 3, 1, "silu")
    return net.add(x, y) if shortcut else y


def _c3k(net: Shapes, x: str, c: int) -> str:
    half = c // 2
    y = _conv(net, x, half)
    for _ in range(2):
        y = _bottleneck(net, y, half, True)
    return _conv(net, net.concat(y, _conv(net, x, half)), c)


def _sppf(net: Shapes, x: str) -> str:
    parts = [_conv(net, x, net.channels[x] // 2)]
    for _ in range(3):
        parts.append(net.max_pool(parts[-1], 5, 1, 2))
    return _conv(net, net.concat(*parts), net.channels[x])


def _psa(net: Shapes, x: str, blocks: int) -> str:
    """Half of the channels through blocks of attention and a feed-forward layer."""
    c = net.channels[x] // 2
    a, b = net.halves(_conv(net, x, 2 * c))
    for _ in range(blocks):
        b = _psa_block(net, b)
    return _conv(net, net.concat(a, b), net.channels[x])


def _psa_block(net: Shapes, x: str) -> str:
    c = net.channels[x]
    x = net.add(x, _attention(net, x, max(1, c // 64)))
    return net.add(x, net.conv(_conv(net, x, 2 * c), c))


def _attention(net: Shapes, x: str, heads: int) -> str:
    """Softmax of queries by keys, times values, plus a depthwise convolution of the values; projected by 1x1."""
    c, pixels = net.channels[x], prod(net.size[x])
    width = c // heads
    key = width // 2
    cut = net.op("Reshape", net.conv(x, c + 2 * key * heads), _shape(net, 1, heads, 2 * key + width, pixels))
    names = [f"{cut}_{part}" for part in "qkv"]
    sizes = net.constant(np.array([key, key, width], np.int64))
    net.nodes.append(helper.make_node("Split", [cut, sizes], names, axis=2))
    q, k, v = names
    scores = net.op("MatMul", net.op("Transpose", q, perm=[0, 1, 3, 2]), k)
    scores = net.op("Softmax", net.op("Mul", scores, net.constant(np.float32(key**-0.5))), axis=-1)
    mixed = net.op("MatMul", v, net.op("Transpose", scores, perm=[0, 1, 3, 2]))
    back = [net.op("Reshape", part, _shape(net, 1, c, *net.size[x]), channels=c) for part in (mixed, v)]
    net.size |= dict.fromkeys(back, net.size[x])
    return net.conv(net.add(back[0], net.depthwise(back[1], 3)), c)


def _shape(net: Shapes, *dims: int) -> str:
    return net.constant(np.array(dims, np.int64))


def _elan(net: Shapes, x: str, cout: int, repeat: int, inner: int | None = None) -> str:
    """Two chains of a split block and a 3x3 behind one another, all of them joined."""
    inner = cout if inner is None else inner
    parts = net.halves(_conv(net, x, inner))
    for _ in range(2):
        parts.append(_conv(net, _csp(net, parts[-1], inner // 2, repeat), inner // 2, 3))
    return _conv(net, net.concat(*parts), cout)


def _elan_plain(net: Shapes, x: str, cout: int) -> str:
    parts = net.halves(_conv(net, x, cout))
    for _ in range(2):
        parts.append(_conv(net, parts[-1], cout // 2, 3))
    return _conv(net, net.concat(*parts), cout)


def _csp(net: Shapes, x: str, cout: int, repeat: int) -> str:
    half = cout // 2
    y = _conv(net, x, half)
    for _ in range(repeat):
        y = _bottleneck(net, y, half, True)
    return _conv(net, net.concat(y, _conv(net, x, half)), cout)


def _pooled(net: Shapes, x: str, cout: int) -> str:
    parts = [_conv(net, x, cout // 2)]
    for _ in range(3):
        parts.append(net.max_pool(parts[-1], 5, 1, 2))
    return _conv(net, net.concat(*parts), cout)


def _average_down(net: Shapes, x: str, cout: int) -> str:
    return _conv(net, net.average_pool(x, 2, 1), cout, 3, 2)


def _split_down(net: Shapes, x: str, cout: int) -> str:
    """Half of the channels by a 3x3 of stride 2, half by a pool and a 1x1."""
    a, b = net.halves(net.average_pool(x, 2, 1))
    return net.concat(_conv(net, a, cout // 2, 3, 2), _conv(net, net.max_pool(b, 3, 2, 1), cout // 2))
