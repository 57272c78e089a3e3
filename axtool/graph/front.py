"""model.onnx  ->  the ONNX half of the road: loaded, cleaned, cut into stages. It needs no data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx_ir as ir

from axtool.errors import located
from axtool.graph.fuse_wished import fuse_wished
from axtool.graph.load import Loaded, freeze_overridable, load_model
from axtool.graph.load_sizes import check_sizes
from axtool.graph.optimize import optimize
from axtool.graph.passes import FUSE_PROJECTIONS, Cleaned, clean
from axtool.graph.passes.checking import Checker
from axtool.graph.signature import defaults_of, inputs_of, outputs_of
from axtool.graph.sites import sites_of
from axtool.graph.split import Split, Wishes, split
from axtool.graph.split_outputs import cut_outputs
from axtool.ops.custom import DOMAIN, known
from axtool.ops.limits import taken_ops
from axtool.target import Target
from axtool.types import Precision, Site, TensorSpec

log = logging.getLogger("axtool")

# From the nodes and the inputs of a clean model to what is wanted of some nodes.
Wish = Callable[[Sequence[Site], Sequence[str]], Wishes]


@dataclass(frozen=True)
class Reading:
    """How to read a model: what the user fixes, what is forgiven, where it ends."""

    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    permissive: bool = False
    fix_fp16: bool = False
    check: bool = False
    disable: Sequence[str] = ()  # passes and optimisations to leave out
    enable: Sequence[str] = ()  # optimisations that the target does not list


@dataclass(frozen=True)
class Front:
    """The user's model, cleaned and cut. `frozen` names inputs with a default value that became constants,
    `overridable` those that may still be fed. `asked` are the precisions that were wished for, by input and by the
    first output that a node had before projections were fused.
    """

    loaded: Loaded
    cleaned: Cleaned
    parts: Split
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    frozen: tuple[str, ...] = ()
    overridable: tuple[TensorSpec, ...] = ()
    asked: Mapping[str, Precision] = field(default_factory=dict)
    wishes: Wishes = field(default_factory=Wishes)  # by which it was cut


def read_front(
    path: Path,
    target: Target,
    reading: Reading,
    *,
    freeze: bool = True,
    wish: Wish | None = None,
    step: Callable[[str], None] = lambda name: None,
) -> Front:
    """Load, clean and split. Works for any model that loads, even one of which the device can run nothing.

    `freeze` makes constants of initializers that a caller could replace; `wish` says what is wanted of single nodes.
    Raises the AxError of the step that fails.
    """
    step("reading")
    loaded = load_model(
        path,
        input_shapes=reading.input_shapes,
        dims=reading.dims,
        permissive=reading.permissive,
        fix_fp16=reading.fix_fp16,
    )
    _say(loaded.warnings, logging.WARNING)
    _say(loaded.notes, logging.INFO)
    frozen = freeze_overridable(loaded.model) if freeze else ()
    if reading.outputs:
        cut_outputs(
            loaded.model, reading.outputs, str(path)
        )  # before the passes: what they fold away has no name afterwards
    step("cleaning")
    check = Checker() if reading.check else None
    cleaned = clean(loaded.model, check=check, disable=reading.disable, takes=taken_ops(target))
    cleaned = optimize(cleaned, target, disable=reading.disable, enable=reading.enable, check=check)
    _say(cleaned.notes, logging.INFO)
    step("splitting")
    graph = cleaned.model
    if "match-custom" not in reading.disable:
        _say_unfound(graph)
    check_sizes(graph, str(path))  # cleaning finds shapes that loading could not
    entered = [value.name or "" for value in graph.graph.inputs]
    with located(str(path)):
        sites = sites_of(graph) if wish else ()
        wishes = wish(sites, entered) if wish else Wishes()
        asked = {**wishes.input_precision, **{sites[at].outputs[0]: kind for at, kind in wishes.precision.items()}}
        if wishes.precision and FUSE_PROJECTIONS not in reading.disable:
            cleaned, wishes = fuse_wished(cleaned, wishes, check)
        parts = split(graph, target, given=cleaned.given, wish=lambda sites: wishes)
    return Front(loaded, cleaned, parts, inputs_of(graph), outputs_of(graph), frozen, defaults_of(graph), asked, wishes)


def _say_unfound(graph: ir.Model) -> None:
    """Ops of the user's own whose patterns stand nowhere: a warning where it is all of them, since the device then runs
    nothing that it would not run without them.
    """
    there = {node.op_type for node in graph.graph if node.domain == DOMAIN}
    if unfound := [name for name in known() if name not in there]:
        names = ", ".join(f"'{name}'" for name in sorted(unfound))
        level = logging.INFO if there else logging.WARNING
        _say(
            [f"nowhere in the model are nodes as the pattern says of custom op{'s' * (len(unfound) > 1)} {names}"],
            level,
        )


def _say(lines: Sequence[str], level: int) -> None:
    for line in lines:
        log.log(level, "%s", line)
