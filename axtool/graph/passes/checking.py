"""onnxruntime before and after a pass, on random inputs: a pass that changes the numbers is named and stops the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.errors import AxError, Exit

RTOL = 1e-3  # of the largest value of an output; fusions reorder float32 sums
QUANTIZED_STEPS = 1  # integer outputs and rounded graphs may fall on the other side of a tie: one step
ROUNDED_RTOL = 2e-2  # and that step may be amplified by what follows
# onnxruntime's u8 x s8 products saturate in int16 on CPUs without VNNI: it is no judge of a graph that has them.
CPU_DEPENDENT = ("QLinearConv", "QLinearMatMul", "QGemm", "ConvInteger", "MatMulInteger")


class PassFault(AxError):
    """A pass changed what the model computes (exit 70): a bug of ours."""

    exit, code = Exit.INTERNAL, "pass-changed-numbers"


class Checker:
    """`Checker()(before, after, name)` raises PassFault if the models differ. The same feeds serve every pass."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self.checked: list[str] = []

    def __call__(self, before: ir.Model, after: ir.Model, name: str) -> None:
        if any(node.op_type in CPU_DEPENDENT for node in before.graph):
            return
        feeds = random_feeds(before, self._seed)
        wanted = _run(before, feeds)
        if isinstance(wanted, str):
            return  # onnxruntime cannot run the model as it was: nothing to compare with
        found = _run(after, feeds)
        if isinstance(found, str):
            raise PassFault(f"pass '{name}' made a model that onnxruntime refuses: {found}", hint=_hint(name))
        rounded = any(node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear") for node in before.graph)
        for value, a, b in zip(before.graph.outputs, wanted, found, strict=True):
            if (fault := _difference(a, b, ROUNDED_RTOL if rounded else RTOL)) is not None:
                raise PassFault(f"pass '{name}' changed output '{value.name}': {fault}", hint=_hint(name))
        self.checked.append(name)


def random_feeds(model: ir.Model, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Values for every input that has no default; a free dimension is 1."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, NDArray[Any]] = {}
    for value in model.graph.inputs:
        if value.is_initializer() or value.name is None or value.dtype is None:
            continue
        shape = tuple(d if isinstance(d, int) else 1 for d in value.shape or ())
        dtype = value.dtype.numpy()
        if dtype.kind == "f":
            feeds[value.name] = rng.normal(0, 1, shape).astype(dtype)
        elif dtype.kind == "b":
            feeds[value.name] = rng.integers(0, 2, shape).astype(dtype)
        else:
            feeds[value.name] = rng.integers(0, 8, shape).astype(dtype)
    return feeds


def _run(model: ir.Model, feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]] | str:
    """The outputs, or the first line of what onnxruntime has against the model."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        proto = ir.to_proto(model)
        session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [np.asarray(array) for array in session.run(None, dict(feeds))]
    except Exception as error:
        return str(error).splitlines()[0][:200]


def _difference(a: NDArray[Any], b: NDArray[Any], rtol: float) -> str | None:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"it was {a.dtype} {a.shape}, now it is {b.dtype} {b.shape}"
    if a.dtype.kind not in "fiu" or not a.size:
        return None if np.array_equal(a, b) else "other values"
    x, y = a.astype(np.float64), b.astype(np.float64)
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return "NaN or Inf in other places"
    finite = np.isfinite(x)
    scale = float(np.abs(x[finite]).max(initial=0.0))
    allowed = QUANTIZED_STEPS if a.dtype.kind in "iu" and a.dtype.itemsize == 1 else rtol * scale + 1e-6
    worst = float(np.abs(x[finite] - y[finite]).max(initial=0.0))
    if a.dtype.kind in "iu" and a.dtype.itemsize > 1:
        allowed = 0.0
    return None if worst <= allowed else f"a difference of {worst:.3g} where values reach {scale:.3g}"


def _hint(name: str) -> str:
    return f"please report it; compile without it meanwhile (disable '{name}')"
