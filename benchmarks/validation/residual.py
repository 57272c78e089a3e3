"""ResNet in its published forms, ResNeXt, Wide ResNet, RegNet and Inception-ResNet v1, as shapes."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.validation.shapes import Built, Shapes, finish

RESNET_DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def resnet_basic(layers: int, height: int = 224, width: int = 224, classes: int | None = 1000) -> Built:
    """ResNet-18 or 34: two 3x3 a block."""
    net = Shapes(f"resnet{layers}", height, width)
    x = _stem(net)
    for stage, blocks in enumerate(RESNET_DEPTHS[layers]):
        cout = 64 << stage
        for block in range(blocks):
            s = 2 if stage and block == 0 else 1
            short = net.conv(x, cout, 1, s) if s == 2 else x
            x = net.add(net.conv(net.conv(x, cout, 3, s, act="relu"), cout, 3), short, "relu")
    return _head(net, x, classes)


def resnet(
    layers: int,
    height: int = 224,
    width: int = 224,
    classes: int | None = 1000,
    *,
    stride_first: bool = False,
    stride_last: bool = False,
    group: int = 1,
    wider: int = 1,
) -> Built:
    """ResNet-50, 101 or 152. `stride_first` is v1: the stride in the first 1x1, else in the 3x3 (v1.5).

    `stride_last` is v1 of TensorFlow's slim: the stride in the 3x3 of the last block of a stage. `wider` multiplies the
    channels of the 3x3: with `group` 32 and 2 it is ResNeXt 32x4d, with 2 alone Wide ResNet.
    """
    net = Shapes(f"resnet{layers}", height, width)
    x = _stem(net)
    for stage, blocks in enumerate(RESNET_DEPTHS[layers]):
        cout, inner = 256 << stage, wider * 64 << stage
        for block in range(blocks):
            smaller = stage < 3 and block == blocks - 1 if stride_last else stage > 0 and block == 0
            s = 2 if smaller else 1
            first, second = (s, 1) if stride_first else (1, s)
            short = net.conv(x, cout, 1, s) if block == 0 else _every(net, x, s)
            y = net.conv(net.conv(x, inner, 1, first, act="relu"), inner, 3, second, group=group, act="relu")
            x = net.add(net.conv(y, cout), short, "relu")
    return _head(net, x, classes)


def resnet_v2_50(size: int = 299, classes: int = 1001) -> Built:
    """ResNet-50 v2 as TensorFlow has it: normalization and ReLU in front of each block, stride in its last unit."""
    net = Shapes("resnet_v2_50", size)
    x = net.max_pool(net.conv("images", 64, 7, 2), 3, 2, "same")
    for stage, blocks in enumerate(RESNET_DEPTHS[50]):
        inner, cout = 64 << stage, 256 << stage
        for block in range(blocks):
            s = 2 if block == blocks - 1 and stage < 3 else 1
            before = net.activate(_scaled(net, x), "relu")
            short = net.conv(before, cout, 1, s) if net.channels[x] != cout else _every(net, x, s)
            y = net.conv(net.conv(before, inner, act="relu"), inner, 3, s, act="relu")
            x = net.add(net.conv(y, cout), short)
    x = net.global_pool(net.activate(_scaled(net, x), "relu"))
    return finish(net, net.dense(x, classes))


def inception_resnet_v1(size: int = 160, features: int = 512) -> Built:
    """The network of FaceNet up to its features. The factor of a residual branch is in the weights of its 1x1."""
    net = Shapes("inception_resnet_v1", size)

    def conv(x: str, cout: int, k: int | tuple[int, int] = 1, s: int = 1, pad: int | None = None) -> str:
        return net.conv(x, cout, k, s, act="relu", pad=pad)

    def residual(x: str, *parts: str) -> str:
        return net.add(x, net.conv(net.concat(*parts), net.channels[x]), "relu")

    x = conv(conv(conv("images", 32, 3, 2, 0), 32, 3, 1, 0), 64, 3)
    x = conv(conv(conv(net.max_pool(x, 3, 2), 80), 192, 3, 1, 0), 256, 3, 2, 0)
    for _ in range(5):
        x = residual(x, conv(x, 32), conv(conv(x, 32), 32, 3), conv(conv(conv(x, 32), 32, 3), 32, 3))
    x = net.concat(
        conv(x, 384, 3, 2, 0), conv(conv(conv(x, 192), 192, 3), 256, 3, 2, 0), net.max_pool(x, 3, 2)
    )  # fmt: skip
    for _ in range(10):
        x = residual(x, conv(x, 128), conv(conv(conv(x, 128), 128, (1, 7)), 128, (7, 1)))
    x = net.concat(
        conv(conv(x, 256), 384, 3, 2, 0), conv(conv(x, 256), 256, 3, 2, 0),
        conv(conv(conv(x, 256), 256, 3), 256, 3, 2, 0), net.max_pool(x, 3, 2),
    )  # fmt: skip
    for _ in range(6):
        x = residual(x, conv(x, 192), conv(conv(conv(x, 192), 192, (1, 3)), 192, (3, 1)))
    return finish(net, net.dense(net.global_pool(x), features))


def regnet(widths: Sequence[int], depths: Sequence[int], group_width: int, gate: float = 0.0, size: int = 224) -> Built:
    """RegNetX, or RegNetY where `gate` is the width of the squeeze over the block's input channels."""
    net = Shapes("regnet", size)
    x = net.conv("images", 32, 3, 2, act="relu")
    for cout, blocks in zip(widths, depths, strict=True):
        for block in range(blocks):
            s = 2 if block == 0 else 1
            short = net.conv(x, cout, 1, s) if block == 0 else x
            y = net.conv(net.conv(x, cout, act="relu"), cout, 3, s, group=cout // group_width, act="relu")
            if gate:
                y = net.squeeze_excite(y, round(gate * net.channels[x]))
            x = net.add(net.conv(y, cout), short, "relu")
    return _head(net, x, 1000)


def sphereface20(height: int = 112, width: int = 96) -> Built:
    """SphereFace-20, with ReLU: a strided 3x3 and residual pairs of 3x3 at each size, 512 features."""
    net = Shapes("sphereface20", height, width)
    x = "images"
    for cout, pairs in ((64, 1), (128, 2), (256, 4), (512, 1)):
        x = net.conv(x, cout, 3, 2, act="relu")
        for _ in range(pairs):
            x = net.add(x, net.conv(net.conv(x, cout, 3, act="relu"), cout, 3, act="relu"))
    return finish(net, net.dense(x, 512))


def _scaled(net: Shapes, x: str) -> str:
    """A BatchNorm that follows an addition, which folds into no convolution: a depthwise 1x1."""
    return net.depthwise(x, 1)


def _every(net: Shapes, x: str, s: int) -> str:
    """Every s-th pixel."""
    return net.max_pool(x, 1, s) if s > 1 else x


def _stem(net: Shapes) -> str:
    return net.max_pool(net.conv("images", 64, 7, 2, act="relu"), 3, 2, 1)


def _head(net: Shapes, x: str, classes: int | None) -> Built:
    x = net.global_pool(x)
    return finish(net, x if classes is None else net.dense(x, classes))
