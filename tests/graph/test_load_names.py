"""Value and node names: written once, read after, unique."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from axtool.graph.float_run import FloatModel
from axtool.graph.load import load_model
from tests.graph.load_models import model, node, refusal, save, says, value


def test_a_tensor_that_nobody_produces_gets_its_reader_and_the_nearest_names(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["feature"], name="first"), node("Relu", ["feture"], ["y"], name="second")]
    error = refusal(save(tmp_path, model(nodes)))
    says(error, 2, "undefined-input", "'feture'", "second", "node 1", "did you mean feature?")


def test_all_missing_tensors_are_listed(tmp_path: Path) -> None:
    error = refusal(save(tmp_path, model([node("Add", ["ghost", "spirit"], ["y"])])))
    assert len(error.details) == 2


def test_an_output_that_nobody_produces_is_named(tmp_path: Path) -> None:
    error = refusal(save(tmp_path, model([node("Relu", ["x"], ["scores"])], outputs=[value("score", None)])))
    says(error, 2, "undefined-output", "'score'", "did you mean scores?")


def test_two_writers_of_one_tensor_are_both_named(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["y"], name="one"), node("Neg", ["x"], ["y"], name="two")]
    says(refusal(save(tmp_path, model(nodes))), 2, "duplicate-value", "'y'", "one", "two")


def test_a_node_may_not_write_an_input(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"], ["x"], name="loop")], outputs=[value("x")])
    says(refusal(save(tmp_path, proto)), 2, "duplicate-value", "'x'", "graph input", "loop")


def test_an_initializer_declared_twice_is_refused(tmp_path: Path) -> None:
    proto = model([node("Add", ["x", "w"], ["y"])], weights={"w": [1.0]})
    proto.graph.initializer.append(proto.graph.initializer[0])
    says(refusal(save(tmp_path, proto)), 2, "duplicate-value", "initializer 'w'")


def test_a_graph_without_nodes_says_so(tmp_path: Path) -> None:
    says(refusal(save(tmp_path, model([], outputs=[]))), 2, "no-nodes", "graph has no nodes")


def test_a_graph_without_outputs_says_so(tmp_path: Path) -> None:
    says(refusal(save(tmp_path, model([node("Relu", ["x"], ["y"])], outputs=[]))), 2, "no-outputs")


def test_a_cycle_is_shown_node_by_node(tmp_path: Path) -> None:
    nodes = [
        node("Add", ["x", "b"], ["a"], name="head"),
        node("Relu", ["a"], ["b"], name="tail"),
        node("Relu", ["b"], ["y"], name="after"),
    ]
    error = refusal(save(tmp_path, model(nodes)))
    says(error, 2, "cyclic-graph", "head", "tail")
    assert "after" not in str(error)


def test_unsorted_nodes_are_sorted_and_noted(tmp_path: Path) -> None:
    nodes = [node("Relu", ["b"], ["y"]), node("Neg", ["a"], ["b"]), node("Abs", ["x"], ["a"])]
    loaded = load_model(save(tmp_path, model(nodes)))
    assert [n.op_type for n in loaded.model.graph] == ["Abs", "Neg", "Relu"]
    assert any("sorted" in note for note in loaded.notes)


def test_a_captured_tensor_counts_for_the_order(tmp_path: Path) -> None:
    branch = onnx.helper.make_graph([node("Relu", ["late"], ["b"])], "b", [], [value("b", None)])
    nodes = [node("If", ["c"], ["y"], then_branch=branch, else_branch=branch), node("Neg", ["x"], ["late"])]
    loaded = load_model(save(tmp_path, model(nodes, [value("x"), value("c", [], onnx.TensorProto.BOOL)])))
    assert [n.op_type for n in loaded.model.graph] == ["Neg", "If"]


def test_a_tensor_missing_in_a_branch_names_the_node_around_it(tmp_path: Path) -> None:
    branch = onnx.helper.make_graph([node("Relu", ["ghost"], ["b"], name="deep")], "b", [], [value("b", None)])
    choose = node("If", ["c"], ["y"], then_branch=branch, else_branch=branch, name="choose")
    proto = model([choose], [value("x"), value("c", [], onnx.TensorProto.BOOL)])
    says(refusal(save(tmp_path, proto)), 2, "undefined-input", "ghost", "deep", "choose")


def test_unnamed_and_doubled_nodes_get_names_of_their_own(tmp_path: Path) -> None:
    nodes = [
        node("Relu", ["x"], ["a"], name="act"),
        node("Relu", ["a"], ["b"], name="act"),
        node("Relu", ["b"], ["y"]),
    ]
    loaded = load_model(save(tmp_path, model(nodes)))
    assert [n.name for n in loaded.model.graph] == ["act", "act_1", "Relu_y"]


def test_a_new_name_never_takes_one_that_is_in_use(tmp_path: Path) -> None:
    nodes = [
        node("Relu", ["x"], ["a"], name="n"),
        node("Relu", ["a"], ["b"], name="n"),
        node("Relu", ["b"], ["y"], name="n_1"),
    ]
    loaded = load_model(save(tmp_path, model(nodes)))
    names = [n.name for n in loaded.model.graph]
    assert len(set(names)) == 3
    assert names[0] == "n"
    assert names[2] == "n_1"


@pytest.mark.parametrize("name", ["a/b:0", "Größe", "画像", "with space"])
def test_any_unicode_name_is_kept(tmp_path: Path, name: str) -> None:
    proto = model([node("Relu", [name], ["y"])], [value(name)])
    assert [v.name for v in load_model(save(tmp_path, proto)).model.graph.inputs] == [name]


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["NAME"]), node("Relu", ["NAME"], ["y"])]
    content = model(nodes).SerializeToString().replace(b"NAME", b"N\xff\xfeE")
    says(refusal(save(tmp_path, content)), 2, "bad-name", "not valid UTF-8")


def test_a_comment_that_is_not_utf8_does_no_harm(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"], ["y"])])
    proto.doc_string = "COMMENT"
    content = proto.SerializeToString().replace(b"COMMENT", b"COMM\xff\xfeT")
    assert len(load_model(save(tmp_path, content)).model.graph) == 1


def test_an_output_may_be_an_input_or_a_weight(tmp_path: Path) -> None:
    outputs = [value("y", None), value("x"), value("w", None)]
    proto = model([node("Relu", ["x"], ["y"])], outputs=outputs, weights={"w": [1.0, 2.0]})
    loaded = load_model(save(tmp_path, proto))
    assert [tuple(v.shape.numpy()) for v in loaded.model.graph.outputs] == [(1, 3), (1, 3), (2,)]


def branch(read: str, name: str) -> onnx.GraphProto:
    return onnx.helper.make_graph([node("Relu", [read], [name])], "b", [], [value(name, None)])


def test_a_branch_may_use_the_name_of_the_value_it_gives(tmp_path: Path) -> None:
    choose = node("If", ["c"], ["y"], then_branch=branch("x", "y"), else_branch=branch("x", "y"))
    loaded = load_model(save(tmp_path, model([choose], [value("x"), value("c", [], onnx.TensorProto.BOOL)])))
    assert [n.op_type for n in loaded.model.graph] == ["If"]


def test_values_inside_branches_get_names_that_nothing_else_has(tmp_path: Path) -> None:
    nodes = [
        node("Neg", ["x"], ["q"]),
        node("If", ["c"], ["z"], then_branch=branch("x", "q"), else_branch=branch("q", "r")),
        node("Add", ["z", "q"], ["y"]),
    ]
    loaded = load_model(save(tmp_path, model(nodes, [value("x"), value("c", [], onnx.TensorProto.BOOL)])))
    names = [v.name for n in loaded.model.graph.all_nodes() for v in n.outputs]
    assert len(set(names)) == len(names)
    x = np.float32([[-1, 2, 3]])
    run = FloatModel(loaded.model)
    np.testing.assert_array_equal(run.run({"x": x, "c": np.array(True)})["y"], np.maximum(x, 0) - x)
    np.testing.assert_array_equal(run.run({"x": x, "c": np.array(False)})["y"], np.maximum(-x, 0) - x)
