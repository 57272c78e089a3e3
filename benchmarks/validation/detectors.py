"""YOLOv7, YOLOX and RetinaFace up to their head convolutions, as shapes."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.validation.residual import RESNET_DEPTHS
from benchmarks.validation.shapes import Built, Shapes, finish


def yolo_v7(height: int = 640, width: int = 640, classes: int = 80) -> Built:
    """The branches of a training block merged into one 3x3 each."""
    net = Shapes("yolov7", height, width)

    def block(x: str, inner: int, narrow: int, cout: int, taken: Sequence[int]) -> str:
        """Two 1x1 of the same input, four 3x3 in a chain; those `taken`, last first, are joined."""
        made = [conv(x, inner), conv(x, inner)]
        for _ in range(4):
            made.append(conv(made[-1], narrow, 3))
        return conv(net.concat(*(made[at] for at in taken)), cout)

    def conv(x: str, cout: int, k: int = 1, s: int = 1) -> str:
        return net.conv(x, cout, k, s, act="silu")

    def down(x: str, cout: int) -> list[str]:
        return [conv(conv(x, cout), cout, 3, 2), conv(net.max_pool(x, 2, 2), cout)]

    backbone, head = (5, 3, 1, 0), (5, 4, 3, 2, 1, 0)
    x = conv(conv(conv("images", 32, 3), 64, 3, 2), 64, 3)
    x = block(conv(x, 128, 3, 2), 64, 64, 256, backbone)
    p3 = block(net.concat(*down(x, 128)), 128, 128, 512, backbone)
    p4 = block(net.concat(*down(p3, 256)), 256, 256, 1024, backbone)
    p5 = block(net.concat(*down(p4, 512)), 256, 256, 1024, backbone)
    y = conv(conv(conv(p5, 512), 512, 3), 512)
    y = conv(conv(net.concat(y, *(net.max_pool(y, k, 1, k // 2) for k in (5, 9, 13))), 512), 512, 3)
    top = conv(net.concat(y, conv(p5, 512)), 512)
    n4 = block(net.concat(conv(p4, 256), net.upsample(conv(top, 256))), 256, 128, 256, head)
    o3 = block(net.concat(conv(p3, 128), net.upsample(conv(n4, 128))), 128, 64, 128, head)
    o4 = block(net.concat(*down(o3, 128), n4), 256, 128, 256, head)
    o5 = block(net.concat(*down(o4, 256), top), 512, 256, 512, head)
    return finish(net, *(net.conv(conv(x, c, 3), 3 * (classes + 5)) for x, c in ((o3, 256), (o4, 512), (o5, 1024))))


def yolo_v7_tiny(size: int = 416, classes: int = 80) -> Built:
    net = Shapes("yolov7_tiny", size)

    def conv(x: str, cout: int, k: int = 1, s: int = 1) -> str:
        return net.conv(x, cout, k, s, act="leaky")

    def block(x: str, inner: int) -> str:
        made = [conv(x, inner), conv(x, inner)]
        for _ in range(2):
            made.append(conv(made[-1], inner, 3))
        return conv(net.concat(*reversed(made)), 2 * inner)

    x = block(conv(conv("images", 32, 3, 2), 64, 3, 2), 32)
    p3 = block(net.max_pool(x, 2, 2), 64)
    p4 = block(net.max_pool(p3, 2, 2), 128)
    p5 = block(net.max_pool(p4, 2, 2), 256)
    y, short = conv(p5, 256), conv(p5, 256)
    y = conv(net.concat(*(net.max_pool(y, k, 1, k // 2) for k in (13, 9, 5)), y), 256)
    top = conv(net.concat(y, short), 256)
    n4 = block(net.concat(conv(p4, 128), net.upsample(conv(top, 128))), 64)
    o3 = block(net.concat(conv(p3, 64), net.upsample(conv(n4, 64))), 32)
    o4 = block(net.concat(conv(o3, 128, 3, 2), n4), 64)
    o5 = block(net.concat(conv(o4, 256, 3, 2), top), 128)
    return finish(net, *(net.conv(conv(x, c, 3), 3 * (classes + 5)) for x, c in ((o3, 128), (o4, 256), (o5, 512))))


def yolo_x(depth: float, width: float, height: int = 640, across: int = 640, classes: int = 80) -> Built:
    """The focus stem written as the 6x6 convolution of stride 2 that it is."""
    net = Shapes("yolox", height, across)
    base, repeat = int(64 * width), max(round(3 * depth), 1)
    c = [base << stage for stage in range(5)]

    def conv(x: str, cout: int, k: int = 1, s: int = 1) -> str:
        return net.conv(x, cout, k, s, act="silu")

    def csp(x: str, cout: int, times: int, *, shortcut: bool = False) -> str:
        y = conv(x, cout // 2)
        for _ in range(times):
            z = conv(conv(y, cout // 2), cout // 2, 3)
            y = net.add(y, z) if shortcut else z
        return conv(net.concat(y, conv(x, cout // 2)), cout)

    x = csp(conv(net.conv("images", c[0], 6, 2, act="silu", pad=2), c[1], 3, 2), c[1], repeat, shortcut=True)
    p3 = csp(conv(x, c[2], 3, 2), c[2], 3 * repeat, shortcut=True)
    p4 = csp(conv(p3, c[3], 3, 2), c[3], 3 * repeat, shortcut=True)
    y = conv(conv(p4, c[4], 3, 2), c[4] // 2)
    y = conv(net.concat(y, *(net.max_pool(y, k, 1, k // 2) for k in (5, 9, 13))), c[4])
    top = conv(csp(y, c[4], repeat), c[3])
    n4 = conv(csp(net.concat(net.upsample(top), p4), c[3], repeat), c[2])
    o3 = csp(net.concat(net.upsample(n4), p3), c[2], repeat)
    o4 = csp(net.concat(conv(o3, c[2], 3, 2), n4), c[3], repeat)
    o5 = csp(net.concat(conv(o4, c[3], 3, 2), top), c[4], repeat)
    inner, heads = int(256 * width), []
    for level in (o3, o4, o5):
        x = conv(level, inner)
        scores = conv(conv(x, inner, 3), inner, 3)
        boxes = conv(conv(x, inner, 3), inner, 3)
        heads += [net.conv(scores, classes), net.conv(boxes, 4), net.conv(boxes, 1)]
    return finish(net, *heads)


def retinaface(backbone: str, size: int) -> Built:
    """`resnet50`, or `mobile` for MobileNet v1 at a quarter of its width."""
    net = Shapes("retinaface", size)
    maps = _resnet_maps(net) if backbone == "resnet50" else _mobile_maps(net)
    cout = 256 if backbone == "resnet50" else 64
    act = "relu" if backbone == "resnet50" else "leaky"
    p3, p4, p5 = (net.conv(x, cout, act=act) for x in maps)
    n4 = net.conv(net.add(p4, _to_size(net, p5, p4)), cout, 3, act=act)
    n3 = net.conv(net.add(p3, _to_size(net, n4, p3)), cout, 3, act=act)
    heads = []
    for x in (n3, n4, p5):
        five = net.conv(x, cout // 4, 3, act=act)
        seven = net.conv(five, cout // 4, 3, act=act)
        parts = (net.conv(x, cout // 2, 3), net.conv(five, cout // 4, 3), net.conv(seven, cout // 4, 3))
        y = net.activate(net.concat(*parts), "relu")
        heads += [net.conv(y, 2 * values) for values in (4, 2, 10)]
    return finish(net, *heads)


def _to_size(net: Shapes, x: str, like: str) -> str:
    """Twice as large; an odd map loses its last row and column by a pool that picks."""
    y = net.upsample(x)
    over = [have - want for have, want in zip(net.size[y], net.size[like], strict=True)]
    return net.max_pool(y, 1 + max(over), 1) if any(over) else y


def _resnet_maps(net: Shapes) -> list[str]:
    x = net.max_pool(net.conv("images", 64, 7, 2, act="relu"), 3, 2, 1)
    maps = []
    for stage, blocks in enumerate(RESNET_DEPTHS[50]):
        for block in range(blocks):
            s = 2 if stage and block == 0 else 1
            short = net.conv(x, 256 << stage, 1, s) if block == 0 else x
            y = net.conv(net.conv(x, 64 << stage, act="relu"), 64 << stage, 3, s, act="relu")
            x = net.add(net.conv(y, 256 << stage), short, "relu")
        maps.append(x)
    return maps[1:]


def _mobile_maps(net: Shapes) -> list[str]:
    x = net.conv("images", 8, 3, 2, act="leaky")
    maps = []
    for at, (cout, s) in enumerate(
        ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (128, 1), (128, 1), (128, 1), (128, 1),
         (256, 2), (256, 1))
    ):  # fmt: skip
        x = net.conv(net.depthwise(x, 3, s, "leaky"), cout, act="leaky")
        if at in (4, 10, 12):
            maps.append(x)
    return maps
