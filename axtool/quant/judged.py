"""Stages and outputs of a model  ->  the tensors by which recipes are judged: those before a Softmax instead of behind.

A Softmax that is sure of its class hides what was lost: on a few samples one recipe looks as good as another, or
better by accident.
"""

from __future__ import annotations

from collections.abc import Sequence

from axtool.graph.split import Stage


def judged_by(stages: Sequence[Stage], outputs: Sequence[str]) -> tuple[str, ...]:
    """The outputs, each that the host's Softmax makes of what enters its stage replaced by that."""
    before = {
        node.outputs[0].name: node.inputs[0].name
        for stage in stages
        if stage.kind == "host"
        for node in stage.model.graph
        if node.op_type == "Softmax" and node.inputs[0] is not None and node.inputs[0].name in stage.inputs
    }
    return tuple(dict.fromkeys(before.get(name) or name for name in outputs))
