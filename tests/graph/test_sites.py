"""Canonical attributes: one form for every opset."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from axtool.graph.load import load_model
from axtool.graph.sites import sites_of
from axtool.types import Site
from tests.graph.load_models import INT64, model, node, save, value

IMAGE = [1, 3, 6, 8]


def site(
    folder: Path,
    one: onnx.NodeProto,
    shape: list[int],
    *,
    opset: int = 17,
    more: list[Any] | None = None,
    **weights: Any,
) -> Site:
    """The only site of a model with this node, input x and constants."""
    outputs = [value(name, None) for name in one.output if name]
    proto = model([one], [value("x", shape), *(more or [])], outputs, weights, opset=opset)
    (result,) = sites_of(load_model(save(folder, proto)).model)
    return result


CASES: list[tuple[str, onnx.NodeProto, list[int], int, dict[str, Any], dict[str, Any]]] = [
    ("clip by attributes", node("Clip", ["x"], ["y"], min=0.0, max=6.0), IMAGE, 10, {}, {"min": 0.0, "max": 6.0}),
    (
        "clip by inputs",
        node("Clip", ["x", "a", "b"], ["y"]),
        IMAGE,
        13,
        {"a": np.float32(0), "b": np.float32(6)},
        {"min": 0.0, "max": 6.0},
    ),
    (
        "clip without a limit",
        node("Clip", ["x", "", "b"], ["y"]),
        IMAGE,
        13,
        {"b": np.float32(6)},
        {"min": -math.inf, "max": 6.0},
    ),
    ("clip by the largest floats", node("Clip", ["x"], ["y"]), IMAGE, 7, {}, {"min": -math.inf, "max": math.inf}),
    ("leaky relu", node("LeakyRelu", ["x"], ["y"]), IMAGE, 17, {}, {"alpha": 0.01}),
    ("hard sigmoid", node("HardSigmoid", ["x"], ["y"]), IMAGE, 17, {}, {"alpha": 0.2, "beta": 0.5}),
    ("gelu", node("Gelu", ["x"], ["y"], approximate="tanh"), IMAGE, 20, {}, {"approximate": "tanh"}),
    (
        "gemm",
        node("Gemm", ["x", "w"], ["y"], transB=1),
        [2, 3],
        17,
        {"w": np.ones((4, 3), np.float32)},
        {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1},
    ),
    ("concat from the end", node("Concat", ["x", "x"], ["y"], axis=-3), IMAGE, 17, {}, {"axis": 1}),
    ("split into equal parts", node("Split", ["x"], ["y", "z"], axis=-1), IMAGE, 13, {}, {"axis": 3, "sizes": (4, 4)}),
    (
        "split by attribute",
        node("Split", ["x"], ["y", "z"], axis=1, split=[1, 2]),
        IMAGE,
        11,
        {},
        {"axis": 1, "sizes": (1, 2)},
    ),
    (
        "split by input",
        node("Split", ["x", "s"], ["y", "z"], axis=1),
        IMAGE,
        13,
        {"s": [1, 2]},
        {"axis": 1, "sizes": (1, 2)},
    ),
    (
        "split by count",
        node("Split", ["x"], ["a", "b", "c"], axis=1, num_outputs=3),
        [1, 10],
        18,
        {},
        {"axis": 1, "sizes": (4, 4, 2)},
    ),
    (
        "slice by attributes",
        node("Slice", ["x"], ["y"], axes=[-1], starts=[-3], ends=[99]),
        IMAGE,
        9,
        {},
        {"starts": (0, 0, 0, 5), "steps": (1, 1, 1, 1)},
    ),
    (
        "slice by inputs",
        node("Slice", ["x", "s", "e", "a", "p"], ["y"]),
        IMAGE,
        13,
        {"s": [1], "e": [99], "a": [2], "p": [2]},
        {"starts": (0, 0, 1, 0), "steps": (1, 1, 2, 1)},
    ),
    (
        "slice backwards",
        node("Slice", ["x", "s", "e", "a", "p"], ["y"]),
        IMAGE,
        13,
        {"s": [-1], "e": [-(2**63)], "a": [3], "p": [-2]},
        {"starts": (0, 0, 0, 7), "steps": (1, 1, 1, -2)},
    ),
    (
        "slice from far behind",
        node("Slice", ["x", "s", "e", "a", "p"], ["y"]),
        IMAGE,
        13,
        {"s": [2**62], "e": [0], "a": [3], "p": [-1]},
        {"starts": (0, 0, 0, 7), "steps": (1, 1, 1, -1)},
    ),
    (
        "slice without axes",
        node("Slice", ["x", "s", "e"], ["y"]),
        [5, 5],
        13,
        {"s": [1, 2], "e": [5, 5]},
        {"starts": (1, 2), "steps": (1, 1)},
    ),
    (
        "pad by attributes",
        node("Pad", ["x"], ["y"], pads=[0, 0, 1, 2, 0, 0, 3, 4], value=0.5),
        IMAGE,
        10,
        {},
        {"before": (0, 0, 1, 2), "after": (0, 0, 3, 4), "mode": "constant", "value": 0.5},
    ),
    (
        "pad by inputs",
        node("Pad", ["x", "p", "v"], ["y"], mode="constant"),
        [2, 2],
        13,
        {"p": [1, 0, 0, 2], "v": np.float32(3.5)},
        {"before": (1, 0), "after": (0, 2), "mode": "constant", "value": 3.5},
    ),
    (
        "pad some axes",
        node("Pad", ["x", "p", "", "a"], ["y"], mode="edge"),
        IMAGE,
        18,
        {"p": [1, 2, 0, 1], "a": [-2, -1]},
        {"before": (0, 0, 1, 2), "after": (0, 0, 0, 1), "mode": "edge", "value": 0.0},
    ),
    (
        "mean by attribute",
        node("ReduceMean", ["x"], ["y"], axes=[-1, 2]),
        IMAGE,
        13,
        {},
        {"axes": (2, 3), "keepdims": 1},
    ),
    (
        "mean by input",
        node("ReduceMean", ["x", "a"], ["y"], keepdims=0),
        IMAGE,
        18,
        {"a": [-2, -1]},
        {"axes": (2, 3), "keepdims": 0},
    ),
    ("mean of all", node("ReduceMean", ["x"], ["y"]), IMAGE, 18, {}, {"axes": (0, 1, 2, 3), "keepdims": 1}),
    (
        "mean of none",
        node("ReduceSum", ["x"], ["y"], noop_with_empty_axes=1),
        IMAGE,
        13,
        {},
        {"axes": (), "keepdims": 1},
    ),
    ("squeeze by attribute", node("Squeeze", ["x"], ["y"], axes=[-4]), IMAGE, 11, {}, {"axes": (0,)}),
    ("squeeze of all ones", node("Squeeze", ["x"], ["y"]), [1, 3, 1], 13, {}, {"axes": (0, 2)}),
    ("unsqueeze from the end", node("Unsqueeze", ["x", "a"], ["y"]), [3, 4], 13, {"a": [-1, 0]}, {"axes": (0, 3)}),
    ("softmax of old", node("Softmax", ["x"], ["y"]), IMAGE, 11, {}, {"axis": 1, "flatten": True}),
    ("softmax of today", node("Softmax", ["x"], ["y"]), IMAGE, 13, {}, {"axis": 3, "flatten": False}),
    (
        "argmax",
        node("ArgMax", ["x"], ["y"], axis=-1, keepdims=0),
        IMAGE,
        13,
        {},
        {"axis": 3, "keepdims": 0, "select_last_index": 0},
    ),
    (
        "topk by attribute",
        node("TopK", ["x"], ["y", "i"], k=2),
        [2, 5],
        9,
        {},
        {"axis": 1, "largest": 1, "k": 2, "sorted": 1},
    ),
    (
        "topk by input",
        node("TopK", ["x", "k"], ["y", "i"], axis=0),
        [2, 5],
        13,
        {"k": [2]},
        {"axis": 0, "largest": 1, "k": 2, "sorted": 1},
    ),
    ("transpose by default", node("Transpose", ["x"], ["y"]), IMAGE, 17, {}, {"perm": (3, 2, 1, 0)}),
    ("flatten from the end", node("Flatten", ["x"], ["y"], axis=-1), IMAGE, 13, {}, {"axis": 3}),
    (
        "depth to space",
        node("DepthToSpace", ["x"], ["y"], blocksize=2),
        [1, 4, 2, 2],
        17,
        {},
        {"block": 2, "mode": "DCR"},
    ),
    (
        "batch norm",
        node("BatchNormalization", ["x", "s", "s", "s", "s"], ["y"]),
        IMAGE,
        9,
        {"s": np.ones(3, np.float32)},
        {"epsilon": 1e-5, "training_mode": 0},
    ),
    ("dropout", node("Dropout", ["x"], ["y"]), IMAGE, 13, {}, {"training": False}),
    ("gather", node("Gather", ["x", "i"], ["y"], axis=-1), IMAGE, 13, {"i": [0]}, {"axis": 3}),
    ("an op without a rule", node("LRN", ["x"], ["y"], size=3), IMAGE, 13, {}, {"size": 3}),
]


@pytest.mark.parametrize(
    ("one", "shape", "opset", "weights", "attrs"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_attributes_are_canonical(
    tmp_path: Path, one: onnx.NodeProto, shape: list[int], opset: int, weights: dict[str, Any], attrs: dict[str, Any]
) -> None:
    assert dict(site(tmp_path, one, shape, opset=opset, **weights).attrs) == attrs


ASYMMETRIC = {"coordinate_transformation_mode": "asymmetric"}
RESIZE = {"antialias": 0, "exclude_outside": 0}


@pytest.mark.parametrize(
    ("one", "opset", "weights", "attrs"),
    [
        (
            node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 2.0]), 8, {},
            {"mode": "nearest", "coordinate": "asymmetric", "nearest": "floor", "scales": (1, 1, 2, 2)},
        ),
        (
            node("Upsample", ["x", "s"], ["y"], mode="linear"), 9, {"s": np.float32([1, 1, 2, 2])},
            {"mode": "linear", "coordinate": "asymmetric", "nearest": "floor", "scales": (1, 1, 2, 2)},
        ),
        (
            node("Resize", ["x", "s"], ["y"]), 10, {"s": np.float32([1, 1, 0.5, 0.5])},
            {"mode": "nearest", "coordinate": "asymmetric", "nearest": "ceil", "scales": (1, 1, 0.5, 0.5)},
        ),
        (
            node("Resize", ["x", "", "s"], ["y"], mode="linear"), 13, {"s": np.float32([1, 1, 2, 3])},
            {"mode": "linear", "coordinate": "half_pixel", "nearest": "round_prefer_floor", "scales": (1, 1, 2, 3)},
        ),
        (
            node("Resize", ["x", "", "", "z"], ["y"], nearest_mode="floor", **ASYMMETRIC),
            13, {"z": [1, 3, 12, 16]},
            {"mode": "nearest", "coordinate": "asymmetric", "nearest": "floor", "scales": (1, 1, 2, 2)},
        ),
        (
            node("Resize", ["x", "", "s"], ["y"], axes=[2, 3]), 18, {"s": np.float32([2, 4])},
            {"mode": "nearest", "coordinate": "half_pixel", "nearest": "round_prefer_floor", "scales": (1, 1, 2, 4)},
        ),
        (
            node("Resize", ["x", "", "", "z"], ["y"], axes=[2, 3], keep_aspect_ratio_policy="not_larger"), 18,
            {"z": [12, 32]},
            {"mode": "nearest", "coordinate": "half_pixel", "nearest": "round_prefer_floor", "scales": (1, 1, 2, 2)},
        ),
    ],
)  # fmt: skip
def test_every_resize_has_scales_for_each_axis(
    tmp_path: Path, one: onnx.NodeProto, opset: int, weights: dict[str, Any], attrs: dict[str, Any]
) -> None:
    assert dict(site(tmp_path, one, IMAGE, opset=opset, **weights).attrs) == attrs | RESIZE


def test_a_runtime_limit_leaves_the_attributes_empty(tmp_path: Path) -> None:
    one = node("Clip", ["x", "low"], ["y"])
    assert dict(site(tmp_path, one, IMAGE, more=[value("low", [])]).attrs) == {}


def test_a_runtime_slice_end_leaves_the_attributes_empty(tmp_path: Path) -> None:
    one = node("Slice", ["x", "s", "e"], ["y"])
    assert dict(site(tmp_path, one, [5], more=[value("e", [1], INT64)], s=[1]).attrs) == {}


def test_shapes_types_and_constants_are_by_name(tmp_path: Path) -> None:
    one = node("Gemm", ["x", "w", ""], ["y"])
    result = site(tmp_path, one, [2, 3], w=np.ones((3, 4), np.float32))
    assert result.inputs == ("x", "w", "")
    assert dict(result.shapes) == {"x": (2, 3), "w": (3, 4), "y": (2, 4)}
    assert dict(result.dtypes) == {"x": "float32", "w": "float32", "y": "float32"}
    assert list(result.constants) == ["w"]


def test_the_output_of_a_constant_node_is_a_constant(tmp_path: Path) -> None:
    nodes = [node("Constant", [], ["k"], value_ints=[3, 1]), node("Reshape", ["x", "k"], ["y"])]
    reshape = sites_of(load_model(save(tmp_path, model(nodes))).model)[1]
    assert reshape.constants["k"].tolist() == [3, 1]
    assert reshape.dtypes["k"] == "int64"


def test_an_overridable_initializer_is_no_constant(tmp_path: Path) -> None:
    proto = model(
        [node("Mul", ["x", "w"], ["y"])], [value("x"), value("w", [3])], weights={"w": np.ones(3, np.float32)}
    )
    (result,) = sites_of(load_model(save(tmp_path, proto)).model)
    assert dict(result.constants) == {}
    assert result.shapes["w"] == (3,)


def test_the_index_is_the_position_in_the_graph(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["a"], name="first"), node("Neg", ["a"], ["y"], name="second")]
    sites = sites_of(load_model(save(tmp_path, model(nodes))).model)
    assert [(s.name, s.index, s.outputs) for s in sites] == [("first", 0, ("a",)), ("second", 1, ("y",))]
