"""The host finds the pixel stride of a device tensor from the size of its slot, so that size holds no alignment."""

import pytest

from axtool.plan.build import plan
from axtool.target_file import load_target
from axtool.types import Layer, Program, QFormat, Tensor

INT8 = QFormat("int8", (0.1,))
TARGET = load_target("qc-u-1d7-16mb")


@pytest.mark.parametrize(("height", "width", "channels"), [(5, 5, 72), (1, 1, 1), (3, 7, 17), (10, 10, 72), (2, 3, 65)])
def test_the_slot_of_an_input_or_output_is_exactly_its_pixels(height: int, width: int, channels: int):
    shape = (1, height, width, channels)
    tensors = {name: Tensor(name, shape, INT8, onnx_shape=shape) for name in "xy"}
    attrs = {"kernel": (1, 1), "stride": (1, 1), "dilation": (1, 1), "pad": (0, 0)}
    program = Program(tensors, (Layer("max_pool", ("x",), ("y",), attrs, name="pool"),), {}, ("x",), ("y",))
    pixel = -(-channels // TARGET.channel_multiple) * TARGET.channel_multiple
    slots = [slot for slot in plan(program, TARGET).slots if slot.memory == "ext"]
    assert {slot.tensor: slot.size for slot in slots} == dict.fromkeys("xy", height * width * pixel)
