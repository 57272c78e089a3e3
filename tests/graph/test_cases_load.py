"""The case files, where they are at hand: the valid load and give the expected numbers, the broken are refused."""

from typing import Any

import numpy as np
import pytest

from axtool.graph.float_run import FloatModel
from axtool.graph.load import load_model
from tests.graph.load_models import refusal, says
from tests.shared_data import ATOL, CASES, RTOL, arrays, case_name, cases, needs_cases

# name of a broken case -> (exit code, stable code, words of the message)
REFUSED: dict[str, tuple[Any, ...]] = {
    "empty_file": (2, "empty-file", "file is empty"),
    "git_lfs_pointer": (2, "git-lfs-pointer", "Git LFS pointer; run git lfs pull"),
    "zip_or_pt_checkpoint": (2, "not-onnx", "this is a zip/PyTorch checkpoint; export to ONNX first"),
    "missing_external_data": (2, "external-data-missing", "b06_missing.data", "w"),
    "short_external_data": (2, "external-data-short", "b07_short.data: need 432 bytes at 0, file has 100"),
    "external_path_traversal": (2, "external-data-outside", "w"),
    "future_opset": (3, "opset", "opset 99; axtool supports 7.."),
    "future_ir_version": (3, "ir-version", "99", "re-export"),
    "missing_opset_import": (2, "no-opset", "model declares no opset for domain ai.onnx"),
    "unknown_op": (3, "unsupported-op", "FooBar ×1", "Relu_y"),
    "op_newer_than_opset": (2, "op-needs-newer-opset", "Gelu", "opset 13", "opset 20"),
    "undefined_input": (2, "undefined-input", "ghost", "Relu_y", "c, w, x"),
    "duplicate_value_name": (2, "duplicate-value", "Relu_y", "Sigmoid_y"),
    "mixed_float_types": (2, "mixed-types", "Conv_y", "float32", "float16"),
    "channel_mismatch": (2, "channel-mismatch", "Conv_c: input has 8 channels, weight needs 3; input looks NHWC"),
    "initializer_size_mismatch": (2, "initializer-size", "'w'", "432", "392"),
    "gather_index_out_of_range": (2, "index-out-of-range", "Gather_y", "index 5", "size 3"),
    "no_nodes": (2, "no-nodes", "graph has no nodes"),
}


@pytest.mark.parametrize("case", cases("valid"), ids=case_name)
def test_a_valid_case_gives_the_expected_numbers(case: dict[str, Any]) -> None:
    for name in case["npz"]:
        feeds, expected = arrays(CASES / name, "input"), arrays(CASES / name, "output")
        free = case["name"] in ("symbolic_dims", "unnamed_dims_unknown_rank_output")
        shapes = {name: array.shape for name, array in feeds.items()} if free else None
        loaded = load_model(CASES / case["file"], input_shapes=shapes)
        results = FloatModel(loaded.model, optimize="disabled").run(feeds)
        assert list(results) == list(expected)
        for output, want in expected.items():
            assert results[output].dtype == want.dtype
            np.testing.assert_allclose(results[output], want, case.get("rtol", RTOL), case.get("atol", ATOL))


@pytest.mark.parametrize("case", cases("valid"), ids=case_name)
def test_inferred_shapes_of_a_valid_case_are_those_of_the_run(case: dict[str, Any]) -> None:
    feeds = arrays(CASES / case["npz"][0], "input")
    shapes = {name: array.shape for name, array in feeds.items()}
    graph = load_model(CASES / case["file"], input_shapes=shapes).model
    results = FloatModel(graph, expose="all", optimize="disabled").run(feeds)
    values = [value for node in graph.graph for value in node.outputs if value.name]
    inferred = {value.name: value.shape.numpy() for value in values if value.shape is not None}
    assert inferred == {name: results[name].shape for name in inferred}


@pytest.mark.parametrize("case", cases("broken"), ids=lambda case: case["file"])
def test_a_broken_case_is_refused_as_it_should_be(case: dict[str, Any]) -> None:
    if case["name"] == "random_ops":
        assert load_model(CASES / case["file"]).random_ops
    else:
        says(refusal(CASES / case["file"]), *REFUSED[case["name"]])


@needs_cases
def test_what_an_option_can_mend_loads_with_a_warning() -> None:
    assert load_model(CASES / "b14_op_newer_than_opset.onnx", permissive=True).warnings
    assert load_model(CASES / "b21_mixed_float_types.onnx", fix_fp16=True).warnings
