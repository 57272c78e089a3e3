import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from axtool.errors import EnvironmentFault, NumericsError, UsageError
from axtool.inputs.samples import InputSpec, open_samples
from axtool.quant.calibrate import calibrate, names_to_calibrate
from axtool.quant.data import DataFacts, data_notices
from axtool.quant.formats import quantize_stage
from axtool.quant.observe import observe, open_pieces, plan_work
from axtool.quant.pieces import cut
from axtool.quant.ranges import Ranges, ranges_text, read_ranges, write_ranges
from axtool.types import QFormat

CASES = Path(__file__).parents[3] / "shared" / "cases"

NET = """<ir_version: 8, opset_import: ["": 17]> g (float[1,3,8,8] x) => (float[1,4,4,4] y)
<float[4,3,3,3] w, float[4,4,1,1] v> {
  c = Conv <pads = [1, 1, 1, 1]> (x, w)
  r = Relu (c)
  p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
  d = Conv (p, v)
  s = Sigmoid (d)
  y = Mul (d, s)
}"""


@dataclass(frozen=True)
class Stage:
    kind: str
    model: ir.Model
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def stage(text, kind="device", seed=0):
    proto = onnx.parser.parse_model(text)
    generator = np.random.default_rng(seed)
    weights = [
        onnx.numpy_helper.from_array(
            generator.normal(0, 1, [d.dim_value for d in info.type.tensor_type.shape.dim]).astype(np.float32), info.name
        )
        for info in proto.graph.value_info
    ]
    names = {tensor.name for tensor in weights}
    kept = [info for info in proto.graph.value_info if info.name not in names]
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(kept)
    proto.graph.initializer.extend(weights)
    return from_proto(proto, kind)


def from_proto(proto, kind="device"):
    proto = onnx.shape_inference.infer_shapes(proto)
    constants = {tensor.name for tensor in proto.graph.initializer}
    inputs = tuple(value.name for value in proto.graph.input if value.name not in constants)
    return Stage(kind, ir.from_proto(proto), inputs, tuple(value.name for value in proto.graph.output))


def feeds(count=4, shape=(1, 3, 8, 8), scale=1.0, name="x"):
    return [{name: np.random.default_rng(i).normal(0, scale, shape).astype(np.float32)} for i in range(count)]


def run(item, values, names):
    """What onnxruntime computes for intermediate values, optimisations off."""
    import onnxruntime

    proto = ir.to_proto(item.model)
    proto.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in item.outputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(list(names), values)


def codes(ranges):
    return [notice.code for notice in ranges.notices]


def test_ranges_are_the_extremes_over_all_samples():
    net = stage(NET)
    ranges = calibrate([net], feeds())
    for name in ("r", "d", "y"):
        values = np.stack([run(net, f, [name])[0] for f in feeds()])
        np.testing.assert_allclose(ranges[name], (values.min(), values.max()), rtol=1e-5)


def test_only_tensors_whose_format_depends_on_data_are_observed():
    assert set(calibrate([stage(NET)], feeds())) == {"x", "r", "d", "s", "y"}
    assert calibrate([stage(NET)], feeds())["s"] == (0.0, 1.0)


def test_pieces_of_any_size_give_the_same_ranges():
    whole = calibrate([stage(NET)], feeds())
    assert calibrate([stage(NET)], feeds(), budget_bytes=1).tensors == whole.tensors
    assert calibrate([stage(NET)], feeds(), budget_bytes=1100).tensors == whole.tensors


def test_the_sessions_of_the_pieces_have_the_only_copy_of_the_weights():
    work, _ = plan_work([stage(NET)], False)
    sessions = open_pieces(work)
    assert [piece.model for piece in work.pieces] == [b""]
    seen, _ = observe(work, feeds(), sessions=sessions)
    assert seen.observers["y"].range() == calibrate([stage(NET)], feeds())["y"]


def test_no_piece_exposes_more_than_the_budget():
    proto = ir.to_proto(stage(NET).model)
    pieces = cut(proto, ["r", "d", "y"], [], budget_bytes=1024)
    assert [piece.observed for piece in pieces] == [("r",), ("d", "y")]
    assert [piece.inputs for piece in pieces] == [("x",), ("p",)]


def test_no_piece_holds_more_weights_than_fit_one_model(monkeypatch):
    proto = ir.to_proto(stage(NET).model)
    monkeypatch.setattr("axtool.quant.pieces.MOST_WEIGHTS", 1)
    pieces = cut(proto, ["r", "d", "y"], [])
    weights = [len(onnx.load_model_from_string(piece.model).graph.initializer) for piece in pieces]
    assert len(pieces) > 1
    assert max(weights) < len(proto.graph.initializer)
    assert [name for piece in pieces for name in piece.observed] == ["r", "d", "y"]


def test_nodes_that_nothing_observed_reads_are_not_run():
    (piece,) = cut(ir.to_proto(stage(NET).model), ["r"], [])
    assert [node.op_type for node in onnx.load_from_string(piece.model).graph.node] == ["Conv", "Relu"]


def test_a_value_that_an_if_body_reads_reaches_its_piece():
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[4] x, bool c) => (float[4] y) {
      a = Relu (x)
      b = Neg (x)
      y = If (c) <then_branch = t () => (float[4] u) { u = Add (a, b) },
                  else_branch = e () => (float[4] u) { u = Sub (a, b) }>
    }"""
    pieces = cut(ir.to_proto(stage(text).model), ["a", "b"], ["y"], budget_bytes=1)
    assert [piece.outputs for piece in pieces] == [("a",), ("b", "y")]
    assert set(pieces[-1].inputs) == {"a", "c", "x"}


def test_host_stages_before_and_between_are_run_and_those_after_have_no_range():
    pre = stage("""<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] a) { a = Exp (x) }""", "host")
    first = stage("""<ir_version: 8, opset_import: ["": 17]> g (float[4] a) => (float[4] b) { b = Add (a, a) }""")
    middle = stage(
        """<ir_version: 8, opset_import: ["": 17]> g (float[4] b) => (float[4] c) { c = Sqrt (b) }""", "host"
    )
    second = stage("""<ir_version: 8, opset_import: ["": 17]> g (float[4] c, float[4] a) => (float[4] d)
        { d = Mul (c, a) }""")
    post = stage("""<ir_version: 8, opset_import: ["": 17]> g (float[4] d) => (float[4] e) { e = Neg (d) }""", "host")
    x = np.array([0, 1, 2, -1], np.float32)
    ranges = calibrate([pre, first, middle, second, post], [{"x": x}])
    a = np.exp(x)
    expected = {"a": a, "b": 2 * a, "c": np.sqrt(2 * a), "d": np.sqrt(2 * a) * a}
    assert set(ranges) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(ranges[name], (values.min(), values.max()), rtol=1e-5)


def test_nothing_is_kept_of_a_sample_after_its_pass():
    alive = []

    class Watched(np.ndarray):
        def __del__(self):
            alive.append(-1)

    def stream():
        for feed in feeds(5):
            assert sum(alive) <= 2  # this one and the one before
            alive.append(1)
            yield {"x": feed["x"].view(Watched)}

    calibrate([stage(NET)], stream())


def test_two_processes_give_the_bits_of_one(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.concatenate([feed["x"] for feed in feeds(20)]))
    samples = open_samples(tmp_path / "x.npz", [InputSpec("x", (1, 3, 8, 8))])
    done = []
    two = calibrate([stage(NET)], samples, "percentile", 99.0, jobs=2, progress=lambda *args: done.append(args))
    one = calibrate([stage(NET)], samples, "percentile", 99.0)
    assert (one.tensors, one.notices) == (two.tensors, two.notices)
    assert done[-1] == (20, 20)


def test_a_fault_in_another_process_is_the_users_error_here(tmp_path):
    x = np.concatenate([feed["x"] for feed in feeds(4)])
    x[3, 0, 0, 0] = np.nan
    np.savez(tmp_path / "x.npz", x=x)
    samples = open_samples(tmp_path / "x.npz", [InputSpec("x", (1, 3, 8, 8))])
    with pytest.raises(UsageError, match="'x', sample 3: 1 NaN of 192 values") as caught:
        calibrate([stage(NET)], samples, jobs=2)
    assert caught.value.code == "nan-in-input"


def test_a_process_that_is_gone_is_a_fault_of_the_machine(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 3, 8, 8), np.uint8))
    (tmp_path / "gone.py").write_text("import os\ndef f(image):\n    os._exit(0)\n")
    samples = open_samples(tmp_path / "x.npy", [InputSpec("x", (1, 3, 8, 8))], preprocess=f"{tmp_path / 'gone.py'}:f")
    with pytest.raises(EnvironmentFault, match="ended before its work"):
        calibrate([stage(NET)], samples, jobs=2)


def test_a_model_that_brings_its_formats_needs_no_data():
    net = stage(NET)
    given = {name: QFormat("int8", (0.1,), (0,)) for name in ("x", "r", "d", "y")}
    known = SimpleNamespace(kind="device", model=net.model, inputs=net.inputs, outputs=net.outputs, given=given)
    assert names_to_calibrate([net]) == ("x", "r", "d", "y")
    assert names_to_calibrate([known]) == ()


def test_a_percentile_range_lies_inside_that_of_minmax():
    wide, narrow = (calibrate([stage(NET)], feeds(), method, 95) for method in ("minmax", "percentile"))
    assert wide["y"][0] <= narrow["y"][0] < narrow["y"][1] < wide["y"][1]


def test_nan_activations_are_counted_and_left_out():
    net = stage("""<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) { y = Sqrt (x) }""")
    ranges = calibrate([net], [{"x": np.array([-1, 4, 9, -2], np.float32)}])
    assert ranges["y"] == (2, 3)
    (told,) = [str(n) for n in ranges.notices if n.code == "non-finite-activations"]
    assert told.startswith("tensor 'y': 2 NaN and 0 Inf of 4 values")


def test_of_many_tensors_with_nan_the_first_are_counted_and_the_others_summed_up():
    body = "".join(f"t{i + 1} = Neg (t{i}) " for i in range(7))
    net = stage(
        f"""<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] t7) {{ t0 = Sqrt (x) {body} }}"""
    )
    told = [str(n) for n in calibrate([net], [{"x": np.array([-1, 4, 9, -2], np.float32)}]).notices[1:]]
    assert [line[:11] for line in told[:-1]] == [f"tensor 't{i}'" for i in range(4)]
    assert told[-1] == "4 more tensors hold NaN or Inf in calibration: 't4' and others"


def test_nan_outputs_of_the_host_are_warned_of_and_leave_no_range():
    device = stage("""<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] a) { a = Add (x, x) }""")
    host = stage(
        """<ir_version: 8, opset_import: ["": 17]> g (float[4] a) => (float[4] b, float[4] c)
        { b = Sqrt (a) c = Log (b) }""",
        "host",
    )
    ranges = calibrate([device, host], [{"x": np.array([-1, 0, 1, -2], np.float32)}])
    told = [str(notice) for notice in ranges.notices if notice.code == "non-finite-outputs"]
    assert told == [f"tensor '{n}': 2 NaN of 4 values of the float model in calibration" for n in "bc"]
    assert set(ranges) == {"x", "a"}


def test_a_mask_of_minus_infinity_is_not_in_the_range():
    net = stage("""<ir_version: 8, opset_import: ["": 17]> g (float[2] x, float[2] m) => (float[2] y)
        { y = Add (x, m) }""")
    mask = np.array([0, -np.inf], np.float32)
    assert calibrate([net], [{"x": np.ones(2, np.float32), "m": mask}])["y"] == (1, 1)


def test_a_tensor_with_no_finite_value_is_refused_by_name():
    net = stage("""<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) { y = Log (x) }""")
    with pytest.raises(NumericsError, match="'y': 4 NaN, 0 Inf of 4") as caught:
        calibrate([net], [{"x": np.full(4, -1, np.float32)}])
    assert caught.value.exit == 5


def test_nan_weights_are_named_before_anything_runs():
    net = stage(NET)
    weights = net.model.graph.initializers["w"].const_value.numpy().copy()
    weights[0, 0, 0, 0] = np.nan
    net.model.graph.initializers["w"].const_value = ir.tensor(weights, name="w")
    with pytest.raises(NumericsError, match=r"'w' of Conv .*: 1 NaN of 108"):
        calibrate([net], feeds())


def test_no_samples_at_all_are_refused():
    with pytest.raises(UsageError, match="no calibration samples"):
        calibrate([stage(NET)], [])


def test_few_copied_and_constant_samples_are_warned_of():
    data = [*feeds(2), feeds(1)[0], {"x": np.zeros((1, 3, 8, 8), np.float32)}]
    ranges = calibrate([stage(NET)], data)
    assert codes(ranges) == ["few-samples", "duplicate-samples", "constant-samples"]
    assert "2 = 0" in str(ranges.notices[1])


def test_enough_different_samples_need_no_warning():
    assert codes(calibrate([stage(NET)], feeds(32))) == []


def test_a_sample_of_another_preparation_is_warned_of():
    data = feeds(4)
    data[3]["x"] *= 1e6
    told = [str(n) for n in calibrate([stage(NET)], data).notices if n.code == "outlier-sample"]
    assert len(told) == 1
    assert told[0].startswith("input 'x': sample 3 range is 1e6x the median")


def of_sign(low, count):
    return [{"x": np.random.default_rng(i).uniform(low, 1, (1, 3, 8, 8)).astype(np.float32)} for i in range(count)]


@pytest.mark.parametrize(("most", "few", "told"), [(0, -1, "holds negative values"), (-1, 0, "holds no negative")])
def test_a_sample_that_is_prepared_to_another_sign_is_warned_of(most, few, told):
    data = [*of_sign(most, 31), {"x": of_sign(few, 32)[31]["x"]}]
    (notice,) = calibrate([stage(NET)], data).notices
    assert notice.code == "unlike-samples"
    assert told in str(notice)
    assert "31" in str(notice)


@pytest.mark.parametrize("low", [0, -1])
def test_samples_of_one_sign_need_no_warning(low):
    assert codes(calibrate([stage(NET)], of_sign(low, 32))) == []


def test_samples_of_both_signs_in_equal_number_need_no_warning():
    data = [*of_sign(0, 16), *({"x": -feed["x"]} for feed in of_sign(0, 32)[16:])]
    assert codes(calibrate([stage(NET)], data)) == []


def test_an_order_of_magnitude_is_told_as_one():
    data = feeds(4)
    data[3]["x"] *= 6e5
    told = [str(n) for n in calibrate([stage(NET)], data).notices if n.code == "outlier-sample"]
    assert "is 1e6x the median" in told[0]


def test_a_scalar_input_is_no_constant_sample():
    net = stage("""<ir_version: 8, opset_import: ["": 17]> g (float[1] x) => (float[1] a) { a = Add (x, x) }""")
    samples = [{"x": np.array([v], np.float32)} for v in range(1, 33)]
    assert codes(calibrate([net], samples)) == []


def test_of_texts_only_copies_are_told():
    words = [np.array(["a", "b"], object), np.array(["a", "c"], object), np.array(["a", "b"], object)]
    facts = DataFacts()
    for index, text in enumerate(words):
        facts.add(index, {"words": text})
    told = {n.code: n.what for n in data_notices(facts, [], "minmax")}
    assert set(told) == {"few-samples", "duplicate-samples"}
    assert told["few-samples"] == "only 3 calibration samples; 32 or more give steadier ranges"
    assert told["duplicate-samples"] == "1 calibration sample is a copy of another: 2 = 0"


def test_progress_is_told_after_each_sample():
    done = []
    calibrate([stage(NET)], feeds(3), progress=lambda *args: done.append(args))
    assert [now for now, _ in done] == [1, 2, 3]


def test_ranges_survive_a_file_exactly(tmp_path):
    ranges = calibrate([stage(NET)], feeds())
    write_ranges(tmp_path / "r.json", ranges)
    assert read_ranges(tmp_path / "r.json") == ranges


def test_ranges_of_another_model_are_refused_with_the_nearest_names():
    ranges = Ranges({"x": (0, 1), "conv1": (0, 1)})
    with pytest.raises(
        UsageError, match=r"'conv_1' is missing; 'conv1' is no tensor of the model: did you mean conv_1\?"
    ):
        ranges.check(["x", "conv_1"])


BAD_RANGES = ("1", "[1]", "[2, 1]", "[0, NaN]", "[0, 1e39]", f"[0, 1{'0' * 400}]")


def test_means_of_other_channels_and_other_tensors_are_refused():
    known, channels = {"x", "y"}, {"x": 3}
    Ranges({}, means={"x": (1.0, 2.0, 3.0), "y": (0.0,)}).check([], known, channels)
    for key in ("means", "drift"):
        for rows in ({"x": (1.0, 2.0)}, {"x": ()}):
            with pytest.raises(UsageError, match=rf"'x' has 3 channels, found {len(rows['x'])} {key}"):
                Ranges({}, **{key: rows}).check([], known, channels)
        with pytest.raises(UsageError, match="'z' is no tensor of the model"):
            Ranges({}, **{key: {"z": (1.0,)}}).check([], known, channels)


@pytest.mark.parametrize(
    "part",
    [{"samples": bad} for bad in (-1, True, 1.5, 10**30, None, "7")]
    + [{"method": bad} for bad in ("a" * 201, {}, None)],
)
def test_a_count_or_a_method_that_is_none_is_refused(part):
    with pytest.raises(UsageError, match=f"'{next(iter(part))}'"):
        Ranges.from_dict({"schema": "axtool.ranges/1", "tensors": {}, **part})


@pytest.mark.parametrize(
    "document",
    ["", "[]", "{}", '{"schema": "axtool.ranges/2", "tensors": {}}', '{"schema": "axtool.ranges/1"}']
    + [f'{{"schema": "axtool.ranges/1", "tensors": {{"x": {bad}}}}}' for bad in BAD_RANGES],
)
def test_what_is_no_ranges_file_is_refused(tmp_path, document):
    (tmp_path / "r.json").write_text(document)
    with pytest.raises(UsageError, match=r"r\.json"):
        read_ranges(tmp_path / "r.json")


def test_the_ranges_document_has_its_schema_and_sorted_names():
    document = json.loads(ranges_text(Ranges({"b": (0, 1), "a": (-1, 2.5)})))
    assert document == {"schema": "axtool.ranges/1", "tensors": {"a": [-1, 2.5], "b": [0, 1]}}
    assert list(document["tensors"]) == ["a", "b"]


@pytest.mark.skipif(not CASES.is_dir(), reason="the case collection is not here")
@pytest.mark.parametrize("case", ["76_zero_weight_channels", "77_int32_bias_overflow", "80_dead_activation_range"])
def test_cases_of_degenerate_numbers_quantize_to_finite_ones(case):
    net = from_proto(onnx.load(CASES / f"{case}.onnx"))
    from axtool.graph.sites import sites_of

    data = np.load(CASES / f"{case}.npz")
    sample = {str(name): data[f"input_{i}"] for i, name in enumerate(data["input_names"])}
    ranges = calibrate([net], [sample])
    quantization = quantize_stage(sites_of(net.model), ranges, None, net.inputs, net.outputs)
    for weights in quantization.weights.values():
        assert np.all(np.isfinite(weights.scale) & (weights.scale > 0))
    for fmt in quantization.formats.values():
        assert np.isfinite(np.float32(1) / np.float32(fmt.scale[0]))


def test_a_stage_with_nothing_to_observe_needs_no_session():
    net = stage("""<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) { y = Identity (x) }""")
    work, _ = plan_work([net], False)
    assert (work.pieces, work.observed_inputs) == ((), ("x",))
