"""Networks without residual blocks: AlexNet, VGG, SqueezeNet, DenseNet, Inception, U-Net, as shapes."""

from __future__ import annotations

from benchmarks.validation.shapes import Built, Shapes, finish


def alexnet(size: int = 224) -> Built:
    """One tower, as of 2014."""
    net = Shapes("alexnet", size)
    x = net.max_pool(net.conv("images", 64, 11, 4, act="relu", pad=2), 3, 2)
    x = net.max_pool(net.conv(x, 192, 5, act="relu"), 3, 2)
    x = net.conv(net.conv(net.conv(x, 384, 3, act="relu"), 256, 3, act="relu"), 256, 3, act="relu")
    x = net.dense(net.dense(net.max_pool(x, 3, 2), 4096, "relu"), 4096, "relu")
    return finish(net, net.dense(x, 1000))


def vgg16(size: int = 224) -> Built:
    net = Shapes("vgg16", size)
    x = "images"
    for cout, convs in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(convs):
            x = net.conv(x, cout, 3, act="relu")
        x = net.max_pool(x, 2, 2)
    return finish(net, net.dense(net.dense(net.dense(x, 4096, "relu"), 4096, "relu"), 1000))


def squeezenet(version: str, size: int = 224) -> Built:
    """SqueezeNet "1.0" or "1.1"."""
    net = Shapes("squeezenet", size)
    first = version == "1.0"
    x = net.conv("images", 96 if first else 64, 7 if first else 3, 2, act="relu", pad=0)
    pools = (0, 3, 7) if first else (0, 2, 4)
    for at, (squeeze, expand) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    ):
        if at in pools:
            x = net.max_pool(x, 3, 2, ceil_mode=True)
        y = net.conv(x, squeeze, act="relu")
        x = net.concat(net.conv(y, expand, act="relu"), net.conv(y, expand, 3, act="relu"))
    return finish(net, net.global_pool(net.conv(x, 1000, act="relu")))


def densenet121(size: int = 224) -> Built:
    """Growth 32. BatchNorm in front of a 1x1 that reads a concatenation stays: a depthwise 1x1."""
    net = Shapes("densenet121", size)
    x = net.max_pool(net.conv("images", 64, 7, 2, act="relu"), 3, 2, 1)
    for stage, layers in enumerate((6, 12, 24, 16)):
        for _ in range(layers):
            y = net.conv(net.activate(net.depthwise(x, 1), "relu"), 128, act="relu")
            x = net.concat(x, net.conv(y, 32, 3))
        y = net.activate(net.depthwise(x, 1), "relu")
        x = net.average_pool(net.conv(y, net.channels[x] // 2), 2, 2) if stage < 3 else y
    return finish(net, net.dense(net.global_pool(x), 1000))


def inception_v1(size: int = 224) -> Built:
    """GoogLeNet with BatchNorm, whose "5x5" branch has 3x3 kernels."""
    net = Shapes("inception_v1", size)
    x = net.max_pool(net.conv("images", 64, 7, 2, act="relu"), 3, 2, ceil_mode=True)
    x = net.conv(net.conv(x, 64, act="relu"), 192, 3, act="relu")
    x = net.max_pool(x, 3, 2, ceil_mode=True)
    for a, b1, b3, c1, c5, d in (
        (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64),
        (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128),
        (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
    ):  # fmt: skip
        if net.channels[x] == 480:
            x = net.max_pool(x, 3, 2, ceil_mode=True)
        if net.channels[x] == 832 and net.size[x][0] * 16 >= size:
            x = net.max_pool(x, 2, 2, ceil_mode=True)
        x = net.concat(
            net.conv(x, a, act="relu"),
            net.conv(net.conv(x, b1, act="relu"), b3, 3, act="relu"),
            net.conv(net.conv(x, c1, act="relu"), c5, 3, act="relu"),
            net.conv(net.max_pool(x, 3, 1, 1), d, act="relu"),
        )
    return finish(net, net.dense(net.global_pool(x), 1000))


def inception_v3(size: int = 299, *, counts_pads: bool = False) -> Built:
    """Without the auxiliary classifier. `counts_pads`: averages count padding, as torchvision's do."""
    net = Shapes("inception_v3", size)

    def conv(x: str, cout: int, k: int | tuple[int, int] = 1, s: int = 1, pad: int | None = None) -> str:
        return net.conv(x, cout, k, s, act="relu", pad=pad)

    def around(x: str) -> str:
        return net.average_pool(x, 3, 1, 1, counts_pads=counts_pads)

    x = conv(conv(conv("images", 32, 3, 2, 0), 32, 3, 1, 0), 64, 3)
    x = net.max_pool(conv(conv(net.max_pool(x, 3, 2), 80), 192, 3, 1, 0), 3, 2)
    for pool in (32, 64, 64):
        x = net.concat(
            conv(x, 64), conv(conv(x, 48), 64, 5), conv(conv(conv(x, 64), 96, 3), 96, 3),
            conv(around(x), pool),
        )  # fmt: skip
    x = net.concat(
        conv(x, 384, 3, 2, 0), conv(conv(conv(x, 64), 96, 3), 96, 3, 2, 0), net.max_pool(x, 3, 2)
    )  # fmt: skip
    for c in (128, 160, 160, 192):
        far = conv(conv(conv(conv(conv(x, c), c, (7, 1)), c, (1, 7)), c, (7, 1)), 192, (1, 7))
        x = net.concat(conv(x, 192), conv(conv(conv(x, c), c, (1, 7)), 192, (7, 1)), far, conv(around(x), 192))
    x = net.concat(
        conv(conv(x, 192), 320, 3, 2, 0),
        conv(conv(conv(conv(x, 192), 192, (1, 7)), 192, (7, 1)), 192, 3, 2, 0),
        net.max_pool(x, 3, 2),
    )
    for _ in range(2):
        y, z = conv(x, 384), conv(conv(x, 448), 384, 3)
        x = net.concat(
            conv(x, 320), conv(y, 384, (1, 3)), conv(y, 384, (3, 1)), conv(z, 384, (1, 3)), conv(z, 384, (3, 1)),
            conv(around(x), 192),
        )  # fmt: skip
    return finish(net, net.dense(net.global_pool(x), 1000))


def unet(height: int, width: int, base: int = 64, classes: int = 2, channels: int = 3) -> Built:
    """Four halvings, two 3x3 at each size, transposed 2x2 on the way up, maps joined by concatenation."""
    net = Shapes("unet", height, width, channels)
    x, kept = "images", []
    for level in range(5):
        x = net.conv(net.conv(x, base << level, 3, act="relu"), base << level, 3, act="relu")
        if level < 4:
            kept.append(x)
            x = net.max_pool(x, 2, 2)
    for level in reversed(range(4)):
        x = net.concat(kept[level], net.deconv(x, base << level))
        x = net.conv(net.conv(x, base << level, 3, act="relu"), base << level, 3, act="relu")
    return finish(net, net.conv(x, classes))


def superpoint(height: int = 480, width: int = 640) -> Built:
    """SuperPoint: VGG-like, a grey picture in, cells of 65 places and 256 features out."""
    net = Shapes("superpoint", height, width, 1)
    x = "images"
    for at, cout in enumerate((64, 64, 128, 128)):
        x = net.conv(net.conv(x, cout, 3, act="relu"), cout, 3, act="relu")
        x = net.max_pool(x, 2, 2) if at < 3 else x
    return finish(net, *(net.conv(net.conv(x, 256, 3, act="relu"), cout) for cout in (65, 256)))
