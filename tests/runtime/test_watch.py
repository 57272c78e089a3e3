"""Watching tensors: what is copied out is what the layer made, wherever its bytes lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from axtool.artefact.axm import DeviceStage
from axtool.cli.console import Progress
from axtool.compiler import compile_model
from axtool.options import Options
from axtool.runtime.device import DeviceSession
from axtool.runtime.watch import Watch
from axtool.sim.images import host_slot, new_images, open_plan, write_tensor
from axtool.types import Command, Plan
from benchmarks.networks import Net


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A stem, two halves, one convolved, both joined: 40 x 40 pixels, which are four tiles."""
    net = Net("halves", (1, 3, 80, 80))
    left, right = net.halves(net.conv("images", 32, 3, 2, act="silu"))
    joined = net.op("Concat", net.conv(left, 16, 3, act="relu"), right, axis=1, channels=32)
    path = tmp_path_factory.mktemp("watch") / "halves.onnx"
    onnx.save(net.model([net.conv(joined, 24)]), path)
    (stage,) = compile_model(path, Options(calib=("random:2",)), Progress(quiet=True)).artefact.stages
    assert isinstance(stage, DeviceStage)
    return stage.plan


@pytest.fixture(scope="module")
def inputs(plan: Plan) -> dict[str, NDArray[np.int8]]:
    rng = np.random.default_rng(0)
    return {n: rng.integers(-128, 128, plan.program.tensors[n].shape, np.int8) for n in plan.program.inputs}


def made(plan: Plan) -> list[str]:
    return [name for layer in plan.program.layers for name in layer.outputs]


def in_pieces(plan: Plan) -> Plan:
    """The same plan; every write names its tile only, so that no tensor is known to lie in one piece."""

    def narrow(command: Command) -> Command:
        if command.kind not in ("compute", "move") or command.tile == command.writes[0].tile:
            return command
        view, tile = command.writes[0], command.tile
        down, right, deep = tile.y - view.tile.y, tile.x - view.tile.x, tile.c - view.tile.c
        offset = view.offset + down * view.row_stride + right * view.pixel_stride + deep
        return replace(command, writes=(replace(view, offset=offset, tile=tile), *command.writes[1:]))

    return replace(plan, commands=tuple(narrow(command) for command in plan.commands))


def snapshot(plan: Plan, inputs: dict[str, NDArray[np.int8]], name: str) -> NDArray[np.uint8]:
    """A tensor, pixel by pixel out of the memories of a reference that ran no further than its last command."""
    writes = [
        i for i, c in enumerate(plan.commands) if c.kind != "load" and plan.program.layers[c.layer].outputs[0] == name
    ]
    short = replace(plan, commands=plan.commands[: writes[-1] + 1])
    memories = new_images(plan)
    for given, array in inputs.items():
        write_tensor(memories, host_slot(plan, given), plan.program.tensors[given], array)
    open_plan(short, "reference").run(memories["ext"], memories["ocm"], None)
    out = np.zeros(plan.program.tensors[name].shape[1:], np.uint8)
    for command in short.commands:
        if command.kind not in ("compute", "move") or plan.program.layers[command.layer].outputs[0] != name:
            continue
        view, tile = command.writes[0], command.tile
        for y in range(tile.y, tile.y + tile.h):
            for x in range(tile.x, tile.x + tile.w):
                at = view.offset + (y - view.tile.y) * view.row_stride + (x - view.tile.x) * view.pixel_stride
                at += tile.c - view.tile.c
                out[y, x, tile.c : tile.c + tile.n] = memories[view.memory][at : at + tile.n]
    return out


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_watched_tensors_are_what_lies_in_memory(plan: Plan, inputs: dict[str, NDArray[np.int8]], engine: str) -> None:
    seen = DeviceSession(plan, engine=engine).run_quantized(inputs, made(plan))
    for name in made(plan):
        np.testing.assert_array_equal(seen[name][0].view(np.uint8), snapshot(plan, inputs, name), err_msg=name)


def test_a_tensor_in_pieces_has_the_bytes_of_one_in_one_piece(plan: Plan, inputs: dict[str, NDArray[np.int8]]) -> None:
    whole = DeviceSession(plan).run_quantized(inputs, made(plan))
    pieces = DeviceSession(in_pieces(plan)).run_quantized(inputs, made(plan))
    for name in made(plan):
        np.testing.assert_array_equal(whole[name], pieces[name], err_msg=name)


def test_a_tensor_in_one_piece_is_copied_once(plan: Plan) -> None:
    assert len(Watch(plan, made(plan)).taps) == len(made(plan))


def test_a_tensor_in_pieces_is_copied_tile_by_tile(plan: Plan) -> None:
    working = [command for command in plan.commands if command.kind in ("compute", "move")]
    assert len(working) > len(made(plan))
    assert len(Watch(in_pieces(plan), made(plan)).taps) == len(working)


def test_watching_does_not_change_the_outputs(plan: Plan, inputs: dict[str, NDArray[np.int8]]) -> None:
    session = DeviceSession(plan)
    (name,) = plan.program.outputs
    plain = session.run_quantized(inputs)[name]
    np.testing.assert_array_equal(session.run_quantized(inputs, made(plan))[name], plain)


def test_every_run_shows_its_own_tensors(plan: Plan, inputs: dict[str, NDArray[np.int8]]) -> None:
    session, names = DeviceSession(plan), made(plan)
    session.run_quantized({name: ~array for name, array in inputs.items()}, names)
    again = session.run_quantized(inputs, names)
    fresh = DeviceSession(plan).run_quantized(inputs, names)
    for name in names:
        np.testing.assert_array_equal(again[name], fresh[name], err_msg=name)


def test_another_choice_of_tensors_is_followed(plan: Plan, inputs: dict[str, NDArray[np.int8]]) -> None:
    session, names = DeviceSession(plan), made(plan)
    session.run_quantized(inputs, names[:1])
    assert set(session.run_quantized(inputs, names[1:2])) == {names[1], *plan.program.outputs}
