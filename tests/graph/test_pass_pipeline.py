"""The pipeline as a whole: its page, switching passes off, and the check between passes."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from axtool.errors import Exit, UsageError
from axtool.graph.functions import BODIES, attach
from axtool.graph.passes import PASSES, clean
from axtool.graph.passes.checking import Checker, PassFault, random_feeds
from tests.graph.pass_models import build, hits, noise, ops, run

SILU = "s = Sigmoid(x) y = Mul(x, s)"


def test_pass_names_are_unique() -> None:
    assert len({step.name for step in PASSES}) == len(PASSES)


def test_every_pass_module_says_what_goes_in_and_what_comes_out() -> None:
    import sys

    for step in PASSES:
        first = (sys.modules[step.run.__module__].__doc__ or "").splitlines()[0]
        assert "->" in first or step.run.__module__.endswith("tidy"), step.name


def test_a_pass_that_is_switched_off_does_not_run() -> None:
    result = clean(build(SILU), disable=["fuse-gates"])
    assert ops(result.model) == ["Sigmoid", "Mul"]
    assert "fuse-gates" not in [entry.name for entry in result.log]


def test_an_unknown_pass_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        clean(build(SILU), disable=["fuse-gate"])
    assert caught.value.code == "unknown-pass"
    assert "fuse-gates" in caught.value.hint


def test_a_second_run_finds_nothing_more() -> None:
    body = f"{SILU[: -len('y = Mul(x, s)')]} m = Mul(x, s) c = Conv(m, w) d = Div(c, two) y = Identity(d)"
    once = clean(build(body, w=noise(4, 3, 1, 1), two=np.float32(2)))
    assert set(hits(once)) >= {"fuse-gates", "fold-affine", "remove-noops"}
    assert not hits(clean(once.model))


def test_the_check_runs_after_each_pass_that_hit() -> None:
    checker = Checker()
    result = clean(build(SILU), check=checker)
    assert set(checker.checked) == set(hits(result))


def test_a_pass_that_changes_the_numbers_is_named() -> None:
    before, after = build("y = Relu(x)"), build("y = Neg(x)")
    with pytest.raises(PassFault, match="fold-wrong") as caught:
        Checker()(before, after, "fold-wrong")
    assert caught.value.exit == Exit.INTERNAL


def test_a_pass_that_makes_a_model_onnxruntime_refuses_is_named() -> None:
    after = build("y = Relu(x)")
    after.graph[0].op_type = "NoSuchOp"
    with pytest.raises(PassFault, match="refuses"):
        Checker()(build("y = Relu(x)"), after, "fold-wrong")


@pytest.mark.parametrize("body", ["y = Cast<to = 6>(x)", "c = Concat<axis = 1>(x, x) y = Relu(c)"])
def test_another_type_or_shape_is_a_fault(body: str) -> None:
    with pytest.raises(PassFault, match="it was float32"):
        Checker()(build("y = Relu(x)"), build(body), "fold-wrong")


def test_rounding_in_another_order_is_no_fault() -> None:
    third = build("a = Mul(x, k) y = Add(a, k)", k=np.float32(1 / 3))
    Checker()(third, build("a = Add(x, one) y = Mul(a, k)", k=np.float32(1 / 3), one=np.float32(1)), "reorder")


def test_feeds_cover_every_type_of_input() -> None:
    model = build("y = Relu(x)", "float[2] x, int64[3] i, bool[4] b, float16[1, 5] h, uint8[2, 2] u")
    feeds = random_feeds(model)
    assert {name: (array.dtype.name, array.shape) for name, array in feeds.items()} == {
        "x": ("float32", (2,)), "i": ("int64", (3,)), "b": ("bool", (4,)), "h": ("float16", (1, 5)),
        "u": ("uint8", (2, 2)),
    }  # fmt: skip


# How a node calls each body: its overload, how often x is an input, and the opsets in which it is made.
EVERY, BEFORE_17 = (9, 13, 20), (9, 13, 16)
CALLS: dict[tuple[str, str], tuple[str, int, tuple[int, ...]]] = {
    ("HardSwish", "1"): ("0.999755860", 1, EVERY),
    ("LayerNormalization", "1"): ("1e-05", 2, BEFORE_17),
    ("LayerNormalization", "1 biased"): ("1e-05 biased", 3, BEFORE_17),
    ("Attention", "2"): ("2 0.5", 3, EVERY),
    ("Attention", "2 masked"): ("2 0.5 masked", 3, EVERY),
}


@pytest.mark.parametrize(
    ("op", "overload", "reads", "opset"),
    [
        (op, overload, reads, opset)
        for op, kind in BODIES
        for overload, reads, opsets in [CALLS.get((op, kind), (kind, 1, EVERY))]
        for opset in opsets
    ],
)
def test_every_ax_function_runs_in_every_opset(op: str, overload: str, reads: int, opset: int) -> None:
    masked = ", float[1, 1, 1, 3] mask" if "masked" in overload else ""
    model = build("y = Relu(x)", f"float[1, 3, 8] x{masked}", opset=opset)
    graph, last = model.graph, model.graph[0]
    inputs = [graph.inputs[0]] * reads + ([graph.inputs[1]] if masked else [])
    node = ir.node(op, inputs, domain="ax", overload=overload, num_outputs=2 if op == "Attention" else 1)
    if op == "Attention":
        node.attributes["heads"], node.attributes["scale"] = ir.AttrInt64("heads", 2), ir.AttrFloat32("scale", 0.5)
    graph.insert_before(last, node)
    last.replace_input_with(0, node.outputs[0])
    attach(model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    feeds = {"x": noise(1, 3, 8)} | ({"mask": noise(1, 1, 1, 3)} if masked else {})
    assert np.isfinite(run(model, **feeds)[0]).all()


def test_functions_that_nothing_uses_are_taken_away() -> None:
    model = clean(build(SILU)).model
    model.graph[0].op_type, model.graph[0].domain = "Relu", ""
    attach(model)
    assert not model.functions
    assert "ax" not in model.opset_imports


def test_local_functions_are_inlined_with_fresh_names() -> None:
    text = """<ir_version: 9, opset_import: ["": 18, "local": 1]>
        g (float[1, 4] x) => (float[1, 4] y) { a = local.Act(x) y = local.Act(a) }
        <opset_import: ["": 18], domain: "local"> Act (v) => (r) { s = Sigmoid(v) r = Mul(v, s) }"""
    result = clean(ir.from_onnx_text(text))
    assert ops(result.model) == ["Silu", "Silu"]
    assert result.model.graph.outputs[0].name == "y"
