"""Networks of depthwise convolutions and their relatives: MobileNet v1 to v3, EfficientNet, SSD, as shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from benchmarks.validation.shapes import Built, Shapes, finish


def _round8(channels: float) -> int:
    """The nearest multiple of 8, never more than a tenth below."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def mobilenet_v1(width: float = 1.0, size: int = 224, classes: int = 1001) -> Built:
    net = Shapes("mobilenet_v1", size)
    return finish(net, net.dense(net.global_pool(_mobilenet_v1(net, width)[-1]), classes))


def _mobilenet_v1(net: Shapes, width: float = 1.0) -> list[str]:
    """The outputs of the 13 separable blocks."""
    x = net.conv("images", _round8(32 * width), 3, 2, act="relu6", pad="same")
    outputs = []
    for cout, s in (
        (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1), (512, 1), (512, 1),
        (1024, 2), (1024, 1),
    ):  # fmt: skip
        x = net.conv(net.depthwise(x, 3, s, "relu6", "same"), _round8(cout * width), act="relu6")
        outputs.append(x)
    return outputs


def mobilenet_v2(width: float = 1.0, size: int = 224, classes: int = 1000) -> Built:
    net = Shapes("mobilenet_v2", size)
    last = max(1280, _round8(1280 * width))
    x = net.conv(_mobilenet_v2(net, width)[-1], last, act="relu6")
    return finish(net, net.dense(net.global_pool(x), classes))


def _mobilenet_v2(net: Shapes, width: float = 1.0) -> list[str]:
    """Outputs of the blocks, with the expansion that a detector reads in front of the 13th."""
    x = net.conv("images", _round8(32 * width), 3, 2, act="relu6", pad="same")
    outputs = []
    for expand, channels, repeat, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for block in range(repeat):
            cin, cout, s = net.channels[x], _round8(channels * width), stride if block == 0 else 1
            y = net.conv(x, cin * expand, act="relu6") if expand > 1 else x
            outputs.append(y)
            y = net.conv(net.depthwise(y, 3, s, "relu6", "same"), cout)
            x = net.add(x, y) if s == 1 and cin == cout else y
    return [*outputs, x]


def mobilenet_v3(blocks: Sequence[tuple[int, int, int, bool, str, int]], head: tuple[int, int], size: int) -> Built:
    """Blocks of (kernel, expanded channels, channels, gate, activation, stride); the last two layers are `head`."""
    net = Shapes("mobilenet_v3", size)
    x = net.conv("images", 16, 3, 2, act="hswish")
    for k, inner, cout, gate, act, s in blocks:
        y = net.conv(x, inner, act=act) if inner != net.channels[x] else x
        y = net.depthwise(y, k, s, act)
        y = net.squeeze_excite(y, _round8(inner / 4), gate="hsigmoid") if gate else y
        y = net.conv(y, cout)
        x = net.add(x, y) if s == 1 and net.channels[x] == cout else y
    x = net.global_pool(net.conv(x, head[0], act="hswish"))
    return finish(net, net.dense(net.dense(x, head[1], "hswish"), 1000))


def mobilenet_v3_small(size: int = 224) -> Built:
    blocks = (
        (3, 16, 16, True, "relu", 2), (3, 72, 24, False, "relu", 2), (3, 88, 24, False, "relu", 1),
        (5, 96, 40, True, "hswish", 2), (5, 240, 40, True, "hswish", 1), (5, 240, 40, True, "hswish", 1),
        (5, 120, 48, True, "hswish", 1), (5, 144, 48, True, "hswish", 1), (5, 288, 96, True, "hswish", 2),
        (5, 576, 96, True, "hswish", 1), (5, 576, 96, True, "hswish", 1),
    )  # fmt: skip
    return mobilenet_v3(blocks, (576, 1024), size)


def mobilenet_v3_large(size: int = 224) -> Built:
    blocks = (
        (3, 16, 16, False, "relu", 1), (3, 64, 24, False, "relu", 2), (3, 72, 24, False, "relu", 1),
        (5, 72, 40, True, "relu", 2), (5, 120, 40, True, "relu", 1), (5, 120, 40, True, "relu", 1),
        (3, 240, 80, False, "hswish", 2), (3, 200, 80, False, "hswish", 1), (3, 184, 80, False, "hswish", 1),
        (3, 184, 80, False, "hswish", 1), (3, 480, 112, True, "hswish", 1), (3, 672, 112, True, "hswish", 1),
        (5, 672, 160, True, "hswish", 2), (5, 960, 160, True, "hswish", 1), (5, 960, 160, True, "hswish", 1),
    )  # fmt: skip
    return mobilenet_v3(blocks, (960, 1280), size)


def efficientnet_b0(size: int = 224) -> Built:
    net = Shapes("efficientnet_b0", size)
    x = net.conv("images", 32, 3, 2, act="silu")
    for expand, cout, repeat, stride, k in (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    ):  # fmt: skip
        for block in range(repeat):
            cin, s = net.channels[x], stride if block == 0 else 1
            y = net.conv(x, cin * expand, act="silu") if expand > 1 else x
            y = net.squeeze_excite(net.depthwise(y, k, s, "silu"), cin // 4, "silu")
            y = net.conv(y, cout)
            x = net.add(x, y) if s == 1 and cin == cout else y
    return finish(net, net.dense(net.global_pool(net.conv(x, 1280, act="silu")), 1000))


def efficientnet_edgetpu(width: float, depth: float, size: int) -> Built:
    """EfficientNet-EdgeTPU: ReLU, no gates, and full convolutions in place of 1x1 and depthwise in the early blocks."""
    net = Shapes("efficientnet_edgetpu", size)
    x = net.conv("images", _round8(32 * width), 3, 2, act="relu", pad="same")
    for full, expand, channels, repeat, stride, k in (
        (True, 4, 24, 1, 1, 3), (True, 8, 32, 2, 2, 3), (True, 8, 48, 4, 2, 3), (False, 8, 96, 5, 2, 5),
        (False, 8, 144, 4, 1, 5), (False, 8, 192, 2, 2, 5),
    ):  # fmt: skip
        for block in range(ceil(repeat * depth)):
            cin, cout, s = net.channels[x], _round8(channels * width), stride if block == 0 else 1
            inner = expand * (cin if channels != 24 else cout)  # the first expands what it makes
            if full:  # the stride is in the projection
                y = net.conv(net.conv(x, inner, k, act="relu"), cout, 1, s)
            else:
                y = net.conv(net.depthwise(net.conv(x, inner, act="relu"), k, s, "relu", "same"), cout)
            x = net.add(x, y) if s == 1 and cin == cout and channels != 24 else y
    return finish(net, net.dense(net.global_pool(net.conv(x, _round8(1280 * width), act="relu")), 1001))


def mobilenet_edge(size: int = 224) -> Built:
    """MobileNet-EdgeTPU: ReLU, no gates, full convolutions in place of 1x1 and depthwise in the first 8 blocks."""
    net = Shapes("mobilenet_edge", size)
    x = net.conv(net.conv("images", 32, 3, 2, act="relu", pad="same"), 16)
    for full, k, cout, repeat, stride in (
        (True, 3, 32, 4, 2), (True, 3, 48, 4, 2), (False, 3, 96, 4, 2), (False, 3, 96, 4, 1), (False, 5, 160, 4, 2),
        (False, 3, 192, 1, 1),
    ):  # fmt: skip
        for block in range(repeat):  # the first widens by 8 and has no residual, whatever its stride
            inner, s = net.channels[x] * (4 if block else 8), 1 if block else stride
            if full:
                y = net.conv(x, inner, k, s, act="relu", pad="same")
            else:
                y = net.depthwise(net.conv(x, inner, act="relu"), k, s, "relu", "same")
            y = net.conv(y, cout)
            x = net.add(x, y) if block else y
    return finish(net, net.dense(net.global_pool(net.conv(x, 1280, act="relu")), 1001))


def ssd_mobilenet_v1(size: int = 300, classes: int = 91) -> Built:
    """Six maps of boxes and classes by 1x1; the logits and offsets, without decoding."""
    net = Shapes("ssd_mobilenet_v1", size)
    outputs = _mobilenet_v1(net)
    return finish(net, *_ssd_heads(net, outputs[10], outputs[12], classes))


def ssd_mobilenet_v2(size: int = 300, classes: int = 91) -> Built:
    net = Shapes("ssd_mobilenet_v2", size)
    outputs = _mobilenet_v2(net)
    return finish(net, *_ssd_heads(net, outputs[13], net.conv(outputs[-1], 1280, act="relu6"), classes))


def _ssd_heads(net: Shapes, first: str, second: str, classes: int, k: int = 1) -> list[str]:
    """Boxes and classes of six maps: the two given and four that each halve the last one."""
    maps = [first, second]
    for cout in (512, 256, 256, 128):
        maps.append(net.conv(net.conv(maps[-1], cout // 2, act="relu6"), cout, 3, 2, act="relu6", pad="same"))
    heads = []
    for at, level in enumerate(maps):
        anchors = 3 if at == 0 else 6
        heads += [net.conv(level, 4 * anchors, k), net.conv(level, classes * anchors, k)]
    return heads
