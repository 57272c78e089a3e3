"""BatchNormalization and per-channel Mul, Add, Sub, Div fold into the MAC op before them, when that is legal."""

from typing import Any

import numpy as np
import pytest

from axtool.graph.passes.fold_batchnorm import fold_batchnorm
from axtool.graph.passes.work import Work
from tests.graph.pass_models import apply, build, cleaned, hits, noise, ops


def bn(channels: int, tag: str = "", seed: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    draw = {"g": rng.uniform(0.5, 2, channels), "b": rng.normal(0, 1, channels)}
    draw |= {"m": rng.normal(0, 1, channels), "v": rng.uniform(0.1, 2, channels)}
    return {name + tag: value.astype(np.float32) for name, value in draw.items()}


BN = "BatchNormalization<epsilon = 0.001>"
MACS: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "conv": ("c = Conv(x, w)", "float[1, 3, 8, 8] x", {"w": noise(4, 3, 3, 3)}, 4),
    "conv with bias": ("c = Conv(x, w, k)", "float[1, 3, 8, 8] x", {"w": noise(4, 3, 3, 3), "k": noise(4)}, 4),
    "depthwise": ("c = Conv<group = 3>(x, w)", "float[1, 3, 8, 8] x", {"w": noise(6, 1, 3, 3)}, 6),
    "1-D conv": ("c = Conv(x, w)", "float[1, 3, 8] x", {"w": noise(4, 3, 3)}, 4),
    "transposed": ("c = ConvTranspose(x, w)", "float[1, 3, 8, 8] x", {"w": noise(3, 4, 2, 2)}, 4),
    "grouped transposed": ("c = ConvTranspose<group = 2>(x, w, k)", "float[1, 4, 5, 5] x", {
        "w": noise(4, 3, 2, 2), "k": noise(6),
    }, 6),
    "gemm": ("c = Gemm(x, w, k)", "float[2, 5] x", {"w": noise(5, 4), "k": noise(4)}, 4),
    "gemm scaled": ("c = Gemm<alpha = 2.0, beta = 0.5, transB = 1>(x, w, k)", "float[2, 5] x", {
        "w": noise(4, 5), "k": noise(1, 4),
    }, 4),
    "matmul": ("c = MatMul(x, w)", "float[2, 5] x", {"w": noise(5, 4)}, 4),
}  # fmt: skip


@pytest.mark.parametrize("kind", MACS)
def test_batchnorm_folds_into_the_mac_op_before_it(kind: str) -> None:
    body, inputs, constants, channels = MACS[kind]
    model = build(f"{body} y = {BN}(c, g, b, m, v)", inputs, **constants, **bn(channels))
    result = cleaned(model)
    assert len(result.model.graph) == 1
    assert result.model.graph[0].op_type in ("Conv", "ConvTranspose", "Gemm")
    assert result.model.graph.outputs[0].name == "y"


@pytest.mark.parametrize("kind", MACS)
@pytest.mark.parametrize("op", ["Mul", "Add", "Sub", "Div"])
def test_an_operation_with_one_constant_a_channel_folds(kind: str, op: str) -> None:
    body, inputs, constants, channels = MACS[kind]
    tail = inputs.count(",") - 1
    per_channel = np.abs(noise(channels, seed=7)).reshape((channels,) + (1,) * tail if tail else (1, channels)) + 0.5
    result = cleaned(build(f"{body} y = {op}(c, t)", inputs, t=per_channel, **constants))
    assert len(result.model.graph) == 1


def test_the_constant_may_stand_first() -> None:
    result = cleaned(build("c = Conv(x, w) y = Mul(t, c)", w=noise(4, 3, 1, 1), t=noise(4, 1, 1)))
    assert ops(result.model) == ["Conv"]


def test_a_batchnorm_whose_conv_is_read_elsewhere_does_not_fold() -> None:
    body = f"c = Conv(x, w) n = {BN}(c, g, b, m, v) m2 = MaxPool<kernel_shape = [2, 2]>(c)"
    result = cleaned(build(body, outputs="float n, float m2", w=noise(4, 3, 1, 1), **bn(4)))
    assert sorted(ops(result.model)) == ["Add", "Conv", "MaxPool", "Mul"]


def test_a_conv_that_is_a_graph_output_keeps_its_numbers() -> None:
    body = f"c = Conv(x, w) n = {BN}(c, g, b, m, v)"
    result = cleaned(build(body, outputs="float n, float c", w=noise(4, 3, 1, 1), **bn(4)))
    assert ops(result.model) == ["Conv", "Mul", "Add"]


def test_a_shared_weight_is_copied_before_it_is_scaled() -> None:
    body = f"c = Conv(x, w, k) n = {BN}(c, g, b, m, v) q = Conv(x, w, k)"
    result = cleaned(build(body, outputs="float n, float q", w=noise(4, 3, 1, 1), k=noise(4), **bn(4)))
    assert ops(result.model) == ["Conv", "Conv"]
    assert len({node.inputs[1] for node in result.model.graph}) == 2


def test_a_weight_of_one_reader_keeps_its_name() -> None:
    result = cleaned(build(f"c = Conv(x, w) n = {BN}(c, g, b, m, v)", outputs="float n", w=noise(4, 3, 1, 1), **bn(4)))
    assert result.model.graph[0].inputs[1] is result.model.graph.initializers["w"]


def test_a_batchnorm_after_relu_becomes_mul_and_add() -> None:
    model = build(f"r = Relu(x) y = {BN}(r, g, b, m, v)", **bn(3))
    assert apply(fold_batchnorm, model) == 1
    assert ops(model) == ["Relu", "Mul", "Add"]


def test_a_batchnorm_of_opset_9_folds() -> None:
    result = cleaned(build(f"c = Conv(x, w) y = {BN}(c, g, b, m, v)", opset=9, w=noise(4, 3, 1, 1), **bn(4)))
    assert ops(result.model) == ["Conv"]


def test_a_training_batchnorm_stays() -> None:
    body = f"c = Conv(x, w) y, mm, vv = {BN[:-1]}, training_mode = 1>(c, g, b, m, v)"
    assert fold_batchnorm(Work(build(body, w=noise(4, 3, 1, 1), **bn(4)))) == 0


def test_parameters_that_are_not_finite_stay_in_their_node() -> None:
    values = bn(4)
    values["v"][2] = np.nan
    model = build(f"c = Conv(x, w) y = {BN}(c, g, b, m, v)", w=noise(4, 3, 1, 1), **values)
    assert fold_batchnorm(Work(model)) == 0


@pytest.mark.parametrize(
    ("name", "constant"),
    [
        ("varies over space", noise(1, 1, 8, 8)),
        ("varies over the last axis", noise(8)),
        ("adds an axis", noise(1, 1, 4, 1, 1)),
        ("grows the batch", noise(2, 4, 1, 1)),
    ],
)
def test_look_alikes_of_a_bias_stay(name: str, constant: Any) -> None:
    result = cleaned(build("c = Conv(x, w) y = Add(c, t)", w=noise(4, 3, 1, 1), t=constant))
    assert ops(result.model) == ["Conv", "Add"]


def test_a_gemm_whose_c_varies_over_rows_takes_no_scale() -> None:
    result = cleaned(
        build("c = Gemm(x, w, k) y = Mul(c, t)", "float[2, 5] x", w=noise(5, 4), k=noise(2, 1), t=noise(4))
    )
    assert ops(result.model) == ["Gemm", "Mul"]


def test_a_matmul_of_rank_3_takes_a_scale_but_no_bias() -> None:
    result = cleaned(
        build(
            "c = MatMul(x, w) s = Mul(c, t) y = Add(s, u)",
            "float[1, 2, 5] x",
            w=noise(5, 4),
            t=noise(4),
            u=noise(4, seed=2),
        )
    )
    assert ops(result.model) == ["MatMul", "Add"]


def test_a_weight_that_is_computed_at_run_time_is_left_alone() -> None:
    model = build("c = Conv(x, w) y = Mul(c, t)", "float[1, 3, 8, 8] x, float[4, 3, 1, 1] w", t=noise(4, 1, 1))
    assert ops(cleaned(model).model) == ["Conv", "Mul"]


@pytest.mark.parametrize("divisor", [0.0, 1e-39, np.inf])
def test_a_divisor_without_a_normal_reciprocal_stays(divisor: float) -> None:
    result = cleaned(build("y = Div(x, t)", t=np.float32(divisor)))
    assert ops(result.model) == ["Div"]


def test_integer_arithmetic_is_never_rewritten() -> None:
    result = cleaned(build("a = Div(x, t) y = Sub(a, u)", "int64[4] x", "int64 y", t=np.array([3]), u=np.array([1])))
    assert ops(result.model) == ["Div", "Sub"]
    assert "normalize-arithmetic" not in hits(result)


def test_the_node_keeps_the_name_of_the_conv() -> None:
    model = build(f"c = Conv(x, w) y = {BN}(c, g, b, m, v)", w=noise(4, 3, 1, 1), **bn(4))
    model.graph[0].name = "stem"
    assert [node.name for node in cleaned(model).model.graph] == ["stem"]
