"""x * gate(x)  ->  one activation: SiLU, HardSwish, GELU, Mish. One table lookup instead of two to eight ops.

Frameworks write the product in every order: x*g, g*x, (x*g)/6, x*(g/6), (x/2)*g. So the tree of Muls is read as a set
of factors and one number, and the gate is looked up in a table. What else reads an inner value keeps it alive: only
the last Mul changes, and what nobody reads any more goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from axtool.graph.functions import DOMAIN
from axtool.graph.passes.fuse_clip import bounds
from axtool.graph.passes.work import Work, constant, feeds_only, made_by, rank_of, remove_unused, scalar

RTOL = 1e-3  # exporters round 1/6, sqrt(2), sqrt(2/pi) to few digits
EXACT = 1e-6
Gate = Callable[[Work, ir.Node, ir.Value], float | None]


def fuse_gates(work: Work) -> int:
    count = sum(_fuse(work, node) for node in work.nodes("Mul"))
    if count:
        remove_unused(work)
    return count


def _fuse(work: Work, node: ir.Node) -> bool:
    if node.outputs[0].dtype != ir.DataType.FLOAT:
        return False  # the tables are built from float32; fp16 has been widened
    factors, number = _factors(node)
    if len(factors) != 2:
        return False
    for x, gated in ((factors[0], factors[1]), (factors[1], factors[0])):
        gate = gated.producer()
        if gate is None or rank_of(x) != rank_of(node.outputs[0]):
            continue
        for op, rule in GATES:
            wanted = rule(work, gate, x)
            if wanted is not None and math.isclose(number, wanted, rel_tol=RTOL) and not _rounded(work, node, x):
                _write(work, node, op, x, number / wanted)
                return True
    return False


def _factors(node: ir.Node) -> tuple[list[ir.Value], float]:
    """The factors of a tree of Muls, and the product of its scalar constants."""
    factors: list[ir.Value] = []
    number = 1.0
    for value in node.inputs:
        if value is None:
            continue
        known = scalar(value)
        inner = made_by(value, "Mul")
        if known is not None:
            number *= known
        elif inner is not None and feeds_only(value, node):
            more, times = _factors(inner)
            factors += more
            number *= times
        else:
            factors.append(value)
    return factors, number


def _rounded(work: Work, node: ir.Node, x: ir.Value) -> bool:
    """True if a quantized file rounds a value on the way from x to the node: then each op stays as it is."""
    waiting, seen = list(node.inputs), set[ir.Value | None]({x})
    while waiting:
        value = waiting.pop()
        if value is None or value in seen:
            continue
        seen.add(value)
        maker = value.producer()
        if maker is not None and value in work.given:
            return True
        waiting += maker.inputs if maker is not None else ()
    return False


def _write(work: Work, node: ir.Node, op: str, x: ir.Value, ratio: float) -> None:
    name, _, variant = op.partition(".")
    if name == "HardSwish" and abs(ratio - 1) > EXACT:
        work.become(node, "HardSwish", [x], DOMAIN, ratio=ratio)
        node.overload = f"{ratio:.9f}"
    elif name == "HardSwish" and work.opset >= 14:
        work.become(node, "HardSwish", [x])
    elif name == "Gelu" and work.opset >= 20:
        work.become(node, "Gelu", [x], approximate=variant)
    elif name == "Gelu":
        work.become(node, "Gelu", [x], DOMAIN, approximate=variant)
        node.overload = variant
    else:
        work.become(node, name, [x], DOMAIN)


# Each gate: the number that multiplies x * gate, or None if the node is not that gate of x.


def _sigmoid(work: Work, gate: ir.Node, x: ir.Value) -> float | None:
    return 1.0 if _is(gate, "Sigmoid") and gate.inputs[0] is x else None


def _hard_sigmoid(work: Work, gate: ir.Node, x: ir.Value) -> float | None:
    if not _is(gate, "HardSigmoid") or gate.inputs[0] is not x:
        return None
    attrs = work.attrs(gate)
    near = math.isclose(attrs["alpha"], 1 / 6, rel_tol=RTOL) and math.isclose(attrs["beta"], 0.5, rel_tol=RTOL)
    return 1.0 if near else None


def _clipped_sum(work: Work, gate: ir.Node, x: ir.Value) -> float | None:
    """clip(x + 3, 0, 6), or clip(x/6 + 1/2, 0, 1): the number that makes the product HardSwish."""
    found = bounds(work, gate)
    if found is None:
        return None
    value, lo, hi = found
    total = made_by(value, "Add")
    if total is None or lo != 0 or not math.isfinite(hi) or hi <= 0:
        return None
    for part, other in _orders(total):
        offset = scalar(other)
        if offset is None or not math.isclose(offset, hi / 2, rel_tol=RTOL):
            continue
        slope = 1.0
        product = made_by(part, "Mul")
        if part is not x and product is not None:
            slopes = [scalar(b) for a, b in _orders(product) if a is x]
            slope = next((s for s in slopes if s is not None), 0.0)
        elif part is not x:
            continue
        if slope > 0 and math.isclose(slope, hi / 6, rel_tol=RTOL):
            return 1.0 / hi
    return None


def _erf_gate(work: Work, gate: ir.Node, x: ir.Value) -> float | None:
    """1 + erf(x / sqrt 2)."""
    erf = _plus_one(gate, "Erf")
    return 0.5 if erf is not None and _scaled(erf.inputs[0], x, math.sqrt(0.5)) else None


def _tanh_gate(work: Work, gate: ir.Node, x: ir.Value) -> float | None:
    """1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))."""
    tanh = _plus_one(gate, "Tanh")
    product = made_by(tanh.inputs[0], "Mul") if tanh is not None else None
    for inner, number in _orders(product):
        factor, total = scalar(number), made_by(inner, "Add")
        if factor is None or total is None or not math.isclose(factor, math.sqrt(2 / math.pi), rel_tol=RTOL):
            continue
        if any(part is x and _is_cube(bent, x, 0.044715) for part, bent in _orders(total)):
            return 0.5
    return None


def _tanh_softplus(work: Work, gate: ir.Node, x: ir.Value) -> float | None:
    inner = made_by(gate.inputs[0], "Softplus") if _is(gate, "Tanh") else None
    return 1.0 if inner is not None and inner.inputs[0] is x else None


GATES: tuple[tuple[str, Gate], ...] = (
    ("Silu", _sigmoid),
    ("HardSwish", _hard_sigmoid),
    ("HardSwish", _clipped_sum),
    ("Gelu.none", _erf_gate),
    ("Gelu.tanh", _tanh_gate),
    ("Mish", _tanh_softplus),
)


def _is(node: ir.Node, op: str) -> bool:
    return node.op_type == op and node.domain == ""


def _orders(node: ir.Node | None) -> list[tuple[ir.Value | None, ir.Value | None]]:
    """Both ways to read a node with two inputs."""
    if node is None or len(node.inputs) != 2:
        return []
    return [(node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])]


def _plus_one(gate: ir.Node, op: str) -> ir.Node | None:
    """The `op` node in 1 + op(...)."""
    if not _is(gate, "Add"):
        return None
    for value, other in _orders(gate):
        if scalar(other) == 1.0 and (node := made_by(value, op)) is not None:
            return node
    return None


def _scaled(value: ir.Value | None, x: ir.Value, number: float) -> bool:
    """True if value is x * number."""
    product = made_by(value, "Mul")
    scales = [scalar(other) for part, other in _orders(product) if part is x]
    return any(scale is not None and math.isclose(scale, number, rel_tol=RTOL) for scale in scales)


def _is_cube(value: ir.Value | None, x: ir.Value, number: float) -> bool:
    """True if value is number * x^3, written with Pow or with Muls."""
    power, factor, seen = 0, 1.0, [value]
    while seen:
        part = seen.pop()
        node = made_by(part, "Mul", "Pow")
        known = scalar(part)
        if part is x:
            power += 1
        elif known is not None:
            factor *= known
        elif node is not None and node.op_type == "Mul":
            seen += node.inputs
        elif node is not None and node.inputs[0] is x and (exponent := _exponent(node)) is not None:
            power += exponent
        else:
            return False
    return power == 3 and math.isclose(factor, number, rel_tol=RTOL)


def _exponent(node: ir.Node) -> int | None:
    array = constant(node.inputs[1])
    if array is None or array.size != 1 or not float(np.ravel(array)[0]).is_integer():
        return None
    return int(np.ravel(array)[0])
