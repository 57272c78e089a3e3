"""Known values become initializers; what is random, quantized, unknown or too large stays."""

import numpy as np
import onnx_ir as ir
import pytest

from axtool.graph.passes import clean
from axtool.graph.passes.fold_constants import fold_constants
from axtool.graph.passes.inline_if import inline_if
from axtool.graph.passes.work import Work
from tests.graph.pass_models import apply, build, cleaned, noise, ops, run


def test_shape_arithmetic_folds_to_a_constant_reshape() -> None:
    model = build(
        "s = Shape(x) n = Gather(s, zero) nn = Unsqueeze(n, zeros) t = Concat<axis = 0>(nn, minus) y = Reshape(x, t)",
        zero=np.int64(0),
        zeros=np.array([0]),
        minus=np.array([-1]),
    )
    assert ops(cleaned(model).model) == ["Reshape"]


def test_shape_of_a_tensor_needs_no_values() -> None:
    model = build("r = Relu(x) s = Shape<start = 1, end = 3>(r) y = Cast<to = 1>(s)", outputs="float y")
    apply(fold_constants, model)
    assert "Shape" not in ops(model)


def test_a_constant_graph_output_is_still_made_by_a_node() -> None:
    model = build("y = Add(a, b) z = Relu(x)", outputs="float y, float z", a=noise(2), b=noise(2, seed=1))
    apply(fold_constants, model)
    assert [value.name for value in model.graph.outputs] == ["y", "z"]
    assert sorted(ops(model)) == ["Identity", "Relu"]


def test_a_folded_value_keeps_its_name() -> None:
    model = build("w = Transpose<perm = [1, 0]>(t) y = MatMul(x, w)", "float[2, 3] x", t=noise(4, 3))
    apply(fold_constants, model)
    assert list(model.graph.initializers)[-1] == "w"


def test_weights_behind_several_ops_fold_in_one_go() -> None:
    model = build(
        "w = Cast<to = 1>(h) v = Mul(w, g) y = Conv(x, v)",
        h=noise(2, 3, 1, 1).astype(np.float16),
        g=noise(2, 1, 1, 1),
    )
    assert ops(cleaned(model).model) == ["Conv"]


@pytest.mark.parametrize("op", ["RandomNormalLike", "RandomUniformLike", "Bernoulli"])
def test_random_ops_never_fold(op: str) -> None:
    model = build(f"r = {op}(c) y = Add(x, r)", "float[2] x", c=np.zeros(2, np.float32))
    assert fold_constants(Work(model)) == 0


def test_dropout_in_training_mode_never_folds() -> None:
    body = "r = Dropout(c, ratio, yes) y = Add(x, r)"
    model = build(body, "float[2] x", c=noise(2), ratio=np.float32(0.5), yes=np.bool_(1))
    assert "Dropout" in ops(clean(model).model)


def test_a_large_fill_of_a_small_input_stays() -> None:
    model = build("f = Expand(c, s) y = Add(x, f)", "float[1] x", c=noise(1), s=np.array([1024, 1025]))
    apply(fold_constants, model)
    assert ops(model) == ["Expand", "Add"]


def test_a_small_fill_folds() -> None:
    model = build("f = ConstantOfShape(s) y = Add(x, f)", "float[4] x", s=np.array([4]))
    apply(fold_constants, model)
    assert ops(model) == ["Add"]


def test_what_onnxruntime_refuses_to_evaluate_stays() -> None:
    model = build("g = Gather(c, i) y = Add(x, g)", "float[1] x", c=noise(3), i=np.array([7]))
    notes: list[str] = []
    work = Work(model, notes=notes)
    assert fold_constants(work) == 0
    assert ops(model) == ["Gather", "Add"]
    assert "not folded" in notes[0]


IF = """c = Greater(three, two)
    y = If<then_branch = a () => (float[1, 3, 8, 8] t) { t = Mul(x, k) },
           else_branch = b () => (float[1, 3, 8, 8] e) { e = Add(x, k) }>(c)"""


def test_an_if_with_a_known_condition_becomes_its_branch() -> None:
    model = build(IF, three=np.float32(3), two=np.float32(2), k=noise(3, 1, 1))
    result = cleaned(model)
    assert ops(result.model) == ["Mul"]
    assert result.model.graph.outputs[0].name == "y"


def test_an_if_on_an_input_stays_and_keeps_what_its_branches_read() -> None:
    body = IF.replace("Greater(three, two)", "Greater(flag, two)")
    inputs, output = "float[1, 3, 8, 8] x, float flag", "float[1, 3, 8, 8] y"
    model = build(body, inputs, output, two=np.float32(2), k=noise(3, 1, 1))
    result = cleaned(model)
    assert ops(result.model) == ["Greater", "If"]
    assert "k" in result.model.graph.initializers


def test_names_of_two_inlined_branches_do_not_collide() -> None:
    one = "If<then_branch = a () => (float[2] t) { t = Mul(x, k) }, else_branch = b () => (float[2] t) { t = Neg(x) }>"
    model = build(f"p = {one}(c) q = {one}(d) y = Add(p, q)", "float[2] x", c=np.bool_(1), d=np.bool_(0), k=noise(2))
    x = noise(2, seed=4)
    before = run(model, x=x)[0]
    assert inline_if(Work(model)) == 2
    names = [value.name for node in model.graph for value in node.outputs]
    assert len(set(names)) == len(names)
    np.testing.assert_array_equal(run(model, x=x)[0], before)


def test_a_loop_stays() -> None:
    model = build(
        """y = Loop<body = b (int64 i, bool go, float[2] a) => (bool going, float[2] s) {
            going = Identity(go) s = Add(a, k) }>(trips, , x)""",
        "float[2] x",
        "float[2] y",
        trips=np.int64(3),
        k=noise(2),
    )
    assert ops(cleaned(model).model) == ["Loop"]


def test_an_initializer_that_a_caller_may_override_is_no_constant() -> None:
    model = build("s = Add(g, one) y = Mul(x, s)", "float[2] x, float[2] g", one=np.float32(1))
    gain = model.graph.inputs[1]
    gain.const_value = ir.tensor(np.ones(2, np.float32), name="g")
    model.graph.register_initializer(gain)
    assert fold_constants(Work(model)) == 0
