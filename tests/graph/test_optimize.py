"""Rewrites that make a model faster on its target keep its numbers; what only looks alike stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from axtool.errors import UsageError
from axtool.graph.optimize import optimize
from axtool.graph.passes import Cleaned, clean
from axtool.graph.passes.checking import Checker
from axtool.target import Target
from axtool.target_file import load_target
from tests.graph.pass_models import build, noise, ops, run

F = np.float32
CHIP = load_target("qc-u-1d7-16mb")
HALF = 'coordinate_transformation_mode = "half_pixel"'


def only(*names: str) -> Target:
    return replace(CHIP, optimizations=names)


def optimized(model: ir.Model, *names: str) -> Cleaned:
    """The named rewrites alone, with onnxruntime before and after each that keeps numbers."""
    onnx.checker.check_model(ir.to_proto(model))
    done = optimize(clean(model), only(*names), check=Checker())
    onnx.checker.check_model(ir.to_proto(done.model), full_check=True)
    return done


def hits(done: Cleaned, name: str) -> int:
    return next(result.count for result in done.log if result.name == name)


def head(mode: str = "linear", channels: tuple[int, ...] = (8, 8, 8, 8), out: int = 8) -> ir.Model:
    """SegFormer's decode head: four branches of one size each, enlarged to the largest, joined, fused by 1x1."""
    sizes = (16, 8, 4, 2)
    inputs = ", ".join(
        f"float[1, {c}, {n}, {n * 2}] x{i}" for i, (c, n) in enumerate(zip(channels, sizes, strict=True))
    )
    ups = " ".join(f'r{i} = Resize<mode = "{mode}", {HALF}, nearest_mode = "floor">(x{i}, , s{i})' for i in (1, 2, 3))
    body = f"{ups} j = Concat<axis = 1>(r3, r2, r1, x0) f = Conv(j, w, b) y = Relu(f)"
    scales: dict[str, Any] = {f"s{i}": np.asarray((1, 1, 2**i, 2**i), F) for i in (1, 2, 3)}
    return build(body, inputs, w=noise(out, sum(channels), 1, 1), b=noise(out), **scales)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_a_pointwise_convolution_meets_each_branch_at_its_own_size(mode: str) -> None:
    done = optimized(head(mode), "fuse-before-upsample")
    assert hits(done, "fuse-before-upsample") == 1
    assert sorted(ops(done.model)) == ["Add"] * 3 + ["Conv"] * 4 + ["Relu"] + ["Resize"] * 3
    assert "Concat" not in ops(done.model)


def test_with_split_resizes_the_running_sum_climbs_the_cascade() -> None:
    done = optimized(head(), "split-resize", "fuse-before-upsample")
    resized = [node.outputs[0].shape for node in done.model.graph if node.op_type == "Resize"]
    assert sum(int(shape[2]) * int(shape[3]) for shape in resized if shape is not None) == 16 * 32 + 8 * 16 + 4 * 8
    assert ops(done.model).count("Resize") == 3


def test_two_resizes_by_2_stand_for_one_by_4_and_agree_inside_a_ramp() -> None:
    ramp = np.arange(8, dtype=F).reshape(1, 1, 1, 8) + np.zeros((1, 1, 8, 1), F)

    def model() -> ir.Model:
        return build(
            f'y = Resize<mode = "linear", {HALF}>(x, , s)', "float[1, 1, 8, 8] x", s=np.asarray((1, 1, 4, 4), F)
        )

    wanted = run(model(), x=ramp)[0]
    done = optimized(model(), "split-resize")
    assert ops(done.model) == ["Resize", "Resize"]
    found = run(done.model, x=ramp)[0]
    np.testing.assert_allclose(found[..., 6:-6], wanted[..., 6:-6], atol=1e-5)
    assert np.abs(found - wanted).max() < 0.5  # of a ramp of 1 a pixel, at its ends
    assert done.model.graph.outputs[0].name == "y"


@pytest.mark.parametrize(
    ("kernel", "step", "pad", "name", "blocks"),
    [
        (7, 4, 3, "space-to-depth-stem", 1),  # SegFormer
        (11, 4, 2, "space-to-depth-stem", 1),  # AlexNet, whose first layer has 11x11 taps
        (5, 3, 1, "space-to-depth-stem", 1),
        (8, 8, 0, "space-to-depth-reduction", 2),  # SegFormer's spatial reduction
        (16, 16, 0, "space-to-depth-reduction", 2),  # the patches of a vision transformer
        (6, 6, 0, "space-to-depth-reduction", 2),
    ],
)
def test_a_strided_convolution_becomes_one_of_stride_1_over_blocks(
    kernel: int, step: int, pad: int, name: str, blocks: int
) -> None:
    model = build(
        f"y = Conv<strides = [{step}, {step}], pads = [{pad}, {pad}, {pad}, {pad}]>(x, w, b)",
        "float[1, 3, 48, 96] x", w=noise(5, 3, kernel, kernel), b=noise(5),
    )  # fmt: skip
    done = optimized(model, name)
    assert ops(done.model) == ["SpaceToDepth"] * blocks + ["Conv"]
    conv = next(node for node in done.model.graph if node.op_type == "Conv")
    assert "strides" not in conv.attributes


STRIDED = "y = Conv<strides = [{0}, {0}], pads = [{1}, {1}, {1}, {1}]>(x, w)"


@pytest.mark.parametrize(
    ("body", "shape", "weights"),
    [
        (STRIDED.format(2, 3), "float[1, 3, 16, 16] x", noise(4, 3, 7, 7)),  # ResNet's stem: flows walk a step of 2
        (STRIDED.format(4, 0), "float[1, 3, 16, 16] x", noise(4, 3, 4, 4)),  # a packed flow reads it as it is
        (STRIDED.format(4, 3), "float[1, 3, 18, 18] x", noise(4, 3, 7, 7)),  # no whole blocks
        ("y = Conv<strides = [4, 4], group = 3>(x, w)", "float[1, 3, 16, 16] x", noise(3, 1, 7, 7)),
        ("y = Conv<strides = [4, 4], dilations = [2, 2]>(x, w)", "float[1, 3, 32, 32] x", noise(3, 3, 3, 3)),
        ("y = Conv<strides = [4, 8]>(x, w)", "float[1, 3, 32, 32] x", noise(3, 3, 9, 9)),
    ],
)
def test_convolutions_that_only_look_alike_stay(body: str, shape: str, weights: Any) -> None:
    done = optimized(build(body, shape, w=weights), "space-to-depth-stem", "space-to-depth-reduction")
    assert ops(done.model) == ["Conv"]


UP = f'u = Resize<mode = "linear", {HALF}>(a, , s)'


@pytest.mark.parametrize(
    "body",
    [
        f"{UP} j = Concat<axis = 1>(u, b) y = Conv<pads = [1, 1, 1, 1]>(j, wide)",  # 3x3: neighbours of the large map
        f"{UP} j = Concat<axis = 1>(u, b) y = Conv<strides = [2, 2]>(j, w)",
        f"{UP} j = Concat<axis = 1>(u, b) c = Conv(j, w) p = Relu(j) q = ReduceMean(p) y = Add(c, q)",  # read twice
        f"{UP} r = Relu(u) j = Concat<axis = 1>(r, b) y = Conv(j, w)",  # a ReLU in between
        f"{UP} j = Concat<axis = 1>(b, b) c = Conv(j, w16) m = ReduceMean(u) y = Add(c, m)",  # nothing is enlarged
        'u = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(a, , s)'
        " j = Concat<axis = 1>(u, b) y = Conv(j, w)",
        "u = ConvTranspose<strides = [2, 2]>(a, k) j = Concat<axis = 1>(u, b) y = Conv(j, w)",
        # one branch of half the channels: a sum for each output eats what the products save
        'u = Resize<mode = "nearest">(even, , s) j = Concat<axis = 1>(u, b) y = Conv(j, w16)',
    ],
)
def test_joins_that_only_look_alike_stay(body: str) -> None:
    constants: dict[str, Any] = {
        "s": np.asarray((1, 1, 2, 2), F), "w": noise(4, 32, 1, 1), "wide": noise(4, 32, 3, 3),
        "w16": noise(4, 16, 1, 1), "k": noise(24, 24, 2, 2),
    }  # fmt: skip
    used = {name: value for name, value in constants.items() if f", {name})" in body or f" {name})" in body}
    shape = "float[1, 24, 4, 4] a, float[1, 8, 4, 4] even, float[1, 8, 8, 8] b"
    done = optimized(build(body, shape, **used), "fuse-before-upsample")
    assert hits(done, "fuse-before-upsample") == 0


def test_fuse_before_upsample_fires_on_the_head_of_hrnet_and_on_a_pyramid_of_pooled_maps() -> None:
    """HRNet joins four resolutions and fuses by 1x1; PSPNet enlarges pooled maps beside the map itself."""
    hrnet = optimized(head("linear", (4, 8, 16, 32), 60), "fuse-before-upsample")
    assert hits(hrnet, "fuse-before-upsample") == 1
    pooled = " ".join(
        f"p{n} = AveragePool<kernel_shape = [{n}, {n}], strides = [{n}, {n}]>(x)"
        f' u{n} = Resize<mode = "linear", {HALF}>(p{n}, , s{n})'
        for n in (2, 4, 8)
    )
    scales: dict[str, Any] = {f"s{n}": np.asarray((1, 1, n, n), F) for n in (2, 4, 8)}
    pyramid = build(f"{pooled} j = Concat<axis = 1>(x, u2, u4, u8) y = Conv(j, w)", "float[1, 4, 16, 16] x",
                    w=noise(6, 16, 1, 1), **scales)  # fmt: skip
    assert hits(optimized(pyramid, "fuse-before-upsample"), "fuse-before-upsample") == 1


def test_labels_are_repeated_only_on_request() -> None:
    body = f'u = Resize<mode = "linear", {HALF}>(x, , s) y = ArgMax<axis = 1, keepdims = 0>(u)'
    x, s = noise(1, 3, 4, 4), np.asarray((1, 1, 4, 4), F)

    def model() -> ir.Model:
        return build(body, "float[1, 3, 4, 4] x", "int64 y", s=s)

    kept = optimize(clean(model()), CHIP)
    asked = optimize(clean(model()), CHIP, enable=("replicate-labels",))
    small = x.argmax(axis=1)
    np.testing.assert_array_equal(run(asked.model, x=x)[0], small.repeat(4, axis=1).repeat(4, axis=2))
    assert not np.array_equal(run(kept.model, x=x)[0], run(asked.model, x=x)[0])


def test_what_is_disabled_does_not_run() -> None:
    done = optimize(clean(head()), CHIP, disable=("fuse-before-upsample",))
    assert "fuse-before-upsample" not in [result.name for result in done.log]
    assert "Concat" in ops(done.model)


def test_a_chip_that_lists_nothing_gets_the_model_as_it_is() -> None:
    assert "Concat" in ops(optimize(clean(head()), load_target("metis")).model)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("fuse-before-upsampling", "fuse-before-upsample"),
        ("fuse-clips", "fuse-clip"),
        ("stage-activations:x", "stage-"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        clean(head(), disable=(name,))
    assert caught.value.code == "unknown-pass"
    assert near in str(caught.value.hint)
