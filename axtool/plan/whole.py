"""A Program  ->  a Plan that computes each layer at once in external memory, made in no time.

The bits of a plan do not depend on its tiles: this one is for looking at numbers, never for the chip or its cycles.
"""

from __future__ import annotations

from collections.abc import Iterator

from axtool.ops.encoding import MAC_OPS, PRODUCTS
from axtool.plan.memory import align, peak, place
from axtool.plan.order import activation_bytes, activations, lifetimes, padded
from axtool.plan.tile_needs import boxed_inputs, whole_box
from axtool.target import Target
from axtool.types import Command, Layer, Plan, Program, Slot, Tile, View


def whole_plan(program: Program, target: Target) -> Plan:
    """The layers in the order given, each in one command, or one for each input of a concat."""
    last = max(len(program.layers) - 1, 0)
    spans = lifetimes(program, program.layers)
    kept = {*program.inputs, *program.outputs}
    slots = [
        Slot(name, "ext", 0, activation_bytes(program, name, target), *((0, last) if name in kept else spans[name]))
        for name in dict.fromkeys((*activations(program), *program.outputs))
    ]
    placed = {slot.tensor: slot for slot in place(slots)}
    end = peak(placed.values())
    for name in dict.fromkeys(name for layer in program.layers for name in layer.inputs if name in program.constants):
        placed[name] = Slot(name, "ext", end, program.constants[name].nbytes, 0, last)
        end = align(end + program.constants[name].nbytes)
    commands = tuple(
        command for at, layer in enumerate(program.layers) for command in _commands(program, at, layer, placed, target)
    )
    return Plan(program, target.name, tuple(placed.values()), commands, {"ext": end, "ocm": 0})


def _commands(program: Program, at: int, layer: Layer, slots: dict[str, Slot], target: Target) -> Iterator[Command]:
    views = [
        _view(program, name, slots[name], target, flat=index >= boxed_inputs(layer))
        for index, name in enumerate(layer.inputs)
    ]
    box = whole_box(program, layer.outputs[0])
    write = _view(program, layer.outputs[0], slots[layer.outputs[0]], target)
    parts = [(view,) for view in views] if layer.op == "concat" else [tuple(views)]
    engine = "mac" if layer.op in (*MAC_OPS, *PRODUCTS) else "vector"
    for part, reads in enumerate(parts):
        yield Command("compute", engine, at, box, reads, (write,), part)  # type: ignore[arg-type]


def _view(program: Program, name: str, slot: Slot, target: Target, *, flat: bool = False) -> View:
    """A whole tensor where it lies: activations with padded channels, constants as they are."""
    if flat:
        return View(slot.memory, slot.offset, Tile(0, 0, 0, 1, 1, slot.size), slot.size, slot.size)
    box = whole_box(program, name)
    pixel = box.n if name in program.constants else padded(box.n, target)
    return View(slot.memory, slot.offset, box, box.w * pixel, pixel)
