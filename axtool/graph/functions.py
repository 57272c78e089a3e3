"""What each device op that ONNX lacks means, once, as an ONNX function. onnxruntime runs these bodies.

The bodies are opset 9 text that every later opset reads the same way, so the function takes the opset of the model it
is attached to. Where the body depends on an attribute, there is one for each value, told apart by the node's overload:
Gelu's "none" and "tanh", HardSwish's ratio where the file rounds 1/6 (0.16662598 in models that were once fp16), the
epsilon of LayerNormalization, the heads and the scale of Attention. Such an overload is the numbers, then what kind of
body it is: "8 0.176776692 masked".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import onnx_ir as ir

from axtool.graph.pattern_text import parsed
from axtool.ops import custom

if TYPE_CHECKING:
    import onnx

DOMAIN = "ax"
DOMAINS = (DOMAIN, custom.DOMAIN)  # of ops that carry their body


def _normalize(inputs: str, last: str) -> str:
    """Along the last axis; the overload holds epsilon."""
    return f"""LayerNormalization <axis: int = -1, epsilon: float = 1e-5> ({inputs}) => (y) {{
        mean = ReduceMean <axes = [-1]> (x)
        centred = Sub (x, mean)
        square = Mul (centred, centred)
        variance = ReduceMean <axes = [-1]> (square)
        eps = Constant <value = float {{$0}}> ()
        sum = Add (variance, eps)
        root = Sqrt (sum)
        unit = Div (centred, root)
        {last}
    }}"""


def _attend(inputs: str, masked: str) -> str:
    """Tokens q [1, L, C], k [1, S, C], v [1, S, Cv] with heads side by side  ->  context [1, L, Cv] and the scores
    [1, heads, L, S] before the mask, which calibration looks at; the overload holds heads and scale.
    """
    return f"""Attention <heads: int, scale: float> ({inputs}) => (context, scores) {{
        split = Constant <value = int64[4] {{0, 0, $0, -1}}> ()
        q_split = Reshape (q, split)
        k_split = Reshape (k, split)
        v_split = Reshape (v, split)
        q_heads = Transpose <perm = [0, 2, 1, 3]> (q_split)
        k_heads = Transpose <perm = [0, 2, 3, 1]> (k_split)
        v_heads = Transpose <perm = [0, 2, 1, 3]> (v_split)
        product = MatMul (q_heads, k_heads)
        factor = Constant <value = float {{$1}}> ()
        scores = Mul (product, factor)
        masked = {masked}
        weights = Softmax <axis = 3> (masked)
        mixed = MatMul (weights, v_heads)
        context_split = Transpose <perm = [0, 2, 1, 3]> (mixed)
        join = Constant <value = int64[3] {{0, 0, -1}}> ()
        context = Reshape (context_split, join)
    }}"""


# (op, kind of overload) -> text; $0, $1 are the numbers of the overload.
# Constants are float32: the widening pass has removed every other float type.
BODIES: dict[tuple[str, str], str] = {
    ("Silu", ""): "Silu (x) => (y) { s = Sigmoid (x) y = Mul (x, s) }",
    ("HardSwish", ""): """HardSwish (x) => (y) {
        g = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x)
        y = Mul (x, g)
    }""",
    ("HardSwish", "1"): """HardSwish <ratio: float = 1.0> (x) => (y) {
        g = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x)
        k = Constant <value = float {$0}> ()
        h = Mul (g, k)
        y = Mul (x, h)
    }""",
    ("Mish", ""): "Mish (x) => (y) { p = Softplus (x) t = Tanh (p) y = Mul (x, t) }",
    ("Gelu", "none"): """Gelu <approximate: string = "none"> (x) => (y) {
        root = Constant <value = float {1.4142135381698608}> ()
        one = Constant <value = float {1.0}> ()
        half = Constant <value = float {0.5}> ()
        scaled = Div (x, root)
        e = Erf (scaled)
        gate = Add (e, one)
        full = Mul (x, gate)
        y = Mul (full, half)
    }""",
    ("Gelu", "tanh"): """Gelu <approximate: string = "tanh"> (x) => (y) {
        c = Constant <value = float {0.044714998453855515}> ()
        root = Constant <value = float {0.7978845834732056}> ()
        one = Constant <value = float {1.0}> ()
        half = Constant <value = float {0.5}> ()
        square = Mul (x, x)
        cube = Mul (square, x)
        bent = Mul (cube, c)
        sum = Add (x, bent)
        scaled = Mul (sum, root)
        t = Tanh (scaled)
        gate = Add (t, one)
        full = Mul (x, gate)
        y = Mul (full, half)
    }""",
    ("LayerNormalization", "1"): _normalize("x, scale", "y = Mul (unit, scale)"),
    ("LayerNormalization", "1 biased"): _normalize(
        "x, scale, bias", "scaled = Mul (unit, scale) y = Add (scaled, bias)"
    ),
    ("Attention", "2"): _attend("q, k, v", "Identity (scores)"),
    ("Attention", "2 masked"): _attend("q, k, v, mask", "Add (scores, mask)"),
}


def attach(model: ir.Model) -> ir.Model:
    """Give the model the body of each ax and custom op it uses, and take away those it does not. Changes and returns
    `model`.
    """
    opset = model.opset_imports.get("", 1)
    _attach(model, DOMAIN, lambda op, overload: _proto(op, overload, opset))
    ops = custom.known()
    _attach(model, custom.DOMAIN, lambda op, overload: parsed(ops[op].body or ops[op].pattern, opset))
    return model


def _attach(model: ir.Model, domain: str, body: Callable[[str, str], onnx.FunctionProto]) -> None:
    used = {(node.op_type, node.overload) for node in model.graph.all_nodes() if node.domain == domain}
    for identifier in [key for key in model.functions if key[0] == domain and key[1:] not in used]:
        del model.functions[identifier]
    for op, overload in sorted(used):
        function = ir.from_proto(body(op, overload))
        assert isinstance(function, ir.Function)
        model.functions[function.identifier()] = function
    if used:
        model.opset_imports[domain] = 1
        if any(overload for _, overload in used):
            model.ir_version = max(model.ir_version, 10)  # the first that knows overloads
        model.ir_version = max(model.ir_version, 8)  # the first that knows functions
    else:
        model.opset_imports.pop(domain, None)


@cache
def _proto(op: str, overload: str, opset: int) -> onnx.FunctionProto:
    import onnx.parser

    words = overload.split()
    numbers = [word for word in words if word[:1] in "+-.0123456789"]
    kind = " ".join([*([str(len(numbers))] if numbers else []), *words[len(numbers) :]])
    body = BODIES[op, kind]
    for at, number in enumerate(numbers):
        body = body.replace(f"${at}", number)
    text = f'<domain: "{DOMAIN}", opset_import: ["": {opset}]> {body}'
    proto = onnx.parser.parse_function(text)
    proto.overload = overload
    return proto
