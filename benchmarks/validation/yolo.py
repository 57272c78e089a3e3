"""YOLO v3, v4, v5 and v8 up to their head convolutions, as shapes."""

from __future__ import annotations

from math import ceil

from benchmarks.validation.shapes import Built, Shapes, finish, scaled
from benchmarks.validation.yolo_later import task_heads

V5_SIZES = {"n": (0.33, 0.25), "s": (0.33, 0.5), "m": (0.67, 0.75), "l": (1.0, 1.0), "x": (1.33, 1.25)}
V8_SIZES = {"n": (0.33, 0.25, 1024), "s": (0.33, 0.5, 1024), "m": (0.67, 0.75, 768), "l": (1.0, 1.0, 512),
            "x": (1.0, 1.25, 512)}  # fmt: skip


def yolo_v3(size: int = 416, classes: int = 80) -> Built:
    net = Shapes("yolov3", size)
    x = net.conv("images", 32, 3, act="leaky")
    kept = []
    for cout, repeat in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        x = net.conv(x, cout, 3, 2, act="leaky")
        for _ in range(repeat):
            x = net.add(x, net.conv(net.conv(x, cout // 2, act="leaky"), cout, 3, act="leaky"))
        kept.append(x)
    outputs = []
    for level, width in ((4, 512), (3, 256), (2, 128)):
        if level < 4:
            x = net.concat(net.upsample(net.conv(x, width, act="leaky")), kept[level])
        x = _five(net, x, width)
        outputs.append(net.conv(net.conv(x, 2 * width, 3, act="leaky"), 3 * (classes + 5)))
    return finish(net, *outputs)


def yolo_v4(size: int = 512, classes: int = 80, act: str = "leaky") -> Built:
    """CSPDarknet-53 with `act`, pooling pyramid, two-way path. The published network has Mish in the backbone."""
    net = Shapes("yolov4", size)
    x = net.conv("images", 32, 3, act=act)
    kept = []
    for cout, repeat in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        x = net.conv(x, cout, 3, 2, act=act)
        half = cout if cout == 64 else cout // 2
        short, y = net.conv(x, half, act=act), net.conv(x, half, act=act)
        for _ in range(repeat):
            y = net.add(y, net.conv(net.conv(y, cout // 2, act=act), half, 3, act=act))
        x = net.conv(net.concat(net.conv(y, half, act=act), short), cout, act=act)
        kept.append(x)
    x = net.conv(net.conv(net.conv(x, 512, act="leaky"), 1024, 3, act="leaky"), 512, act="leaky")
    x = net.concat(*(net.max_pool(x, k, 1, k // 2) for k in (13, 9, 5)), x)
    x = net.conv(net.conv(net.conv(x, 512, act="leaky"), 1024, 3, act="leaky"), 512, act="leaky")
    down = [x]
    for level, width in ((3, 256), (2, 128)):
        x = net.concat(net.conv(kept[level], width, act="leaky"), net.upsample(net.conv(x, width, act="leaky")))
        x = _five(net, x, width)
        down.append(x)
    outputs = [net.conv(net.conv(x, 256, 3, act="leaky"), 3 * (classes + 5))]
    for width, other in ((256, down[1]), (512, down[0])):
        x = _five(net, net.concat(net.conv(x, width, 3, 2, act="leaky"), other), width)
        outputs.append(net.conv(net.conv(x, 2 * width, 3, act="leaky"), 3 * (classes + 5)))
    return finish(net, *outputs)


def _five(net: Shapes, x: str, width: int) -> str:
    """1x1 and 3x3 in turn, five of them."""
    for at in range(5):
        x = net.conv(x, 2 * width if at % 2 else width, 3 if at % 2 else 1, act="leaky")
    return x


def yolo_v5(size_name: str, size: int = 640, classes: int = 80) -> Built:
    """Release 6: a 6x6 stem in place of the focus layer."""
    depth, width = V5_SIZES[size_name]
    net = Shapes(f"yolov5{size_name}", size)

    def conv(x: str, cout: int, k: int = 1, s: int = 1, pad: int | None = None) -> str:
        return net.conv(x, ceil(cout * width / 8) * 8, k, s, act="silu", pad=pad)

    def c3(x: str, cout: int, repeat: int, *, shortcut: bool = True) -> str:
        hidden, y = cout // 2, conv(x, cout // 2)
        for _ in range(max(1, round(repeat * depth))):
            z = conv(conv(y, hidden), hidden, 3)
            y = net.add(y, z) if shortcut else z
        return conv(net.concat(y, conv(x, hidden)), cout)

    x = c3(conv(conv("images", 64, 6, 2, 2), 128, 3, 2), 128, 3)
    p3 = c3(conv(x, 256, 3, 2), 256, 6)
    p4 = c3(conv(p3, 512, 3, 2), 512, 9)
    p5 = _sppf(net, c3(conv(p4, 1024, 3, 2), 1024, 3))
    top = conv(p5, 512)
    middle = conv(c3(net.concat(net.upsample(top), p4), 512, 3, shortcut=False), 256)
    o3 = c3(net.concat(net.upsample(middle), p3), 256, 3, shortcut=False)
    o4 = c3(net.concat(conv(o3, 256, 3, 2), middle), 512, 3, shortcut=False)
    o5 = c3(net.concat(conv(o4, 512, 3, 2), top), 1024, 3, shortcut=False)
    return finish(net, *(net.conv(x, 3 * (classes + 5)) for x in (o3, o4, o5)))


def yolo_v8(size_name: str, size: int = 640, classes: int = 80, task: str = "detect") -> Built:
    """`task` is detect, pose, seg or obb."""
    depth, width, most = V8_SIZES[size_name]
    net = Shapes(f"yolov8{size_name}", size)

    channels = scaled(width, most)

    def conv(x: str, cout: int, k: int = 1, s: int = 1) -> str:
        return net.conv(x, channels(cout), k, s, act="silu")

    def c2f(x: str, cout: int, repeat: int, *, shortcut: bool = True) -> str:
        hidden = channels(cout) // 2
        parts = net.halves(conv(x, cout))
        for _ in range(max(1, round(repeat * depth))):
            z = net.conv(net.conv(parts[-1], hidden, 3, act="silu"), hidden, 3, act="silu")
            parts.append(net.add(parts[-1], z) if shortcut else z)
        return conv(net.concat(*parts), cout)

    x = c2f(conv(conv("images", 64, 3, 2), 128, 3, 2), 128, 3)
    p3 = c2f(conv(x, 256, 3, 2), 256, 6)
    p4 = c2f(conv(p3, 512, 3, 2), 512, 6)
    p5 = _sppf(net, c2f(conv(p4, 1024, 3, 2), 1024, 3))
    n4 = c2f(net.concat(net.upsample(p5), p4), 512, 3, shortcut=False)
    o3 = c2f(net.concat(net.upsample(n4), p3), 256, 3, shortcut=False)
    o4 = c2f(net.concat(conv(o3, 256, 3, 2), n4), 512, 3, shortcut=False)
    o5 = c2f(net.concat(conv(o4, 512, 3, 2), p5), 1024, 3, shortcut=False)
    box, cls = max(16, channels(256) // 4, 64), max(channels(256), min(classes, 100))
    heads = []
    for x in (o3, o4, o5):
        for inner, cout in ((box, 64), (cls, classes)):
            heads.append(net.conv(net.conv(net.conv(x, inner, 3, act="silu"), inner, 3, act="silu"), cout))
    return finish(net, *heads, *task_heads(net, (o3, o4, o5), task, channels(256)))


def _sppf(net: Shapes, x: str) -> str:
    """A pooling pyramid of one 5x5 applied three times."""
    cout = net.channels[x]
    parts = [net.conv(x, cout // 2, act="silu")]
    for _ in range(3):
        parts.append(net.max_pool(parts[-1], 5, 1, 2))
    return net.conv(net.concat(*parts), cout, act="silu")
