"""What is wrong with a parsed pattern, in words: it could never be found in a model, or would be found wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import onnx

STANDARD = ("", "ai.onnx")
CONSTANTS = frozenset({"value", "value_float", "value_floats", "value_int", "value_ints"})


def fault_of(function: onnx.FunctionProto) -> str:
    """The first fault of a pattern, "" for a sound one: names that are made twice, or read before they are made, nodes
    that the output does not need, constants that are no numbers, ops, attributes and inputs that ONNX does not have.
    """
    return next(_faults(function), "")


def _faults(function: onnx.FunctionProto) -> Iterator[str]:
    if len(function.output) != 1:
        yield f"a pattern has one output, this one has {len(function.output)}"
    if not function.input:
        yield "it has no input"
    if twice := _doubled([*function.input]):
        yield f"the input '{twice}' is there twice"
    made = {name for node in function.node for name in node.output}
    if function.output[0] not in made:
        yield f"no node makes the output '{function.output[0]}'"
    if twice := _doubled([*function.input, *(name for node in function.node for name in node.output if name)]):
        yield f"'{twice}' is made twice"
    if any(function.output[0] in node.output for node in function.node if node.op_type == "Constant"):
        yield f"the output '{function.output[0]}' is a constant"
    read = {name for node in function.node for name in node.input}
    if unread := [name for name in function.input if name not in read]:
        yield f"no node reads the input '{unread[0]}'"
    if unknown := sorted(name for name in read if name and name not in made and name not in function.input):
        yield f"nothing makes '{unknown[0]}'"
    yield from _out_of_order(function)
    yield from _unneeded(function)
    for node in function.node:
        yield from _faults_of_node(node)


def _doubled(names: list[str]) -> str:
    return next((name for at, name in enumerate(names) if name in names[:at]), "")


def _out_of_order(function: onnx.FunctionProto) -> Iterator[str]:
    """Also every cycle: one of its nodes reads what a later one makes."""
    there = set(function.input)
    for node in function.node:
        if late := [name for name in node.input if name and name not in there]:
            yield f"{node.op_type} reads '{late[0]}' before a node makes it"
        there.update(node.output)


def _unneeded(function: onnx.FunctionProto) -> Iterator[str]:
    needed = {function.output[0]}
    for node in reversed(function.node):
        if not needed.intersection(node.output):
            yield f"the output does not need '{next(iter(node.output), node.op_type)}'"
        needed.update(node.input)


def _faults_of_node(node: onnx.NodeProto) -> Iterator[str]:
    given = [attr.name for attr in node.attribute]
    if node.op_type == "Constant" and node.domain in STANDARD and (len(given) != 1 or given[0] not in CONSTANTS):
        yield f"the Constant '{node.output[0]}' has no number: want one such as <value = float {{2.0}}>"
    if node.domain not in STANDARD:
        return  # nothing is known of it
    if (known := _known(node.op_type)) is None:
        yield f"ONNX has no op '{node.op_type}'; ops of another domain are written com.vendor.{node.op_type}"
        return
    attributes, fewest, most = known
    if strange := [name for name in given if name not in attributes]:
        yield f"{node.op_type} has no attribute '{strange[0]}'"
    if not fewest <= len(node.input) <= most:
        yield f"{node.op_type} has {len(node.input)} inputs, want {fewest}{'' if most == fewest else ' or more'}"


@cache
def _known(op: str) -> tuple[frozenset[str], int, int] | None:
    """(names of attributes, fewest inputs, most inputs) of an op of ONNX, over all its versions."""
    every = [one for one in onnx.defs.get_all_schemas_with_history() if one.domain == "" and one.name == op]
    if not every:
        return None
    names = frozenset(name for one in every for name in one.attributes)
    return names, min(one.min_input for one in every), max(one.max_input for one in every)
