"""Where each node runs: the rules of the cut, on small graphs, with the limits of a real target."""

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from axtool.errors import UsageError
from axtool.graph.passes import clean
from axtool.graph.split import Split, split
from axtool.graph.split_outputs import cut_outputs
from axtool.target_file import load_target
from tests.graph.pass_models import build, noise, run

TARGET = load_target("qc-u-1d7-16mb")
W: dict[str, Any] = {"w": noise(8, 3, 3, 3), "v": noise(8, 8, 3, 3), "u": noise(8, 8, 1, 1)}
SAME = "<pads = [1, 1, 1, 1]>"
HOST_OP = "LogSoftmax<axis = 1>"  # an op that no target has


def parts(body: str, outputs: str = "float y", inputs: str = "float[1, 3, 8, 8] x", **constants: Any) -> Split:
    """The split of a clean model; its stages, run in order, are held to the whole model."""
    used = {name: value for name, value in W.items() if f"{name})" in body or f"{name}," in body}
    model = build(body, inputs, outputs, **used, **constants)
    rng = np.random.default_rng(1)
    feeds = {value.name: rng.normal(0, 1, value.shape.numpy()).astype(np.float32) for value in model.graph.inputs}
    names = [value.name for value in model.graph.outputs]
    expected = dict(zip(names, run(model, **feeds), strict=True))
    result = split(clean(model).model, TARGET)
    found = run_stages(result, feeds)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)
    return result


def run_stages(result: Split, feeds: dict[str, Any]) -> dict[str, Any]:
    values = dict(feeds)
    for stage in result.stages:
        onnx.checker.check_model(ir.to_proto(stage.model))
        assert tuple(value.name for value in stage.model.graph.inputs) == stage.inputs
        assert tuple(value.name for value in stage.model.graph.outputs) == stage.outputs
        made = run(stage.model, **{name: values[name] for name in stage.inputs})
        values |= dict(zip(stage.outputs, made, strict=True))
    return values


def kinds(result: Split) -> list[str]:
    return [stage.kind for stage in result.stages]


def host_ops(result: Split) -> list[str]:
    return [verdict.op for verdict in result.verdicts if verdict.kind == "host"]


def test_a_plain_network_is_one_device_stage() -> None:
    result = parts(f"a = Conv{SAME}(x, w) b = Relu(a) y = Conv{SAME}(b, v)")
    assert kinds(result) == ["device"]
    assert result.device_macs == result.macs > 0


@pytest.mark.parametrize(
    "tail",
    [
        "y = Sigmoid(a)",
        "y = Softmax<axis = 1>(a)",
        "y = Tanh(a)",
        "y = Transpose<perm = [0, 2, 3, 1]>(a)",
        "y = Exp(a)",
    ],
)
def test_what_trails_behind_the_last_mac_op_is_the_postamble(tail: str) -> None:
    result = parts(f"a = Conv{SAME}(x, w) {tail}")
    assert kinds(result) == ["device", "host"]
    assert result.stages[0].outputs == ("a",)


def test_the_bias_of_the_last_matmul_is_the_layers_own() -> None:
    rows: dict[str, Any] = {"inputs": "float[1, 9, 8] x", "m": noise(8, 6), "b": noise(6)}
    result = parts("a = MatMul(x, m) z = Add(a, b) y = Sigmoid(z)", **rows)
    assert host_ops(result) == ["Sigmoid"]
    assert result.stages[0].outputs == ("z",)


@pytest.mark.parametrize(
    ("body", "outputs", "vector"),
    [
        ("a = MatMul(x, m) y = Add(a, b)", "float y", noise(9, 1)),
        ("a = MatMul(x, m) y = Add(a, b) z = Sigmoid(a)", "float y, float z", noise(6)),
        ("a = MatMul(x, m) y = Add(a, b)", "float y, float a", noise(6)),
    ],
)
def test_what_is_no_bias_of_the_last_matmul_is_the_postamble(body: str, outputs: str, vector: Any) -> None:
    result = parts(body, outputs, "float[1, 9, 8] x", m=noise(8, 6), b=vector)
    assert result.stages[0].outputs == ("a",)


def test_box_decoding_is_the_postamble() -> None:
    body = f"""a = Conv{SAME}(x, w) r = Reshape(a, s) l, t = Split<axis = 1>(r, four)
        p = Sub(k, l) q = Add(k, t) c = Concat<axis = 1>(p, q) y = Mul(c, k)"""
    constants = {"s": np.array([1, 8, 64]), "four": np.array([4, 4]), "k": np.abs(noise(1, 1, 64))}
    result = parts(body, **constants)
    assert kinds(result) == ["device", "host"]
    assert result.stages[0].outputs == ("a",)


def test_distances_decoded_by_a_softmax_and_a_few_macs_are_the_postamble() -> None:
    body = f"""a = Conv{SAME}(x, w) c = Conv{SAME}(a, v) b = Conv{SAME}(c, v)
        r = Reshape(b, s) t = Transpose<perm = [0, 2, 1, 3]>(r)
        p = Softmax<axis = 1>(t) y = Conv(p, bins)"""
    result = parts(body, s=np.array([1, 2, 4, 64]), bins=np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1))
    assert kinds(result) == ["device", "host"]
    assert result.stages[0].outputs == ("b",)
    assert "What follows a Softmax" in next(v for v in result.verdicts if v.op == "Softmax").reasons[0]


def test_a_softmax_in_front_of_many_macs_stays_on_the_device() -> None:
    result = parts(f"a = Conv{SAME}(x, w) p = Softmax<axis = 1>(a) y = Conv{SAME}(p, v)")
    assert kinds(result) == ["device"]


@pytest.mark.parametrize("activation", ["Relu", "LeakyRelu", "HardSwish", "Elu", "Softplus"])
def test_an_activation_right_behind_a_mac_op_stays_on_the_device(activation: str) -> None:
    assert kinds(parts(f"a = Conv{SAME}(x, w) y = {activation}(a)")) == ["device"]


def test_a_final_residual_sum_and_its_relu_stay_on_the_device() -> None:
    body = f"a = Conv{SAME}(x, w) b = Conv{SAME}(a, v) c = Add(a, b) y = Relu(c)"
    assert kinds(parts(body)) == ["device"]


def test_arithmetic_with_a_constant_at_the_end_goes_to_the_host() -> None:
    body = f"a = Conv{SAME}(x, w) b = Relu(a) y = Mul(b, k)"
    assert host_ops(parts(body, k=np.float32(0.5))) == ["Mul"]


def test_squeeze_and_excite_stays_on_the_device() -> None:
    body = f"""a = Conv{SAME}(x, w) g = GlobalAveragePool(a) p = Conv(g, u) r = Relu(p) q = Conv(r, u)
        h = HardSigmoid(q) m = Mul(a, h) y = Conv{SAME}(m, v)"""
    assert kinds(parts(body)) == ["device"]


def test_a_sigmoid_in_the_middle_stays_on_the_device() -> None:
    assert kinds(parts(f"a = Conv{SAME}(x, w) s = Sigmoid(a) y = Conv{SAME}(s, v)")) == ["device"]


def test_a_leading_transpose_stays_on_the_device() -> None:
    result = parts(f"t = Transpose<perm = [0, 3, 1, 2]>(x) y = Conv{SAME}(t, w)", inputs="float[1, 8, 8, 3] x")
    assert kinds(result) == ["device"]


def test_an_unsupported_op_in_the_middle_makes_two_device_stages() -> None:
    result = parts(f"a = Conv{SAME}(x, w) h = {HOST_OP}(a) y = Conv{SAME}(h, v)")
    assert kinds(result) == ["device", "host", "device"]
    assert result.stages[1].inputs == ("a",)
    assert result.stages[1].outputs == ("h",)


def test_a_small_device_piece_behind_host_work_is_not_worth_it() -> None:
    body = f"""a = Conv{SAME}(x, w) b = Conv{SAME}(a, v) c = Conv{SAME}(b, v) d = Conv{SAME}(c, v)
        p = GlobalAveragePool(d) s = {HOST_OP}(p) y = Conv(s, one)"""
    result = parts(body, one=noise(1, 8, 1, 1))
    assert kinds(result) == ["device", "host"]
    verdict = result.verdicts[-1]
    assert verdict.op == "Conv"
    assert "1%" in verdict.reasons[0]
    assert verdict.advice


def test_moves_before_a_piece_that_went_to_the_host_go_too() -> None:
    body = f"""a = Conv{SAME}(x, w) b = Conv{SAME}(a, v) c = Conv{SAME}(b, v) t = Transpose<perm = [0, 2, 1, 3]>(c)
        s = {HOST_OP}(t) p = GlobalAveragePool(s)  y = Relu(p)"""
    result = parts(body)
    assert kinds(result) == ["device", "host"]
    assert result.stages[0].outputs == ("c",)


def test_host_work_sinks_to_where_it_is_needed() -> None:
    body = f"h = {HOST_OP}(x) a = Conv{SAME}(x, w) b = Reshape(a, s) c = Reshape(h, s) y = Concat<axis = 1>(b, c)"
    result = parts(body, s=np.array([1, -1]))
    assert kinds(result) == ["device", "host"]
    assert result.stages[0].inputs == ("x",)


def test_host_work_before_the_network_is_the_preamble() -> None:
    result = parts(f"h = {HOST_OP}(x) y = Conv{SAME}(h, w)")
    assert kinds(result) == ["host", "device"]


def test_two_independent_branches_share_one_device_stage() -> None:
    body = f"a = Conv{SAME}(x, w) b = Conv{SAME}(z, w) y = Sigmoid(a) q = Tanh(b)"
    result = parts(body, "float y, float q", "float[1, 3, 8, 8] x, float[1, 3, 8, 8] z")
    assert kinds(result) == ["device", "host"]
    assert result.stages[0].inputs == ("x", "z")


def test_a_value_that_many_read_crosses_once() -> None:
    result = parts(f"a = Conv{SAME}(x, w) y = Sigmoid(a) z = Tanh(a)", "float y, float z, float a")
    assert result.stages[0].outputs == ("a",)


def test_a_model_without_mac_or_pooling_ops_keeps_what_fits() -> None:
    result = parts("a = Relu(x) y = Sigmoid(a)")
    assert kinds(result) == ["device"]
    assert result.device_macs == 0
    assert result.device_nodes == 2


def test_a_model_of_host_ops_is_one_host_stage_with_a_reason_for_each_node() -> None:
    result = parts(f"y = {HOST_OP}(x)")
    assert kinds(result) == ["host"]
    assert result.device_nodes == 0
    assert "LogSoftmax" in result.verdicts[0].reasons[0]


def test_a_subgraph_counts_as_a_reader() -> None:
    body = f"""a = Conv{SAME}(x, w) m = ReduceMax<keepdims = 0>(a) f = Greater(m, k)
        y = If<then_branch = p () => (float[1, 8, 8, 8] t) {{ t = Neg(a) }},
               else_branch = q () => (float[1, 8, 8, 8] e) {{ e = Abs(a) }}>(f)"""
    model = build(body, outputs="float[1, 8, 8, 8] y", w=W["w"], k=np.float32(0))
    result = split(clean(model).model, TARGET)
    x = noise(1, 3, 8, 8)
    assert result.stages[0].outputs == ("a",)
    np.testing.assert_allclose(run_stages(result, {"x": x})["y"], run(model, x=x)[0], rtol=1e-5)


def test_ax_functions_travel_with_the_stage_that_uses_them() -> None:
    result = parts(f"a = Conv{SAME}(x, w) s = Sigmoid(a) m = Mul(a, s) b = Conv{SAME}(m, v) y = Tanh(b)")
    device, host = result.stages
    assert [key[1] for key in device.model.functions] == ["Silu"]
    assert not host.model.functions


def test_every_node_has_a_verdict_that_names_its_stage() -> None:
    result = parts(f"a = Conv{SAME}(x, w) h = {HOST_OP}(a) y = Conv{SAME}(h, v)")
    assert [(v.op, v.kind, v.stage, v.index) for v in result.verdicts] == [
        ("Conv", "device", 0, 0), ("LogSoftmax", "host", 1, 1), ("Conv", "device", 2, 2),
    ]  # fmt: skip
    assert [bool(v.reasons) for v in result.verdicts] == [False, True, False]
    assert [v.macs for v in result.verdicts] == [8 * 27 * 64, 0, 8 * 72 * 64]


def test_formats_of_a_quantized_file_reach_their_stage() -> None:
    body = f"q = QuantizeLinear(x, s) d = DequantizeLinear(q, s) a = Conv{SAME}(d, w) y = Sigmoid(a)"
    model = build(body, w=W["w"], s=np.float32(0.05))
    x = noise(1, 3, 8, 8)
    before = run(model, x=x)[0]
    cleaned = clean(model)
    result = split(cleaned.model, TARGET, given=cleaned.given)
    assert list(result.stages[0].given) == ["x"]
    assert "QuantizeLinear" in [node.op_type for node in result.stages[0].float_model.graph]
    stages = [stage.float_model for stage in result.stages]
    value = run(stages[1], a=run(stages[0], x=x)[0])[0]
    np.testing.assert_allclose(value, before, rtol=1e-5)


def test_the_outputs_that_the_user_names_end_the_model() -> None:
    body = f"a = Conv{SAME}(x, w) b = Relu(a) c = Conv{SAME}(b, v) y = Sigmoid(c)"
    result = split(cut_outputs(build(body, **{k: W[k] for k in ("w", "v")}), ["c", "b"]), TARGET)
    assert kinds(result) == ["device"]
    assert set(result.stages[0].outputs) == {"b", "c"}


def test_the_cut_keeps_the_order_of_the_names() -> None:
    model = cut_outputs(build("a = Relu(x) b = Neg(a) y = Abs(b)"), ["b", "a"])
    assert [value.name for value in model.graph.outputs] == ["b", "a"]
    assert [node.op_type for node in model.graph] == ["Relu", "Neg"]


def test_splitting_leaves_the_model_as_it_is() -> None:
    model = build(f"a = Conv{SAME}(x, w) y = Sigmoid(a)", w=W["w"])
    before = ir.to_proto(model).SerializeToString()
    split(model, TARGET)
    assert ir.to_proto(model).SerializeToString() == before


@pytest.mark.parametrize(
    ("names", "code", "said"),
    [
        (["conv_outt"], "unknown-output", "conv_out"),
        (["x"], "unknown-output", "an input"),
        (["nothing", "like it"], "unknown-output", "'nothing', 'like it'"),
        (["conv_out", "conv_out"], "duplicate-output", "twice"),
    ],
)
def test_names_that_cannot_be_outputs_are_refused(names: list[str], code: str, said: str) -> None:
    model = build(f"conv_out = Conv{SAME}(x, w) y = Sigmoid(conv_out)", w=W["w"])
    with pytest.raises(UsageError) as caught:
        cut_outputs(model, names, "m.onnx")
    assert (caught.value.code, caught.value.where) == (code, "m.onnx")
    assert said in f"{caught.value} {caught.value.hint} {caught.value.details}"


def test_initializers_of_a_stage_stand_in_the_order_of_the_model() -> None:
    constants = {f"w{at}": noise(3, 3, 1, 1, seed=at) for at in range(20)}
    body = " ".join(f"v{at + 1} = Conv(v{at}, w{at})" for at in range(20)).replace("v0,", "x,")
    model = build(f"{body} y = Sigmoid(v20)", **constants)
    device = split(model, TARGET).stages[0].model
    assert list(device.graph.initializers) == list(constants)


def test_an_input_that_only_the_host_reads_does_not_reach_the_device() -> None:
    body = f"a = Conv{SAME}(x, w) i = Cast<to = 1>(n) y = Mul(a, i)"
    model = build(body, "float[1, 3, 8, 8] x, int64[1] n", w=W["w"])
    result = split(clean(model).model, TARGET)
    assert result.stages[0].inputs == ("x",)
    assert result.stages[1].inputs == ("n", "a")


def test_an_output_that_is_an_input_is_made_by_no_stage() -> None:
    model = build(f"y = Conv{SAME}(x, w)", w=W["w"])
    model.graph.outputs.append(model.graph.inputs[0])
    result = split(clean(model).model, TARGET)
    assert [stage.outputs for stage in result.stages] == [("y",)]


def test_an_output_that_is_a_constant_is_made_by_the_host() -> None:
    body = f"y = Conv{SAME}(x, w) k = Add(one, one)"
    model = build(body, outputs="float y, float k", w=W["w"], one=np.float32(1))
    result = split(clean(model).model, TARGET)
    assert kinds(result) == ["device", "host"]
    found = run_stages(result, {"x": noise(1, 3, 8, 8)})
    assert found["k"] == 2


def test_an_initializer_that_is_an_output_is_made_by_the_host() -> None:
    model = build(f"y = Conv{SAME}(x, w)", w=W["w"])
    model.graph.outputs.append(model.graph.initializers["w"])
    result = split(clean(model).model, TARGET)
    np.testing.assert_array_equal(run_stages(result, {"x": noise(1, 3, 8, 8)})["w"], W["w"])


def test_a_mean_and_a_difference_that_only_the_host_reads_are_computed_where_their_input_goes_anyway() -> None:
    mean = f"a = Conv{SAME}(x, w) m = ReduceMean<axes = [1]>(a) d = Sub(a, m)"
    result = parts(f"{mean} e = {HOST_OP}(d) f = {HOST_OP}(m) y = Add(e, f)")
    assert host_ops(result) == ["ReduceMean", "Sub", "LogSoftmax", "LogSoftmax", "Add"]
    assert result.stages[0].outputs == ("a",)


def test_a_mean_that_is_less_than_its_input_stays_on_the_device() -> None:
    result = parts(f"a = Conv{SAME}(x, w) m = GlobalAveragePool(a) y = {HOST_OP}(m)")
    assert host_ops(result) == ["LogSoftmax"]


def test_a_residual_sum_that_only_the_host_reads_stays_on_the_device() -> None:
    result = parts(f"a = Conv{SAME}(x, w) b = Conv{SAME}(a, v) c = Add(a, b) y = {HOST_OP}(c)")
    assert host_ops(result) == ["LogSoftmax"]
