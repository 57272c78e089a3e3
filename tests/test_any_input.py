"""Models and data that are no pictures, and weights that come quantized: compiled, run and held to the float model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from axtool.artefact import axm
from axtool.artefact.axm import DeviceStage
from tests.tiny import Ran, axtool

SAMPLES = 12
RNG = np.random.default_rng(0)
FLOAT, HALF, INT64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64
W = RNG.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32)
G = RNG.normal(0, 0.3, (8, 10)).astype(np.float32)
X = RNG.normal(size=(SAMPLES, 3, 16, 16)).astype(np.float32)
Nodes = list[onnx.NodeProto]


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def save(nodes: Nodes, inputs: Sequence[tuple[str, int, Any]], out: tuple[int, Any], **constants: Any) -> Path:
    """m.onnx with the output y; constants are arrays, or tensors of types that NumPy lacks."""
    made = [c if isinstance(c, onnx.TensorProto) else numpy_helper.from_array(c, n) for n, c in constants.items()]
    values = [helper.make_tensor_value_info(*value) for value in inputs]
    graph = helper.make_graph(nodes, "g", values, [helper.make_tensor_value_info("y", *out)], made)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), "m.onnx")
    return Path("m.onnx")


def network(weight: str = "w") -> Nodes:
    return [
        node("Conv", f"x {weight}", "a", pads=[1, 1, 1, 1]),
        node("Relu", "a", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f g", "y"),
    ]


def compiled(model: Path, data: str, *words: str, min_db: float = 28.0) -> Ran:
    """Compile, run and verify; what compile said."""
    ran = axtool("compile", model, "--calib", data, "-o", "m.axm", *words)
    assert ran.code == 0, ran.err
    verdict = axtool("verify", "m.axm", "--against", model, "--data", data, "--min-sqnr", str(min_db))
    assert verdict.code == 0, verdict.out + verdict.err
    return ran


def device_constants() -> dict[str, np.ndarray[Any, Any]]:
    (stage,) = [stage for stage in axm.read(Path("m.axm")).stages if isinstance(stage, DeviceStage)]
    return dict(stage.plan.program.constants)


IMAGE = [("x", FLOAT, [1, 3, 16, 16])]


def test_a_stream_of_arrays_in_one_file(work: Path) -> None:
    np.save("d.npy", X)
    ran = compiled(save(network(), IMAGE, (FLOAT, [1, 10]), w=W, g=G), "d.npy")
    assert f"{SAMPLES} samples" in ran.out


def test_several_inputs_of_different_shapes(work: Path) -> None:
    np.savez("d.npz", x=X, z=3 * X[::-1], k=RNG.random((SAMPLES, 8, 1, 1)).astype(np.float32))
    nodes = [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("Conv", "z w", "b", pads=[1, 1, 1, 1]),
        node("Add", "a b", "c"),
        node("Mul", "c k", "y"),
    ]
    inputs = [*IMAGE, ("z", FLOAT, [1, 3, 16, 16]), ("k", FLOAT, [1, 8, 1, 1])]
    compiled(save(nodes, inputs, (FLOAT, [1, 8, 16, 16]), w=W), "d.npz")


def test_token_ids_with_a_mask_and_open_sizes(work: Path) -> None:
    weights = {name: RNG.normal(0, 0.2, (32, 32)).astype(np.float32) for name in "qkv"}
    nodes = [
        node("Gather", "e ids", "x"),
        node("MatMul", "x q", "Q"),
        node("MatMul", "x k", "K"),
        node("Transpose", "K", "T", perm=[0, 2, 1]),
        node("MatMul", "Q T", "S"),
        node("Cast", "mask", "m", to=FLOAT),
        node("Sub", "one m", "n"),
        node("Mul", "n least", "b"),
        node("Unsqueeze", "b axis", "B"),
        node("Add", "S B", "M"),
        node("Softmax", "M", "P", axis=-1),
        node("MatMul", "P x", "O"),
        node("MatMul", "O v", "V"),
        node("Add", "V x", "R"),
        node("ReduceMean", "R axis", "y", keepdims=0),
    ]
    constants = {"one": np.float32(1), "least": np.float32(-1e9), "axis": np.array([1])}
    model = save(
        nodes, [("ids", INT64, ["b", "s"]), ("mask", INT64, ["b", "s"])], (FLOAT, ["b", 32]), **weights,
        e=RNG.normal(0, 0.5, (100, 32)).astype(np.float32), **constants,
    )  # fmt: skip
    mask = np.ones((SAMPLES, 12), np.int64)
    mask[:, 9:] = 0
    np.savez("d.npz", ids=RNG.integers(0, 100, (SAMPLES, 12)), mask=mask)
    compiled(model, "d.npz", "--dim", "b=1", "--dim", "s=12")


@pytest.mark.parametrize("form", ["Add", "Where", "fed"])
def test_a_mask_of_minus_infinity_is_a_mask(work: Path, form: str) -> None:
    keep = np.tril(np.ones((16, 16), bool))[None]
    mask = np.where(keep, 0, -np.inf).astype(np.float32)
    middle = node("Where", "c S least", "M") if form == "Where" else node("Add", "S m", "M")
    nodes = [node("MatMul", "x q", "S"), middle, node("Softmax", "M", "P", axis=-1), node("MatMul", "P q", "y")]
    constants = {"Where": {"c": keep, "least": np.float32(-np.inf)}, "Add": {"m": mask}, "fed": {}}[form]
    inputs = [("x", FLOAT, [1, 16, 16]), *([("m", FLOAT, [1, 16, 16])] if form == "fed" else [])]
    data = {"x": RNG.normal(size=(SAMPLES, 16, 16)).astype(np.float32)}
    np.savez("d.npz", **data, **({"m": mask.repeat(SAMPLES, 0)} if form == "fed" else {}))
    model = save(nodes, inputs, (FLOAT, [1, 16, 16]), q=RNG.normal(0, 0.2, (16, 16)).astype(np.float32), **constants)
    ran = compiled(model, "d.npz")
    assert ran.err.replace("0 NaN and 1440 Inf", "").count("NaN") == 0  # a mask that is fed is told of, and works


def test_sound_of_one_axis(work: Path) -> None:
    np.savez("d.npz", x=RNG.normal(size=(SAMPLES, 1, 2000)).astype(np.float32))
    nodes = [node("Conv", "x v", "a", strides=[10]), node("Relu", "a", "r"), node("Conv", "r u", "y", strides=[2])]
    v, u = RNG.normal(0, 0.1, (16, 1, 40)).astype(np.float32), RNG.normal(0, 0.1, (8, 16, 9)).astype(np.float32)
    compiled(save(nodes, [("x", FLOAT, [1, 1, 2000])], (FLOAT, [1, 8, 95]), v=v, u=u), "d.npz")


def test_half_floats_inside_and_out(work: Path) -> None:
    np.save("d.npy", X.astype(np.float16))
    model = save(
        network(), [("x", HALF, [1, 3, 16, 16])], (HALF, [1, 10]), w=W.astype(np.float16), g=G.astype(np.float16)
    )
    compiled(model, "d.npy")
    assert axtool("info", "m.axm", "--json").document["outputs"][0]["dtype"] == "float16"


def test_a_scalar_input(work: Path) -> None:
    np.savez("d.npz", x=X, k=RNG.random(SAMPLES).astype(np.float32) + 0.5)
    nodes = [node("Conv", "x w", "a", pads=[1, 1, 1, 1]), node("Mul", "a k", "y")]
    compiled(save(nodes, [*IMAGE, ("k", FLOAT, [])], (FLOAT, [1, 8, 16, 16]), w=W), "d.npz")


SCALE = (np.abs(W).max(axis=(1, 2, 3)) / 100).astype(np.float32)
Q = np.rint(W / SCALE[:, None, None, None]).astype(np.int8)


@pytest.mark.parametrize("form", ["stored", "pair"])
def test_weights_that_alone_are_quantized_keep_their_numbers(work: Path, form: str) -> None:
    np.save("d.npy", X)
    zero = np.zeros(8, np.int8)
    first = [node("QuantizeLinear", "wf s z", "wq", axis=0)] if form == "pair" else []
    given = {"wf": W} if form == "pair" else {"wq": Q}
    nodes = [*first, node("DequantizeLinear", "wq s z", "w", axis=0), *network()]
    compiled(save(nodes, IMAGE, (FLOAT, [1, 10]), s=SCALE, z=zero, g=G, **given), "d.npy")
    constants = device_constants()
    (name,) = [name for name in constants if name.endswith("/weights") and constants[name].size >= Q.size][:1]
    stored = constants[name]
    assert sorted(stored[stored != 0].tolist()) == sorted(Q[Q != 0].reshape(-1).tolist())


def test_weights_of_4_bits_in_blocks(work: Path) -> None:
    weights = RNG.normal(0, 0.3, (4, 16, 10)).astype(np.float32)
    scale = np.abs(weights).max(axis=1) / 7
    steps = np.clip(np.rint(weights / scale[:, None]), -8, 7).astype(np.int8)
    packed = helper.make_tensor("q", TensorProto.INT4, [64, 10], steps.reshape(-1))
    nodes = [node("DequantizeLinear", "q s", "w", axis=0, block_size=16), node("MatMul", "x w", "y")]
    np.savez("d.npz", x=RNG.normal(size=(SAMPLES, 64)).astype(np.float32))
    compiled(save(nodes, [("x", FLOAT, [1, 64])], (FLOAT, [1, 10]), q=packed, s=scale.astype(np.float32)), "d.npz")


def test_weights_of_4_bits_as_onnxruntime_stores_them(work: Path) -> None:
    packed, scale = RNG.integers(0, 256, (10, 2, 16)).astype(np.uint8), np.full(20, 0.05, np.float32)
    op = node("MatMulNBits", "x q s", "y", domain="com.microsoft", K=64, N=10, bits=4, block_size=32)
    np.savez("d.npz", x=RNG.normal(size=(SAMPLES, 64)).astype(np.float32))
    compiled(save([op], [("x", FLOAT, [1, 64])], (FLOAT, [1, 10]), q=packed, s=scale), "d.npz")


def test_weights_that_fit_no_single_model_are_run_in_parts(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from axtool.quant import pieces

    monkeypatch.setattr(pieces, "MOST_WEIGHTS", 1000)
    np.save("d.npy", X)
    compiled(save(network(), IMAGE, (FLOAT, [1, 10]), w=W, g=G), "d.npy")
