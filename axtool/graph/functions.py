"""What each device op that ONNX lacks means, once, as an ONNX function. onnxruntime runs these bodies.

The bodies are opset 9 text that every later opset reads the same way, so the function takes the opset of the model it
is attached to. Where the body depends on an attribute, there is one for each value, told apart by the node's overload:
Gelu's "none" and "tanh", and HardSwish's ratio where the file rounds 1/6 (0.16662598 in models that were once fp16).
"""

from __future__ import annotations

from functools import cache

import onnx_ir as ir

DOMAIN = "ax"

# (op, overload) -> text. Constants are float32: the widening pass has removed every other float type.
BODIES: dict[tuple[str, str], str] = {
    ("Silu", ""): "Silu (x) => (y) { s = Sigmoid (x) y = Mul (x, s) }",
    ("HardSwish", ""): """HardSwish (x) => (y) {
        g = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x)
        y = Mul (x, g)
    }""",
    ("HardSwish", "ratio"): """HardSwish <ratio: float = 1.0> (x) => (y) {
        g = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x)
        k = Constant <value = float {RATIO}> ()
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
}


def attach(model: ir.Model) -> ir.Model:
    """Give the model the body of each ax op it uses, and take away those it does not. Changes and returns `model`."""
    used = {(node.op_type, node.overload) for node in model.graph.all_nodes() if node.domain == DOMAIN}
    for identifier in [key for key in model.functions if key[0] == DOMAIN and key[1:] not in used]:
        del model.functions[identifier]
    opset = model.opset_imports.get("", 1)
    for op, overload in sorted(used):
        function = ir.from_proto(_proto(op, overload, opset))
        assert isinstance(function, ir.Function)
        model.functions[function.identifier()] = function
    if used:
        model.opset_imports[DOMAIN] = 1
        if any(overload for _, overload in used):
            model.ir_version = max(model.ir_version, 10)  # the first that knows overloads
        model.ir_version = max(model.ir_version, 8)  # the first that knows functions
    else:
        model.opset_imports.pop(DOMAIN, None)
    return model


@cache
def _proto(op: str, overload: str, opset: int):  # type: ignore[no-untyped-def]
    import onnx.parser

    numeric = op == "HardSwish" and overload
    body = BODIES[op, "ratio"].replace("RATIO", overload) if numeric else BODIES[op, overload]
    text = f'<domain: "{DOMAIN}", opset_import: ["": {opset}]> {body}'
    proto = onnx.parser.parse_function(text)
    proto.overload = overload
    return proto
