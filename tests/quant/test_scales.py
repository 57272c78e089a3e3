"""What a recipe says of scales, entry by entry: zero points, grains of weights, and where int8 reads other formats."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

from axtool.graph.split import Stage
from axtool.quant.matches import hits
from axtool.quant.overrides import overrides_of
from axtool.quant.recipe_file import recipe_from_dict
from axtool.quant.scales import Read, Scales
from axtool.types import Precision
from tests import tiny

# a convolution with a Relu, one without, their sum; a projection and a linear
NET = """(float[1,4,8,8] x) => (float[1,6,8,8] y) {
  a = Conv(x, w1)
  r = Relu(a)
  b = Conv(r, w2)
  s = Add(b, r)
  m = MaxPool <kernel_shape=[2,2]>(r)
  y = Conv(s, w3)
}"""
WEIGHTS = {"w1": (4, 4, 1, 1), "w2": (4, 4, 1, 1), "w3": (6, 4, 1, 1)}


def scales(*layers: dict[str, Any], precision: dict[str, Precision] | None = None, **top: Any) -> Scales:
    proto = onnx.shape_inference.infer_shapes(tiny.model(NET, WEIGHTS))
    stage = Stage("device", ir.from_proto(proto), ("x",), ("y",), {}, precision or {})
    file = recipe_from_dict({"schema": "axtool.quant/1", "name": "mine", "layers": list(layers), **top})
    return overrides_of(file, hits(file, stage.sites, ("x",)), [stage]).scales


def test_without_a_word_no_scale_is_special() -> None:
    assert scales() == Scales()


def test_what_holds_for_all_is_said_once() -> None:
    found = scales(activations={"symmetric": True}, weights={"granularity": "tensor"})
    assert (found.symmetric, found.per_tensor) == (True, True)


def test_an_entry_speaks_of_the_tensors_and_weights_of_its_nodes() -> None:
    entry = {"match": {"op": "Conv", "after": "Add"}, "activations": {"symmetric": True}}
    found = scales({**entry, "weights": {"granularity": "tensor"}})
    assert (found.symmetric, found.per_tensor) == (frozenset("y"), frozenset("y"))


def test_a_later_entry_takes_back_an_earlier_one() -> None:
    tensor, channel = ({"granularity": grain} for grain in ("tensor", "channel"))
    found = scales({"match": {"op": "Conv"}, "weights": tensor}, {"match": {"name": "y"}, "weights": channel})
    assert found.per_tensor == frozenset(("a", "b"))


def test_only_what_a_relu_makes_keeps_its_zero_point() -> None:
    found = scales(activations={"symmetric": True, "asymmetric_after_relu": True})
    assert (found.symmetric, found.after_relu) == (True, frozenset("r"))


def test_tensors_that_share_a_format_have_one_turn() -> None:
    assert scales({"match": {"name": "r"}, "turn": 2}).turns == {"a": 2, "r": 2, "m": 2}


def test_the_first_turn_takes_a_later_one_back() -> None:
    assert scales({"match": {"op": "*"}, "turn": 3}, {"match": {"op": "*"}, "turn": 1}).turns == {}


def test_what_int8_reads_of_another_format_has_a_range_of_its_own() -> None:
    entry = {"match": {"op": "Conv", "after": "Add"}, "method": "mse", "turn": 2}
    found = scales(entry, precision={"s": "fx32"})
    assert found.reads == {"s": Read(("mse", 99.999), 2)}
    assert (found.turns, found.later) == ({"y": 2}, (2,))


def test_what_int8_reads_of_int8_has_the_range_of_the_tensor() -> None:
    assert scales({"match": {"op": "Conv", "after": "Add"}, "method": "mse"}).reads == {}


def test_the_zero_point_of_what_int8_reads_of_another_format_is_said_by_the_reader() -> None:
    entry = {"match": {"op": "Conv", "after": "Add"}, "activations": {"symmetric": True}}
    assert scales(entry, precision={"s": "fx32"}).symmetric == frozenset(("s", "y"))
