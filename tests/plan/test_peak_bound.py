"""The peak of a plan beside the largest live set of its order, and that beside the live set of the model's own order.

Live sets are worked out here from what they are, not by the planner's functions.
"""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest

from axtool.errors import EnvironmentFault, UnsupportedError
from axtool.graph.front import Reading
from axtool.plan.build import plan
from axtool.report.profile import programs_of_onnx
from axtool.target import Target
from axtool.target_file import load_target
from axtool.types import Layer, Plan, Program
from axtool.zoo.catalogue import Entry, find
from axtool.zoo.recipe import recipe_of
from benchmarks.networks import NETWORKS, Net, resnet
from tests.plan.hand_programs import every_op, residual_net
from tests.shared_data import SHARED
from tests.zoo_at_hand import AT_HAND

ALIGNMENT = 64
TOLERANCE = 1.02
CHIPS = [load_target(name) for name in ("qc-u-1d5-8mb", "qc-u-1d7-16mb")]
EXPORTS = Path(os.environ.get("ARCH_OUT", SHARED / "arch"))  # where the scripts that export architectures write them
PARTS = (".device.onnx", ".tail.onnx")  # endings of the parts of an architecture


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def tensor_bytes(program: Program, target: Target) -> dict[str, int]:
    """Bytes of every activation, channels padded to the multiple of the chip."""
    multiple = target.channel_multiple
    shapes = {name: t.shape for name, t in program.tensors.items() if name not in program.constants}
    return {name: s[1] * s[2] * -(-s[3] // multiple) * multiple for name, s in shapes.items()}


def largest_live_set(program: Program, layers: tuple[Layer, ...], target: Target) -> int:
    """The most bytes of activations that are alive while some layer runs: made or fed, and read now or later."""
    sizes = tensor_bytes(program, target)
    last = {name: at for at, layer in enumerate(layers) for name in (*layer.inputs, *layer.outputs) if name in sizes}
    alive: set[str] = set()
    most = 0
    for at, layer in enumerate(layers):
        alive |= {name for name in (*layer.inputs, *layer.outputs) if name in sizes}
        most = max(most, sum(aligned(sizes[name]) for name in alive))
        alive = {name for name in alive if last[name] > at}
    return most


def largest_held(built: Plan, memory: str, target: Target) -> int:
    """The most bytes that the plan holds in a memory at one layer: of an activation no more than it has."""
    sizes = tensor_bytes(built.program, target)
    held = [0] * len(built.program.layers)
    for slot in built.slots:
        if slot.memory == memory:
            for at in range(slot.first, slot.last + 1):
                held[at] += aligned(min(slot.size, sizes.get(slot.tensor, slot.size)))
    return max(held, default=0)


def check(program: Program, target: Target) -> None:
    built = plan(program, target)
    own = largest_live_set(program, program.layers, target)
    assert largest_live_set(program, built.program.layers, target) <= own
    for memory in ("ocm", "ext"):
        assert built.sizes[memory] <= TOLERANCE * largest_held(built, memory, target)


def programs(model: Path, target: Target, reading: Reading | None = None) -> list[Program]:
    return programs_of_onnx(model, target, reading or Reading(), lambda name: None)[0]


def resnet101() -> onnx.ModelProto:
    """The backbone of DETR-R101 at 750 x 800."""
    net = Net("resnet101", (1, 3, 750, 800))
    return net.model([resnet(net, "images", (3, 4, 23, 3))])


MADE = {**NETWORKS, "resnet101-750x800": resnet101}
QUICK = ("mobilenet_v2", "yolov8n-640")
made = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MADE]


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("make", [residual_net, every_op])
def test_hand_made_programs_peak_near_their_bound(make, chip: Target):
    check(make(), chip)


@pytest.mark.parametrize("name", made)
def test_networks_peak_near_their_bound(name: str, tmp_path: Path):
    onnx.save(MADE[name](), tmp_path / "net.onnx")
    for program in programs(tmp_path / "net.onnx", CHIPS[0]):
        for chip in CHIPS:
            check(program, chip)


def zoo(entry: Entry) -> None:
    try:
        recipe = recipe_of(entry)
    except EnvironmentFault as fault:
        pytest.skip(str(fault))
    reading = Reading(recipe.input_shapes, recipe.dims, recipe.outputs)
    for program in programs(recipe.model, CHIPS[0], reading):
        for chip in CHIPS:
            check(program, chip)


def test_a_zoo_model_peaks_near_its_bound():
    zoo(find("digits-v8det"))


@pytest.mark.slow
@pytest.mark.parametrize("entry", AT_HAND, ids=lambda entry: entry.config.name)
def test_every_zoo_model_peaks_near_its_bound(entry: Entry):
    zoo(entry)


exported = sorted(path for path in EXPORTS.glob("*.onnx") if not path.name.endswith(PARTS)) if EXPORTS.is_dir() else []


@pytest.mark.slow
@pytest.mark.parametrize("path", exported, ids=lambda path: path.stem)
def test_every_exported_architecture_peaks_near_its_bound(path: Path):
    try:
        found = programs(path, CHIPS[0])
    except UnsupportedError as fault:
        pytest.skip(str(fault))
    for program in found:
        for chip in CHIPS:
            check(program, chip)
