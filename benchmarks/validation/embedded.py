"""MobileNet v4, EfficientNet by its scaling rule, ResNet-10t, OSNet, FastDepth and U-Net, as shapes."""

from __future__ import annotations

from math import ceil

from benchmarks.validation.shapes import Built, Shapes, finish

# Blocks as (kind, first depthwise, second depthwise, stride, expansion, channels): "uib" has depthwise kernels in front
# of and behind its expansion (0: none), "fused" a full 3x3 in place of the expansion, "conv" is one convolution.
Block = tuple[str, int, int, int, float, int]
V4_SMALL: tuple[Block, ...] = (
    ("conv", 3, 0, 2, 1, 32), ("conv", 1, 0, 1, 1, 32), ("conv", 3, 0, 2, 1, 96), ("conv", 1, 0, 1, 1, 64),
    ("uib", 5, 5, 2, 3, 96), *(4 * (("uib", 0, 3, 1, 2, 96),)), ("uib", 3, 0, 1, 4, 96),
    ("uib", 3, 3, 2, 6, 128), ("uib", 5, 5, 1, 4, 128), ("uib", 0, 5, 1, 4, 128), ("uib", 0, 5, 1, 3, 128),
    *(2 * (("uib", 0, 3, 1, 4, 128),)), ("conv", 1, 0, 1, 1, 960),
)  # fmt: skip
V4_MEDIUM: tuple[Block, ...] = (
    ("fused", 3, 0, 2, 4, 48), ("uib", 3, 5, 2, 4, 80), ("uib", 3, 3, 1, 2, 80),
    ("uib", 3, 5, 2, 6, 160), *(2 * (("uib", 3, 3, 1, 4, 160),)), ("uib", 3, 5, 1, 4, 160), ("uib", 3, 3, 1, 4, 160),
    ("uib", 3, 0, 1, 4, 160), ("uib", 0, 0, 1, 2, 160), ("uib", 3, 0, 1, 4, 160),
    ("uib", 5, 5, 2, 6, 256), ("uib", 5, 5, 1, 4, 256), *(2 * (("uib", 3, 5, 1, 4, 256),)), ("uib", 0, 0, 1, 4, 256),
    ("uib", 3, 0, 1, 4, 256), ("uib", 3, 5, 1, 2, 256), ("uib", 5, 5, 1, 4, 256), *(2 * (("uib", 0, 0, 1, 4, 256),)),
    ("uib", 5, 0, 1, 2, 256), ("conv", 1, 0, 1, 1, 960),
)  # fmt: skip
V4_LARGE: tuple[Block, ...] = (
    ("fused", 3, 0, 2, 4, 48), ("uib", 3, 5, 2, 4, 96), ("uib", 3, 3, 1, 4, 96),
    ("uib", 3, 5, 2, 4, 192), *(3 * (("uib", 3, 3, 1, 4, 192),)), ("uib", 3, 5, 1, 4, 192),
    *(5 * (("uib", 5, 3, 1, 4, 192),)), ("uib", 3, 0, 1, 4, 192),
    *(4 * (("uib", 5, 5, 1, 4, 512),)), ("uib", 5, 0, 1, 4, 512), ("uib", 5, 3, 1, 4, 512),
    *(2 * (("uib", 5, 0, 1, 4, 512),)), ("uib", 5, 3, 1, 4, 512), ("uib", 5, 5, 1, 4, 512),
    *(3 * (("uib", 5, 0, 1, 4, 512),)), ("conv", 1, 0, 1, 1, 960),
)  # fmt: skip


def round8(channels: float) -> int:
    """The nearest multiple of 8, never more than a tenth below."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def mobilenet_v4(name: str, size: int = 224) -> Built:
    """The convolutional models "small", "medium" and "large"."""
    stem, blocks = {"small": (32, V4_SMALL), "medium": (32, V4_MEDIUM), "large": (24, V4_LARGE)}[name]
    net = Shapes("mobilenet_v4", size)
    x = net.conv("images", stem, 3, 2, act="relu")
    for kind, first, second, stride, expand, cout in blocks:
        # The large model's first 512-channel block of four is the one with the stride.
        s = 2 if name == "large" and cout == 512 and net.channels[x] == 192 else stride
        inner = round8(net.channels[x] * expand)
        if kind == "conv":
            x = net.conv(x, cout, first, s, act="relu")
            continue
        if kind == "fused":
            y = net.conv(net.conv(x, inner, 3, s, act="relu"), cout)
        else:
            y = net.depthwise(x, first, 1 if second else s) if first else x
            y = net.conv(y, inner, act="relu")
            y = net.depthwise(y, second, s, "relu") if second else y
            y = net.conv(y, cout)
        x = net.add(x, y) if s == 1 and net.channels[x] == cout else y
    x = net.conv(net.global_pool(x), 1280, act="relu")
    return finish(net, net.dense(x, 1000))


def efficientnet(width: float, depth: float, size: int = 224) -> Built:
    """EfficientNet scaled by its rule: B0 is (1, 1), B1 (1, 1.1), B2 (1.1, 1.2), B3 (1.2, 1.4), B4 (1.4, 1.8)."""
    net = Shapes("efficientnet", size)
    x = net.conv("images", round8(32 * width), 3, 2, act="silu")
    for expand, channels, repeat, stride, k in (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    ):  # fmt: skip
        cout = round8(channels * width)
        for block in range(ceil(repeat * depth)):
            cin, s = net.channels[x], stride if block == 0 else 1
            y = net.conv(x, cin * expand, act="silu") if expand > 1 else x
            y = net.squeeze_excite(net.depthwise(y, k, s, "silu"), max(1, cin // 4), "silu")
            y = net.conv(y, cout)
            x = net.add(x, y) if s == 1 and cin == cout else y
    x = net.conv(x, round8(1280 * width), act="silu")
    return finish(net, net.dense(net.global_pool(x), 1000))


def resnet_10t(size: int = 224) -> Built:
    """ResNet-10 with a stem of three 3x3 and shortcuts that average before they project."""
    net = Shapes("resnet10t", size)
    x = net.conv(net.conv(net.conv("images", 24, 3, 2, act="relu"), 32, 3, act="relu"), 64, 3, act="relu")
    x = net.max_pool(x, 3, 2, 1)
    for stage in range(4):
        cout, s = 64 << stage, 2 if stage else 1
        short = net.conv(net.average_pool(x, 2, 2), cout) if s == 2 else x
        x = net.add(net.conv(net.conv(x, cout, 3, s, act="relu"), cout, 3), short, "relu")
    return finish(net, net.dense(net.global_pool(x), 1000))


def osnet(height: int = 256, width: int = 128, classes: int | None = None) -> Built:
    """OSNet x1.0: four streams of one to four light 3x3 (1x1, then depthwise), weighed by a shared gate. Features."""
    net = Shapes("osnet", height, width)
    x = net.max_pool(net.conv("images", 64, 7, 2, act="relu"), 3, 2, 1)
    for stage, cout in enumerate((256, 384, 512)):
        for _ in range(2):
            x = _omni_scale(net, x, cout)
        if stage < 2:
            x = net.average_pool(net.conv(x, cout, act="relu"), 2, 2)
    x = net.conv(x, 512, act="relu")
    features = net.dense(net.global_pool(x), 512, "relu")
    return finish(net, features if classes is None else net.dense(features, classes))


def _omni_scale(net: Shapes, x: str, cout: int) -> str:
    inner = cout // 4
    first = net.conv(x, inner, act="relu")
    total = ""
    for depth in range(1, 5):
        y = first
        for _ in range(depth):
            y = net.depthwise(net.conv(y, inner), 3, 1, "relu")
        y = net.squeeze_excite(y, inner // 16)
        total = net.add(total, y) if total else y
    short = x if net.channels[x] == cout else net.conv(x, cout)
    return net.add(net.conv(total, cout), short, "relu")


def fast_depth(size: int = 224) -> Built:
    """MobileNet encoder, decoder of depthwise 5x5 and 1x1 with repetition of pixels, sums of the encoder's maps."""
    net = Shapes("fastdepth", size)
    x = net.conv("images", 32, 3, 2, act="relu6")
    kept = []
    for cout, s in (
        (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1), (512, 1), (512, 1),
        (1024, 2), (1024, 1),
    ):  # fmt: skip
        x = net.conv(net.depthwise(x, 3, s, "relu6"), cout, act="relu6")
        if len(kept) < 3 and cout in (64, 128, 256) and s == 1 and cout not in [net.channels[k] for k in kept]:
            kept.append(x)
    for cout, skip in ((512, ""), (256, kept[2]), (128, kept[1]), (64, kept[0]), (32, "")):
        x = net.upsample(net.conv(net.depthwise(x, 5, 1, "relu"), cout, act="relu"))
        x = net.add(x, skip) if skip else x
    return finish(net, net.conv(x, 1, act="relu"))


def unet(size: int, classes: int = 19) -> Built:
    """The U-Net of five stages, 64 to 1024 channels, linear enlarging with a 1x1, and a fully convolutional head."""
    net = Shapes("unet", size)

    def pair(x: str, cout: int) -> str:
        return net.conv(net.conv(x, cout, 3, act="relu"), cout, 3, act="relu")

    kept = [pair("images", 64)]
    for cout in (128, 256, 512, 1024):
        kept.append(pair(net.max_pool(kept[-1], 2, 2), cout))
    x = kept.pop()
    for cout in (512, 256, 128, 64):
        x = pair(net.concat(kept.pop(), net.conv(net.upsample(x, 2, "linear"), cout, act="relu")), cout)
    return finish(net, net.conv(net.conv(x, 64, 3, act="relu"), classes))
