"""A source model, cut as a compile cuts it  ->  what a kernel would get, and whether one fits. It needs no data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from axtool.graph.front import Reading, read_front
from axtool.plan.layout import infer_layouts, stored_shape
from axtool.runtime.op.load import size_of
from axtool.runtime.op.operator import Operator
from axtool.runtime.postamble import Postamble
from axtool.runtime.tensor_info import TensorInfo
from axtool.target import Target
from axtool.types import TensorSpec

SOME_SCALE = 1 / 32  # of every head: a constructor looks at shapes, and a small step keeps exponentials finite


@dataclass(frozen=True)
class Heads:
    """`fused` are the device's buffers without padding, `floats` the same as tensors of the model. `host` are tensors
    that the tail reads from the host. `size` is the (width, height) of the input, `export` what the exporter wrote,
    `last_ops` the op that makes each output, `tail_ops` the kinds of op behind the device.
    """

    fused: tuple[TensorInfo, ...]
    floats: tuple[TensorInfo, ...]
    host: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    size: tuple[int, int]
    export: Mapping[str, Any]
    last_ops: Mapping[str, str]
    tail_ops: frozenset[str]


def heads_of(model: Path, target: Target, reading: Reading) -> Heads:
    """Raises the AxError of a model that cannot be read; a model without a device part has no heads."""
    front = read_front(model, target, reading)
    stages = front.parts.stages
    devices = [at for at, stage in enumerate(stages) if stage.kind == "device"]
    last = devices[-1] + 1 if devices else 0
    inside, after = stages[devices[0] if devices else 0 : last], stages[last:]
    wanted = {name for stage in after for name in stage.inputs} | {spec.name for spec in front.outputs}
    made_after = {name for stage in after for name in stage.outputs}
    fused, floats = [], []
    for stage in inside:
        layouts = infer_layouts(stage.sites, stage.inputs) if stage.kind == "device" else {}
        for value in stage.model.graph.outputs:
            name, shape = value.name or "", tuple(int(dim) for dim in value.shape or () if isinstance(dim, int))
            if name in wanted and name in layouts:
                fused.append(TensorInfo(stored_shape(shape, layouts[name]), np.int8, name, scale=SOME_SCALE))
                floats.append(TensorInfo(shape, np.float32, name))
    here = {info.name for info in fused}
    host = tuple(name for name in sorted(wanted - made_after) if name not in here)
    ends = {value.name or "": value.producer() for value in front.loaded.model.graph.outputs}
    return Heads(
        fused=tuple(fused),
        floats=tuple(floats),
        host=host,
        inputs=front.inputs,
        outputs=front.outputs,
        size=size_of(front.inputs),
        export=front.loaded.export,
        last_ops={name: node.op_type for name, node in ends.items() if node is not None},
        tail_ops=frozenset(node.op_type for stage in after for node in stage.model.graph),
    )


def fault_of(postamble: Postamble, heads: Heads) -> str:
    """Why a built-in kernel does not fit the heads; empty where it does. A kernel of one's own is not imported."""
    if postamble.is_empty or ":" in postamble.kernel_name:
        return ""
    fused = postamble.slot == "fused_kernel"
    if not heads.fused:
        return "nothing of this model runs on the device: a kernel has nothing to read"
    if fused and heads.host:
        return f"the tail also reads {', '.join(heads.host)} from the host, which a fused kernel does not get"
    try:
        build: Callable[..., Operator] = postamble.kernel_class()
        with np.errstate(all="ignore"):
            kernel = build(list(heads.fused if fused else heads.floats), *heads.size, **postamble.params)
    except (TypeError, ValueError, ImportError) as error:
        return f"{postamble.kernel_name}: {' '.join(str(error).split())}"
    made = getattr(kernel, "output_shapes", None)
    declared = tuple(spec.shape for spec in heads.outputs)
    if made is not None and tuple(map(tuple, made)) != declared:
        would, want = (", ".join(str(list(shape)) for shape in shapes) for shapes in (made, declared))
        return f"{postamble.kernel_name} would make {would}, but the model declares {want}; check its parameters"
    return ""
