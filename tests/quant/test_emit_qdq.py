"""`compile --emit qdq`: what onnxruntime computes from the file is what the reference engine computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from axtool.config import package_dir
from axtool.runtime.model import load
from tests.plan.test_lower_numbers import CASES
from tests.quant.qdq_case import Emitted, compiled, emitted, formats, pairs, run, sqnr_db
from tests.tiny import axtool

STEPS = 1  # of a layer's own rounding: half up here, half to even in onnxruntime
DECIBELS = 1.0
MAP = "float[1,8,9,10]"

# name -> (graph text, weights)
LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "conv": (
        f"({MAP} x) => (float[1,5,9,10] y) {{ y = Conv <pads=[1,1,1,1]> (x, w, b) }}",
        {"w": (5, 8, 3, 3), "b": (5,)},
    ),
    "conv, strided and dilated, without bias": (
        f"({MAP} x) => (float[1,5,4,4] y) {{ y = Conv <strides=[2,2], dilations=[1,2], pads=[0,1,1,0]> (x, w) }}",
        {"w": (5, 8, 3, 3)},
    ),
    "conv, depthwise": (
        f"({MAP} x) => (float[1,8,9,10] y) {{ y = Conv <pads=[1,1,1,1], group=8> (x, w, b) }}",
        {"w": (8, 1, 3, 3), "b": (8,)},
    ),
    "conv, grouped": (
        f"({MAP} x) => (float[1,6,9,10] y) {{ y = Conv <pads=[1,1,1,1], group=2> (x, w, b) }}",
        {"w": (6, 4, 3, 3), "b": (6,)},
    ),
    "conv of one axis": (
        "(float[1,8,20] x) => (float[1,5,20] y) { y = Conv <pads=[1,1]> (x, w, b) }",
        {"w": (5, 8, 3), "b": (5,)},
    ),
    "conv with a clamp": (
        f"({MAP} x) => (float[1,5,7,8] y) {{ c = Conv (x, w, b) y = Relu (c) }}",
        {"w": (5, 8, 3, 3), "b": (5,)},
    ),
    "conv with a table": (
        f"({MAP} x) => (float[1,5,7,8] y) {{ c = Conv (x, w, b) s = Sigmoid (c) y = Mul (c, s) }}",
        {"w": (5, 8, 3, 3), "b": (5,)},
    ),
    "conv whose channels are split": (
        f"""({MAP} x) => (float[1,16,9,10] y) {{
            sizes = Constant <value_ints=[16,16]> ()
            c = Conv (x, w, b) r = Relu (c) p, q = Split <axis=1> (r, sizes) y = Mul (p, q)
        }}""",
        {"w": (32, 8, 1, 1), "b": (32,)},
    ),
    "conv transpose": (
        f"({MAP} x) => (float[1,5,18,20] y) {{ y = ConvTranspose <strides=[2,2], pads=[0,0,0,0]> (x, w, b) }}",
        {"w": (8, 5, 2, 2), "b": (5,)},
    ),
    "conv transpose, grouped": (
        f"({MAP} x) => (float[1,6,19,21] y) {{ y = ConvTranspose <strides=[2,2], group=2> (x, w, b) }}",
        {"w": (8, 3, 3, 3), "b": (6,)},
    ),
    "gemm": (
        "(float[1,24] x) => (float[1,7] y) { y = Gemm <transB=1> (x, w, b) }",
        {"w": (7, 24), "b": (7,)},
    ),
    "gemm with factors": (
        "(float[1,24] x) => (float[1,7] y) { y = Gemm <alpha=0.5, beta=2.0> (x, w, b) }",
        {"w": (24, 7), "b": (1, 7)},
    ),
    "gemm of a flattened map": (
        f"({MAP} x) => (float[1,7] y) {{ r = Relu (x) f = Flatten (r) y = Gemm <transB=1> (f, w, b) }}",
        {"w": (7, 720), "b": (7,)},
    ),
    "matmul": ("(float[1,12,24] x) => (float[1,12,7] y) { y = MatMul (x, w) }", {"w": (24, 7)}),
    "matmul with an addend": (
        "(float[1,12,24] x) => (float[1,12,7] y) { m = MatMul (x, w) y = Add (m, b) }",
        {"w": (24, 7), "b": (7,)},
    ),
    "add": (f"({MAP} x, {MAP} z) => ({MAP} y) {{ k = Relu (z) y = Add (x, k) }}", {}),
    "sub": (f"({MAP} x, {MAP} z) => ({MAP} y) {{ y = Sub (x, z) }}", {}),
    "mul": (f"({MAP} x, {MAP} z) => ({MAP} y) {{ y = Mul (x, z) }}", {}),
    "mul, clamped": (f"({MAP} x, {MAP} z) => ({MAP} y) {{ m = Mul (x, z) y = Relu (m) }}", {}),
    "a factor for each channel": (f"({MAP} x) => ({MAP} y) {{ y = Mul (x, c) }}", {"c": (1, 8, 1, 1)}),
    "one factor": (f"({MAP} x) => ({MAP} y) {{ y = Mul (x, c) }}", {"c": np.float32(-0.3)}),
    "an addend for each channel": (f"({MAP} x) => ({MAP} y) {{ y = Add (c, x) }}", {"c": (8, 1, 1)}),
    "a minuend for each channel": (f"({MAP} x) => ({MAP} y) {{ y = Sub (c, x) }}", {"c": (8, 1, 1)}),
    "a constant map as factor": (f"({MAP} x) => ({MAP} y) {{ y = Mul (x, c) }}", {"c": (1, 1, 9, 10)}),
    "a constant map as addend": (f"({MAP} x) => ({MAP} y) {{ y = Add (x, c) }}", {"c": (1, 8, 9, 10)}),
    "batch normalization": (
        f"({MAP} x) => ({MAP} y) {{ y = BatchNormalization (x, s, b, m, v) }}",
        {"s": (8,), "b": (8,), "m": (8,), "v": np.linspace(0.5, 2, 8)},
    ),
    "concat of different scales": (
        f"({MAP} x, {MAP} z) => (float[1,24,9,10] y) {{ r = Relu (x) t = Tanh (z) y = Concat <axis=1> (x, r, t) }}",
        {},
    ),
    "average pool": (
        f"({MAP} x) => (float[1,8,5,5] y) {{"
        "y = AveragePool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,0]> (x) }",
        {},
    ),
    "global average pool": (f"({MAP} x) => (float[1,8,1,1] y) {{ y = GlobalAveragePool (x) }}", {}),
    "max pool": (
        f"({MAP} x) => (float[1,8,5,5] y) {{ y = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,0]> (x) }}",
        {},
    ),
    "resize, nearest": (
        f"({MAP} x) => (float[1,8,18,20] y) {{ y = Resize <coordinate_transformation_mode=\"asymmetric\", "
        'nearest_mode="floor"> (x, , k) }',
        {"k": np.array([1, 1, 2, 2])},
    ),
    "resize, linear": (
        f"({MAP} x) => (float[1,8,18,20] y) {{ y = Resize <mode=\"linear\"> (x, , k) }}",
        {"k": np.array([1, 1, 2, 2])},
    ),
    "activations that nothing fuses": (
        f"""({MAP} x) => ({MAP} y) {{
            a = LeakyRelu <alpha=0.1> (x) b = Tanh (a) c = HardSwish (b) d = Elu (c) y = Add (d, a)
        }}""",
        {},
    ),
    "prelu": (f"({MAP} x) => ({MAP} y) {{ y = PRelu (x, s) }}", {"s": (8, 1, 1)}),
    "moves": (
        f"""({MAP} x) => (float[1,5,20,18] y) {{
            t = Transpose <perm=[0,1,3,2]> (x) d = DepthToSpace <blocksize=2> (t) y = Conv (d, w)
        }}""",
        {"w": (5, 2, 1, 1)},
    ),
}  # fmt: skip

NET = """(float[1,3,16,16] x) => (float[1,10] scores, float[1,8,8,8] map) {
  a = Conv <pads=[1,1,1,1], strides=[2,2]> (x, w1, b1)
  r = Relu (a)
  c = Conv <pads=[1,1,1,1]> (r, w2, b2)
  g = Sigmoid (c)
  s = Mul (c, g)
  t = Add (s, r)
  map = MaxPool <kernel_shape=[3,3], pads=[1,1,1,1]> (t)
  p = GlobalAveragePool (map)
  f = Flatten (p)
  scores = Gemm <transB=1> (f, w3, b3)
}"""
NET_WEIGHTS: dict[str, Any] = {
    "w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 8, 3, 3), "b2": (8,), "w3": (10, 8), "b3": (10,),
}  # fmt: skip
PLAIN = """(float[1,3,16,16] x) => (float[1,10] scores) {
  a = Conv <pads=[1,1,1,1], strides=[2,2]> (x, w1, b1)
  r = Relu (a)
  c = Conv <pads=[1,1,1,1]> (r, w2, b2)
  p = GlobalAveragePool (c)
  f = Flatten (p)
  scores = Gemm <transB=1> (f, w3, b3)
}"""
# The host reads x as it is; two device stages with a Softmax between them.
STAGES = """(float[1,8,12,12] x) => (float[1,8,12,12] y, float[1,8,12,12] kept) {
  c = Conv (x, w1)
  k = LpNormalization <axis=3> (c)
  y = Conv <pads=[1,1,1,1]> (k, w2)
  kept = LpNormalization <axis=3> (x)
}"""

# Split, Squeeze and Softmax say otherwise in opset 13 what they say in 11.
OLD = """(float[1,3,8,8] x) => (float[1,2,8,8] y, float[4,64] z) {
  c = Conv (x, w) r = HardSigmoid <alpha=0.16666667, beta=0.5> (c) s = Mul (c, r)
  y, e = Split <axis=1, split=[2,2]> (s)
  shape = Constant <value = int64[3] {1, 4, 64}> () f = Reshape (c, shape) m = Softmax <axis=2> (f)
  z = Squeeze <axes=[0]> (m)
}"""


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    return emitted(tmp_path_factory.mktemp("net"), NET, NET_WEIGHTS)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_agrees_with_the_reference_to_one_step(name: str, tmp_path: Path) -> None:
    made = emitted(tmp_path, *LAYERS[name])
    steps = made.steps()
    assert set(steps) == made.device_tensors() != set()
    assert max(steps.values()) <= STEPS, steps


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, (_, words) in CASES.items() if not words.get("domain_ax")])
def test_whatever_is_lowered_agrees_with_the_reference_to_one_step(name: str, tmp_path: Path) -> None:
    graph, weights = CASES[name]
    shapes = {key: value for key, value in weights.items() if key not in ("opset", "spread")}
    spread = float(weights.get("spread", 1.0))
    steps = emitted(tmp_path, graph, shapes, opset=int(weights.get("opset", 18)), spread=spread).steps()
    assert max(steps.values()) <= STEPS, steps


def test_onnx_finds_the_file_valid(net: Emitted) -> None:
    onnx.checker.check_model(net.proto, full_check=True)


def test_the_file_needs_no_functions_and_no_other_domain(net: Emitted) -> None:
    assert (len(net.proto.functions), {opset.domain for opset in net.proto.opset_import}) == (0, {""})


def test_inputs_and_outputs_are_those_of_the_source(net: Emitted) -> None:
    source = onnx.load(str(net.source))
    assert net.proto.graph.input == source.graph.input
    assert [value.name for value in net.proto.graph.output] == [value.name for value in source.graph.output]
    assert {name: array.shape for name, array in net.run(net.feeds[0]).items()} == {
        "scores": (1, 10), "map": (1, 8, 8, 8),
    }  # fmt: skip


def test_weights_are_int8_with_a_scale_for_each_channel_and_biases_int32(net: Emitted) -> None:
    known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in net.proto.graph.initializer}
    makers = {name: node for node in net.proto.graph.node for name in node.output}
    for conv in [node for node in net.proto.graph.node if node.op_type in ("Conv", "Gemm")]:
        weight, bias = (makers[name] for name in conv.input[1:])
        assert (known[weight.input[0]].dtype, known[bias.input[0]].dtype) == (np.int8, np.int32)
        assert known[weight.input[1]].shape == known[bias.input[1]].shape == known[bias.input[0]].shape


def test_a_bias_has_the_scale_of_the_input_times_that_of_the_weights(net: Emitted) -> None:
    known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in net.proto.graph.initializer}
    makers = {name: node for node in net.proto.graph.node for name in node.output}
    for conv in [node for node in net.proto.graph.node if node.op_type == "Conv"]:
        data, weight, bias = (known[makers[name].input[1]] for name in conv.input)
        np.testing.assert_allclose(bias, data * weight, rtol=1e-6)


def test_what_a_fused_clamp_or_activation_reads_is_not_rounded(net: Emitted) -> None:
    assert not {"a", "c"} & set(pairs(net.proto))
    assert {"x", "r", "s", "t", "map", "p", "scores"} <= set(pairs(net.proto))


def test_without_a_vector_unit_the_activation_reads_a_rounded_tensor(tmp_path: Path) -> None:
    chip = (package_dir("configs") / "targets" / "qc-u-1d7-16mb.yaml").read_text()
    (tmp_path / "chip.yaml").write_text(chip.replace("vector_unit: {value: true", "vector_unit: {value: false"))
    made = emitted(tmp_path, NET, NET_WEIGHTS, "--target", tmp_path / "chip.yaml")
    assert "c" in pairs(made.proto)
    assert max(made.steps().values()) <= STEPS


def test_the_whole_net_loses_as_much_as_on_the_device(net: Emitted) -> None:
    model, source = net.engine(), onnx.load(str(net.source))
    for name in ("scores", "map"):
        right = np.stack([run(source, feeds)[name] for feeds in net.feeds])
        device = np.stack([model.run(feeds).outputs[name] for feeds in net.feeds])
        file = np.stack([net.run(feeds)[name] for feeds in net.feeds])
        assert abs(sqnr_db(right, device) - sqnr_db(right, file)) < DECIBELS


def test_softmax_stays_float_on_the_host(tmp_path: Path) -> None:
    made = emitted(
        tmp_path, "(float[1,3,8,8] x) => (float[1,4,8,8] y) { c = Conv (x, w) y = Softmax <axis=-1> (c) }",
        {"w": (4, 3, 1, 1)},
    )  # fmt: skip
    assert set(pairs(made.proto)) == {"x", "c"}
    assert max(made.steps().values()) <= STEPS


def test_every_stage_of_several_is_rounded_and_the_host_reads_what_it_read(tmp_path: Path) -> None:
    made = emitted(tmp_path, STAGES, {"w1": (8, 8, 1, 1), "w2": (8, 8, 3, 3)})
    assert len(made.engine().artefact.device_stages) == 2
    assert set(pairs(made.proto)) == {"x", "c", "k", "y"}
    assert max(made.steps().values()) <= STEPS
    right = run(onnx.load(str(made.source)), made.feeds[0])["kept"]
    np.testing.assert_array_equal(made.run(made.feeds[0])["kept"], right)


def test_an_old_opset_is_raised_to_13(tmp_path: Path) -> None:
    made = emitted(tmp_path, OLD, {"w": (4, 3, 1, 1)}, opset=11)
    assert [(one.domain, one.version) for one in made.proto.opset_import] == [("", 13)]
    onnx.checker.check_model(made.proto, full_check=True)
    assert max(made.steps().values()) <= STEPS
    model = made.engine()
    for feeds in made.feeds:
        device, file = model.run(feeds).outputs, made.run(feeds)
        assert {name: array.shape for name, array in device.items()} == {n: array.shape for n, array in file.items()}
        assert min(sqnr_db(device[name], file[name]) for name in ("y", "z")) > 30


def test_a_newer_opset_stays(net: Emitted) -> None:
    assert net.proto.opset_import[0].version == 17


def test_read_back_the_file_gives_the_same_formats(net: Emitted, tmp_path: Path) -> None:
    source = tmp_path / "again.onnx"
    source.write_bytes(net.qdq.read_bytes())
    assert formats(compiled(source).proto) == formats(net.proto)


def test_read_back_a_plain_net_gives_the_same_bits(tmp_path: Path) -> None:
    first = emitted(tmp_path, PLAIN, NET_WEIGHTS)
    one, other = first.engine(), compiled(first.qdq).engine()
    for feeds in first.feeds:
        right, got = one.run(feeds).outputs, other.run(feeds).outputs
        np.testing.assert_array_equal(got["scores"], right["scores"])


def test_with_the_ranges_of_what_is_not_rounded_any_net_gives_the_same_bits(net: Emitted, tmp_path: Path) -> None:
    words = ("--calib", net.source.with_suffix(".npz"), "-O", 0, "--save-ranges", tmp_path / "ranges.json", "-q")
    assert axtool("compile", net.source, *words, "-o", tmp_path / "first.axm").code == 0
    words = ("--ranges", tmp_path / "ranges.json", "-q")
    assert axtool("compile", net.qdq, *words, "-o", tmp_path / "again.axm").code == 0
    one, other = net.engine(), load(tmp_path / "again.axm", engine="reference")
    for feeds in net.feeds:
        right, got = one.run(feeds).outputs, other.run(feeds).outputs
        for name in ("scores", "map"):
            np.testing.assert_array_equal(got[name], right[name])


def test_a_plain_net_read_back_needs_no_calibration(tmp_path: Path) -> None:
    first = emitted(tmp_path, PLAIN, NET_WEIGHTS)
    assert axtool("compile", first.qdq, "-o", tmp_path / "again.axm", "-q").code == 0


def test_a_model_that_came_in_qdq_form_goes_out_with_the_same_numbers(tmp_path: Path) -> None:
    first = emitted(tmp_path, PLAIN, NET_WEIGHTS)
    again = compiled(first.qdq)
    for feeds in first.feeds:
        np.testing.assert_array_equal(again.run(feeds)["scores"], first.run(feeds)["scores"])


def test_corrected_biases_are_in_the_file(tmp_path: Path) -> None:
    graph = "(float[1,12,24] x) => (float[1,12,7] y) { r = Relu (x) y = MatMul (r, w) }"
    made = emitted(tmp_path, graph, {"w": (24, 7)}, "-O", 1, "--method", "minmax")
    assert made.engine().artefact.quantization["bias_corrected"]
    assert "Add" in [node.op_type for node in made.proto.graph.node]
    assert max(made.steps().values()) <= STEPS


def test_two_compiles_emit_the_same_bytes(net: Emitted, tmp_path: Path) -> None:
    assert emitted(tmp_path, NET, NET_WEIGHTS).qdq.read_bytes() == net.qdq.read_bytes()


def test_two_compiles_of_an_old_opset_emit_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        emitted(folder, OLD, {"w": (4, 3, 1, 1)}, opset=11)
    assert (first / "m.qdq.onnx").read_bytes() == (second / "m.qdq.onnx").read_bytes()


def test_weights_rounded_for_the_data_are_in_the_file(tmp_path: Path) -> None:
    assert max(emitted(tmp_path, NET, NET_WEIGHTS, "-O", 2).steps().values()) <= STEPS


def test_a_subgraph_of_the_host_reads_what_the_device_rounded(tmp_path: Path) -> None:
    value, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    float_, shape = onnx.TensorProto.FLOAT, [1, 4, 8, 8]
    branches = {
        f"{name}_branch": onnx.helper.make_graph([node(op, ["c"], [name])], name, [], [value(name, float_, shape)])
        for name, op in (("then", "Exp"), ("else", "Neg"))
    }
    nodes = [
        node("Conv", ["x", "w"], ["c"]), node("ReduceMax", ["c"], ["top"], keepdims=0),
        node("Greater", ["top", "zero"], ["up"]), node("If", ["up"], ["y"], **branches),
    ]  # fmt: skip
    constants = [
        onnx.numpy_helper.from_array(np.random.default_rng(0).normal(0, 0.3, (4, 3, 1, 1)).astype(np.float32), "w"),
        onnx.numpy_helper.from_array(np.float32(0), "zero"),
    ]
    graph = onnx.helper.make_graph(
        nodes, "g", [value("x", float_, [1, 3, 8, 8])], [value("y", float_, shape)], constants
    )
    source = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), source)
    made = compiled(source)
    choice = next(node for node in made.proto.graph.node if node.op_type == "If")
    assert {attribute.g.node[0].input[0] for attribute in choice.attribute} == {pairs(made.proto)["c"][1].output[0]}
    for feeds in made.feeds:
        right = made.engine().run(feeds).outputs["y"]
        assert sqnr_db(right, made.run(feeds)["y"]) > 30
