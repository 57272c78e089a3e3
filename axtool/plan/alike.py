"""Layers that are alike -> one search for their boxes: networks repeat the same few layers.

Two runs of layers are alike where nothing that boxes or their cycles depend on differs: ops, attributes, shapes, sizes
of constants, what is external, who reads whom. Names alone may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from axtool.plan.tile_boxes import TileJob
from axtool.plan.tile_cost import Tiling

Likeness = tuple[object, ...]


@dataclass
class Alike:
    """Tilings that are known already, by likeness of the layers and by what else the search is given."""

    known: dict[Likeness, tuple[dict[str, int], tuple[Tiling, ...] | None]] = field(default_factory=dict)

    def once(
        self, jobs: Sequence[TileJob], given: Likeness, search: Callable[[], tuple[Tiling, ...] | None]
    ) -> tuple[Tiling, ...] | None:
        """What `search` finds, or found for layers like these with the same `given`, with the names of these."""
        numbers = _numbers(jobs)
        key = (*given, *(_likeness(job, numbers) for job in jobs))
        if key not in self.known:
            self.known[key] = numbers, search()
        theirs, found = self.known[key]
        if found is None or theirs == numbers:
            return found
        names = {number: name for name, number in numbers.items()}
        ours = {name: names[number] for name, number in theirs.items()}
        return tuple(_renamed(tiling, ours) for tiling in found)

    def one(self, job: TileJob, given: Likeness, search: Callable[[], Tiling | None]) -> Tiling | None:
        """The same of one layer."""

        def searched() -> tuple[Tiling, ...] | None:
            tiling = search()
            return None if tiling is None else (tiling,)

        found = self.once((job,), given, searched)
        return found[0] if found else None


def _numbers(jobs: Sequence[TileJob]) -> dict[str, int]:
    """Tensors by the order in which the layers name them."""
    names = dict.fromkeys(name for job in jobs for name in (*job.layer.inputs, *job.layer.outputs))
    return {name: number for number, name in enumerate(names)}


def _likeness(job: TileJob, numbers: Mapping[str, int]) -> Likeness:
    layer, program = job.layer, job.program
    tensors = []
    for name in (*layer.inputs, *layer.outputs):
        constant, tensor = program.constants.get(name), program.tensors.get(name)
        size = None if constant is None else (constant.nbytes, constant.shape)
        tensors.append((numbers[name], name in job.external, size, None if tensor is None else tensor.shape))
    return layer.op, len(layer.inputs), repr(sorted(layer.attrs.items())), tuple(tensors)


def _renamed(tiling: Tiling, names: Mapping[str, str]) -> Tiling:
    return replace(tiling, constants={names[name]: buffers for name, buffers in tiling.constants.items()})
