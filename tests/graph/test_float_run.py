"""The float path: feeds checked, stages joined, intermediates exposed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from axtool.errors import AxError
from axtool.graph import float_run
from axtool.graph.float_run import FloatModel
from axtool.graph.load import freeze_overridable, load_model
from tests.graph.load_models import FLOAT16, model, node, save, says, value

X = np.float32([[-1, 0, 2]])
CHAIN = [node("Neg", ["x"], ["a"]), node("Relu", ["a"], ["b"]), node("Add", ["b", "w"], ["y"])]
WEIGHTS = {"w": np.float32([10, 20, 30])}


@dataclass(frozen=True)
class Stage:
    model: ir.Model


def loaded(folder: Path, *args: Any, **options: Any) -> ir.Model:
    return load_model(save(folder, model(*args, **options))).model


def chain(folder: Path) -> ir.Model:
    return loaded(folder, CHAIN, weights=WEIGHTS)


def fault(run: FloatModel, feeds: dict[str, Any]) -> AxError:
    with pytest.raises(AxError) as caught:
        run.run(feeds)
    return caught.value


@pytest.mark.parametrize("optimize", ["disabled", "basic", "all"])
def test_outputs_are_by_name(tmp_path: Path, optimize: Any) -> None:
    result = FloatModel(chain(tmp_path), optimize=optimize).run({"x": X})
    assert list(result) == ["y"]
    np.testing.assert_array_equal(result["y"], [[11, 20, 30]])


def test_exposed_values_come_beside_the_outputs(tmp_path: Path) -> None:
    graph = chain(tmp_path)
    result = FloatModel(graph, expose=["a"]).run({"x": X})
    assert list(result) == ["y", "a"]
    np.testing.assert_array_equal(result["a"], -X)
    assert [v.name for v in graph.graph.outputs] == ["y"]


def test_everything_can_be_exposed(tmp_path: Path) -> None:
    assert sorted(FloatModel(chain(tmp_path), expose="all").run({"x": X})) == ["a", "b", "y"]


def test_an_unknown_value_to_expose_gets_the_nearest(tmp_path: Path) -> None:
    graph = loaded(tmp_path, [node("Neg", ["x"], ["feature"]), node("Relu", ["feature"], ["y"])])
    with pytest.raises(AxError) as caught:
        FloatModel(graph, expose=["featur"])
    says(caught.value, 2, "unknown-tensor", "featur", "did you mean feature?")


def test_a_wrong_input_name_gets_the_nearest(tmp_path: Path) -> None:
    graph = loaded(tmp_path, [node("Relu", ["image"], ["y"])], [value("image")])
    says(fault(FloatModel(graph), {"imag": X}), 2, "unknown-input", "'imag'", "did you mean image?")


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    graph = loaded(tmp_path, [node("Add", ["x", "z"], ["y"])], [value("x"), value("z")])
    says(fault(FloatModel(graph), {"x": X}), 2, "missing-input", "'z'")


@pytest.mark.parametrize(
    ("feed", "expected", "seen"),
    [
        (np.zeros((1, 4), np.float32), "[1,3]", "[1,4]"),
        (np.zeros((3,), np.float32), "[1,3]", "[3]"),
        (np.zeros((1, 3), np.float64), "float32", "float64"),
        (np.zeros((1, 3), np.uint8), "float32", "uint8"),
    ],
)
def test_a_feed_that_does_not_fit_gives_both_sides(tmp_path: Path, feed: Any, expected: str, seen: str) -> None:
    says(fault(FloatModel(chain(tmp_path)), {"x": feed}), 2, "input-mismatch", "'x'", expected, seen)


def test_half_precision_stays_half_precision(tmp_path: Path) -> None:
    graph = loaded(tmp_path, [node("Relu", ["x"], ["y"])], [value("x", [1, 3], FLOAT16)])
    assert FloatModel(graph).run({"x": X.astype(np.float16)})["y"].dtype == np.float16


def overridable(folder: Path) -> ir.Model:
    return loaded(folder, CHAIN, [value("x"), value("w", [3])], weights=WEIGHTS)


def test_an_overridable_initializer_keeps_its_value_until_it_is_fed(tmp_path: Path) -> None:
    run = FloatModel(overridable(tmp_path))
    np.testing.assert_array_equal(run.run({"x": X})["y"], [[11, 20, 30]])
    np.testing.assert_array_equal(run.run({"x": X, "w": np.zeros(3, np.float32)})["y"], [[1, 0, 0]])


def test_an_override_of_the_wrong_shape_is_refused(tmp_path: Path) -> None:
    error = fault(FloatModel(overridable(tmp_path)), {"x": X, "w": np.zeros(4, np.float32)})
    says(error, 2, "input-mismatch", "'w'", "[3]", "[4]")


def test_feeding_what_was_frozen_is_refused_by_that_reason(tmp_path: Path) -> None:
    graph = overridable(tmp_path)
    run = FloatModel(graph, frozen=freeze_overridable(graph))
    says(fault(run, {"x": X, "w": np.zeros(3, np.float32)}), 2, "frozen-input", "'w'", "constant")


def stages(folder: Path) -> list[Stage]:
    first = loaded(folder, CHAIN[:2], outputs=[value("a", None), value("b", None)])
    return [Stage(first), Stage(loaded(folder, CHAIN[2:], [value("b")], weights=WEIGHTS))]


def test_stages_are_joined_by_names(tmp_path: Path) -> None:
    run = FloatModel(stages(tmp_path))
    assert list(run.inputs) == ["x"]
    result = run.run({"x": X})
    assert list(result) == ["a", "b", "y"]
    np.testing.assert_array_equal(result["y"], [[11, 20, 30]])


def test_the_outputs_of_stages_can_be_chosen(tmp_path: Path) -> None:
    assert list(FloatModel(stages(tmp_path), outputs=["y", "a"]).run({"x": X})) == ["y", "a"]


def test_large_weights_go_through_a_file_that_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float_run, "_INLINE_BYTES", 8)
    monkeypatch.setattr(float_run.tempfile, "tempdir", str(tmp_path))
    big = {"w": np.arange(3000, dtype=np.float32).reshape(3, 1000)}
    graph = loaded(tmp_path, [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])], weights=big)
    run = FloatModel(graph, expose=["m"])
    np.testing.assert_allclose(run.run({"x": X})["m"], X @ big["w"])
    assert list(tmp_path.glob("axtool-float-*/weights.bin"))
    del run
    assert not list(tmp_path.glob("axtool-float-*"))


def test_an_op_without_a_kernel_is_unsupported(tmp_path: Path) -> None:
    graph = loaded(tmp_path, [node("Mul", ["x", "x"], ["y"])], [value("x", [1, 3], 16)])  # bfloat16
    with pytest.raises(AxError) as caught:
        FloatModel(graph)
    says(caught.value, 3, "float-kernel", "Mul")


def test_a_failing_run_names_the_node(tmp_path: Path) -> None:
    nodes = [node("Cast", ["x"], ["i"], to=7), node("Gather", ["t", "i"], ["y"], name="pick")]
    run = FloatModel(loaded(tmp_path, nodes, weights={"t": np.zeros(2, np.float32)}))
    says(fault(run, {"x": np.float32([[9, 0, 0]])}), 2, "float-run", "Gather 'pick'", "out of")
