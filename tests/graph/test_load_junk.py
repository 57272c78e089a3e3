"""Damaged models: whatever the bytes, loading ends in a model or in an AxError."""

import random
from pathlib import Path

import numpy as np
import onnx
import pytest

from axtool.errors import AxError
from axtool.graph.load import load_model
from axtool.graph.sites import sites_of
from tests.graph.load_models import model, node, save, value

BRANCH = onnx.helper.make_graph([node("Relu", ["f"], ["r"])], "b", [], [value("r", None)])
NODES = [
    node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
    node("Slice", ["c", "s", "e", "a"], ["f"]),
    node("If", ["k"], ["i"], then_branch=BRANCH, else_branch=BRANCH),
    node("Reshape", ["i", "shape"], ["y"]),
]
WEIGHTS = {
    "w": np.ones((2, 3, 3, 3), np.float32), "s": [1], "e": [2**62], "a": [-1], "k": True, "shape": [1, -1],
}  # fmt: skip
GOOD = model(NODES, [value("x", [1, 3, 4, 4])], weights=WEIGHTS).SerializeToString()


def loads_or_refuses(folder: Path, content: bytes, permissive: bool) -> None:
    """Anything but an AxError fails the test by itself."""
    path = save(folder, content)
    refused = ""
    try:
        sites_of(load_model(path, permissive=permissive).model)
    except AxError as error:
        refused = str(error)
    assert not refused or str(path) in refused


def test_the_undamaged_model_loads(tmp_path: Path) -> None:
    assert len(sites_of(load_model(save(tmp_path, GOOD)).model)) == len(NODES)


def test_a_truncation_anywhere_loads_or_is_refused(tmp_path: Path) -> None:
    for end in range(0, len(GOOD), 7):
        loads_or_refuses(tmp_path, GOOD[:end], permissive=False)


@pytest.mark.parametrize("permissive", [False, True])
def test_a_flipped_bit_anywhere_loads_or_is_refused(tmp_path: Path, permissive: bool) -> None:
    dice = random.Random(7)
    for at in range(int(permissive), len(GOOD), 4):
        damaged = bytearray(GOOD)
        damaged[at] ^= 1 << dice.randrange(8)
        loads_or_refuses(tmp_path, bytes(damaged), permissive)


def test_many_wrong_bytes_load_or_are_refused(tmp_path: Path) -> None:
    dice = random.Random(11)
    for _ in range(200):
        damaged = bytearray(GOOD)
        for _ in range(dice.randrange(1, 12)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        loads_or_refuses(tmp_path, bytes(damaged), permissive=True)
