"""Memory images: constants, inputs and outputs at the offsets of their slots."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from axtool.ops.encoding import decode_command, decode_layer
from axtool.sim.images import encode_plan, host_slot, new_images, read_tensor, sizes_of, write_tensor
from axtool.types import Plan, QFormat, Slot, Tensor
from tests.sim.tiny_plans import small_net


def plan() -> Plan:
    return small_net()[0].plan(["out"])


def test_constants_are_at_the_offsets_of_their_slots():
    p = plan()
    memories = new_images(p)
    for name, array in p.program.constants.items():
        slot = host_slot(p, name)
        assert memories["ext"][slot.offset : slot.offset + array.nbytes].tobytes() == array.tobytes()


def test_a_tensor_reads_as_it_was_written_and_its_padding_holds_the_zero_point():
    p = plan()
    memories, slot, tensor = new_images(p), host_slot(p, "x"), p.program.tensors["x"]
    values = small_net()[1]["x"]
    write_tensor(memories, slot, tensor, values)
    np.testing.assert_array_equal(read_tensor(memories, slot, tensor), values)
    pixels = memories["ext"][slot.offset :][: slot.size].reshape(9, 8, 16)
    assert (pixels[:, :, 5:].view(np.int8) == 3).all()


@pytest.mark.parametrize("pixel", [16, 32])
def test_what_was_read_stays_when_the_memory_changes(pixel):
    tensor = Tensor("t", (1, 2, 3, 16), QFormat("int8", (1.0,)))
    memories = {"ext": np.zeros(6 * pixel, np.uint8)}
    read = read_tensor(memories, Slot("t", "ext", 0, 6 * pixel, 0, 0), tensor)
    memories["ext"][:] = 7
    assert not read.any()


def test_the_rows_of_a_plan_decode_to_its_layers_and_commands():
    p = plan()
    layers, layer_offsets, commands, offsets = encode_plan(p)
    ops = [decode_layer(layers[a:b])[0] for a, b in pairwise(layer_offsets)]
    assert ops == [layer.op for layer in p.program.layers]
    rows = [decode_command(commands[a:b].tolist()) for a, b in pairwise(offsets)]
    assert tuple(rows) == p.commands


def test_a_memory_that_no_command_uses_has_no_bytes():
    assert sizes_of(replace(plan(), sizes={"ext": 64})) == {"ext": 64, "ocm": 0}


@pytest.mark.parametrize(
    "values", [np.zeros((1, 9, 8, 4), np.int8), np.zeros((9, 8, 5), np.int8), np.zeros((1, 9, 8, 5), np.uint8)]
)
def test_an_input_of_another_shape_or_type_is_refused(values):
    p = plan()
    with pytest.raises(ValueError, match=r"'x' is int8 \(1, 9, 8, 5\)"):
        write_tensor(new_images(p), host_slot(p, "x"), p.program.tensors["x"], values)


def test_a_tensor_without_a_slot_is_refused():
    with pytest.raises(ValueError, match="'y' has no slot"):
        host_slot(plan(), "y")


def test_a_constant_larger_than_its_slot_is_refused():
    p = plan()
    slots = tuple(replace(slot, size=slot.size - 1) if slot.tensor == "w" else slot for slot in p.slots)
    with pytest.raises(ValueError, match="constant 'w' has"):
        new_images(replace(p, slots=slots))


def test_a_slot_too_small_for_its_tensor_is_refused():
    p = plan()
    slot = replace(host_slot(p, "x"), size=9 * 8 * 4)
    with pytest.raises(ValueError, match=r"'x' .* does not fit its slot"):
        read_tensor(new_images(p), slot, p.program.tensors["x"])
