"""Shape arithmetic that is still in the graph after our own folding  ->  what onnxsim makes of it, if that is sound.

onnxsim runs in a process of its own: at odd graphs it aborts, and its import costs a second. It only folds constants
here; its optimisations would rename tensors. It is known to drop inputs with a default value without a word, so what
it returns is used only if every input, output and tensor name is one that the model had.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import onnx_ir as ir

from axtool.graph.passes.infer import infer_shapes
from axtool.graph.passes.work import Work, constant, shape_of

TOO_LARGE_BYTES = 2 << 30  # a protobuf message cannot hold more
TIMEOUT_S = 120
# Where ops take sizes, positions and the like: the inputs from the first of these on.
PARAMETERS = {"Reshape": 1, "Expand": 1, "Slice": 1, "Tile": 1, "Resize": 2, "Pad": 1, "Range": 0, "ConstantOfShape": 0}

SCRIPT = """
import sys, onnx, onnxsim
model, ok = onnxsim.simplify(sys.argv[1], perform_optimization=False, check_n=0)
assert ok
onnx.save(model, sys.argv[2])
"""


def run_onnxsim(work: Work) -> int:
    """Returns how many nodes went; 0 where there is nothing for it to do, or its result is not used."""
    if not leftover(work):
        return 0
    size = sum(value.const_value.nbytes for value in work.graph.initializers.values() if value.const_value is not None)
    if size > TOO_LARGE_BYTES:
        work.note(f"onnxsim is skipped: the weights are {size / 2**30:.1f} GiB and it takes no more than 2")
        return 0
    simplified, fault = simplify(work.model)
    fault = fault or (unsound(work.model, simplified) if simplified is not None else "")
    if simplified is None or fault:
        work.note(f"what onnxsim made of the shape arithmetic is not used: {fault}")
        return 0
    saved = work.graph.num_nodes() - simplified.graph.num_nodes()
    if saved <= 0:
        return 0
    work.model = simplified
    infer_shapes(work.model)
    return saved


def leftover(work: Work) -> list[ir.Node]:
    """Nodes whose sizes are computed from the shape of something, although no input has a free dimension."""
    if any(shape_of(value) is None for value in work.graph.inputs):
        return []  # sizes that really depend on the input
    nodes = []
    for node in work.nodes(*PARAMETERS):
        given = [value for value in node.inputs[PARAMETERS[node.op_type] :] if value is not None]
        if any(constant(value) is None and _from_shape(value) for value in given):
            nodes.append(node)
    return nodes


def _from_shape(value: ir.Value) -> bool:
    """True if a Shape or Size node is behind the value."""
    seen: set[ir.Value] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        maker = one.producer()
        if maker is None or one in seen:
            continue
        seen.add(one)
        if maker.op_type in ("Shape", "Size", "NonZero"):
            return True
        waiting += [source for source in maker.inputs if source is not None]
    return False


def simplify(model: ir.Model) -> tuple[ir.Model | None, str]:
    """onnxsim's result and "", or None and what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "in.onnx"), Path(folder, "out.onnx")
        ir.save(model, source)
        command = [sys.executable, "-c", SCRIPT, str(source), str(result)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return None, f"it did not finish ({type(error).__name__})"
        if done.returncode or not result.is_file():
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            return None, f"it failed ({last[:160]})"
        simplified = ir.load(result)
        ir.external_data.load_to_model(simplified)
        return simplified, ""


def unsound(before: ir.Model, after: ir.Model) -> str:
    """What the result lost or renamed, or ""."""
    for side, old, new in (
        ("input", before.graph.inputs, after.graph.inputs),
        ("output", before.graph.outputs, after.graph.outputs),
    ):
        lost = [value.name for value in old if value.name not in {other.name for other in new}]
        if lost:
            return f"it dropped {side} '{lost[0]}'"
        if len(old) != len(new) or [(v.name, v.dtype) for v in old] != [(v.name, v.dtype) for v in new]:
            return f"it changed the {side}s"
    defaults = [value.name for value in before.graph.inputs if value.is_initializer()]
    lost = [name for name in defaults if name not in after.graph.initializers]
    if lost:
        return f"it dropped the default of input '{lost[0]}'"
    known = {value.name for node in before.graph for value in node.outputs}
    renamed = [value.name for node in after.graph for value in node.outputs if value.name and value.name not in known]
    return f"it made a tensor '{renamed[0]}' that the file does not have" if renamed else ""
