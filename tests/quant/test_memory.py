"""What does not fit the machine's memory is refused before it is allocated."""

import onnx
import onnx_ir as ir
import pytest

from axtool.errors import EnvironmentFault
from axtool.quant.memory import check_memory, memory_bytes

TEXT = """<ir_version: 8, opset_import: ["": 17]> g (float[1,3,8,8] x) => (float[1,3,8,8] y) <float[1,3,8,8] r> {
  r = Relu (x)
  y = Add (r, r)
}"""


def model():
    return ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(TEXT)))


def test_a_node_beyond_the_limit_is_named_with_what_it_needs():
    with pytest.raises(EnvironmentFault, match=r"Relu .*1,536 bytes in float, there are 1,535") as caught:
        check_memory([model()], limit=1535)
    assert caught.value.code == "no-memory"


def test_the_limit_itself_is_enough():
    check_memory([model()], limit=1536)


def test_the_machine_has_some_memory():
    assert memory_bytes() > 1 << 28
