"""Rows of int16 ops that come from anywhere: refused by number and reason, or run inside the memories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axtool.ops.encoding import OPCODES, ragged
from axtool.sim.engine import open_engine
from tests.native.test_native_engine_refusals import changed, fuzz_rows, guarded, made, opened

WINDOW = [3, 3, 1, 1, 1, 1, 1, 1]
CONV = [OPCODES["wide_conv"], 8, 8, 8, 8, 8, 32, *WINDOW, 1, 0, 0, -(2**15), 2**15 - 1, 0, 2, 2]
DEPTHWISE = [OPCODES["wide_depthwise"], 8, 8, 32, 8, 8, 32, *WINDOW, 16, 0, 0, -(2**15), 2**15 - 1, 0, 2, 2]
SCALE = [0, 1 << 30, 31]
ADD = [OPCODES["wide_add"], 4, 4, 16, 4, 4, 8, *(4, 4, 8), *(4, 4, 8), *SCALE, *SCALE, 0, -128, 127, 0, 2, 2, 1]
LUT = [OPCODES["wide_lut"], 4, 4, 16, 4, 4, 8, -128, 127, 2, 1]
REQUANTIZE = [OPCODES["wide_requantize"], 4, 4, 8, 4, 4, 16, 5, 1 << 30, 31, 0, -(2**15), 2**15 - 1, 1, 2]
POOL = [OPCODES["wide_avg_pool"], 8, 8, 8, 8, 8, 8, *WINDOW, 1, 1, 0, 0, 0, -(2**15), 2**15 - 1, 2, 2]
LAYERS = [CONV, DEPTHWISE, ADD, LUT, REQUANTIZE, POOL]

SIZES = {"ext": 8192, "ocm": 8192}
COMMAND = [0, 0, 0, 0, 3, 1, *(0, 0, 0, 8, 8, 32)]
COMMAND += [0, 0, *(0, 0, 0, 8, 8, 8), 64, 8]  # x
COMMAND += [0, 1024, *(0, 0, 0, 1, 1, 576), 576, 576]  # weights
COMMAND += [0, 2048, *(0, 0, 0, 1, 1, 256), 256, 256]  # params
COMMAND += [1, 0, *(0, 0, 0, 8, 8, 32), 256, 32]  # y


def test_the_rows_of_these_tests_run() -> None:
    made(LAYERS, [COMMAND], SIZES).run(np.zeros(8192, np.uint8), np.zeros(8192, np.uint8))


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (8, 1, "cuts a number"),
        (8, 2, "inside a block"),
        (13, 1, "operand 0 begins inside a number"),
        (16, 1, "operand 0"),
        (20, 81, "operand 0 begins inside a number"),
        (21, 9, "operand 0 begins inside a number"),
        (19, 7, "operand 0 needs"),
        (33, 2050, "operand 2 begins inside a number"),
        (43, 1, "the output begins inside a number"),
        (50, 321, "the output begins inside a number"),
        (51, 33, "the output begins inside a number"),
    ],
)
def test_a_command_that_cuts_a_number_is_refused(at: int, value: int, why: str) -> None:
    part = [
        *COMMAND[:11],
        16,
        *COMMAND[12:20],
        80,
        8,
        *COMMAND[22:50],
        320,
        34,
    ]
    with pytest.raises(ValueError, match=f"command 1: .*({why})"):
        made(LAYERS, [COMMAND, changed(part, at, value)], SIZES)


def test_a_tile_of_half_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"command 0: .*cuts a number"):
        made(LAYERS, [changed(COMMAND, 11, 31)], SIZES)


@pytest.mark.parametrize(
    ("layer", "at", "value", "why"),
    [
        (CONV, 21, 3, "want 1 or 2"),
        (CONV, 22, 0, "want 1 or 2"),
        (changed(CONV, 21, 1), 22, 1, "no operand has numbers of two bytes|range"),
        (CONV, 3, 7, "do not divide into numbers"),
        (CONV, 6, 33, "do not divide into numbers"),
        (CONV, 16, 1, "x_zp is 1: want 0"),
        (CONV, 17, -1, "out_zp is -1: want 0"),
        (CONV, 18, -(2**15) - 1, "range"),
        (CONV, 19, 2**15, "range"),
        (CONV, 20, 1, "act: want 0"),
        (CONV, 15, 3, "groups"),
        (CONV, 11, 2**29, "2\\^28 bytes|2\\^30"),
        (CONV, 7, 2**25, "2\\^24 products"),
        (DEPTHWISE, 15, 8, "one group"),
        (ADD, 3, 8, "do not"),
        (ADD, 13, 1, "zp_a is 1: want 0"),
        (ADD, 20, 127 + 1, "range"),
        (ADD, 10, 3, "broadcast"),
        (LUT, 8, 128, "range"),
        (LUT, 3, 18, "different dims"),
        (REQUANTIZE, 10, 1, "out_zp is 1: want 0"),
        (REQUANTIZE, 7, 128, "zp is 128"),
        (POOL, 6, 10, "different channels"),
        (POOL, 18, 2, "zp is 2: want 0"),
    ],
)
def test_a_layer_is_refused_by_number_and_reason(layer: list[int], at: int, value: int, why: str) -> None:
    with pytest.raises(ValueError, match=f"layer 1: .*({why})"):
        made([CONV, changed(layer, at, value)], [], SIZES)


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damaged_rows_are_refused_or_run_inside_the_memories(data: st.DataObject) -> None:
    first = fuzz_rows(data.draw, CONV) if data.draw(st.booleans()) else CONV
    command = fuzz_rows(data.draw, COMMAND) if data.draw(st.booleans()) else COMMAND
    try:
        engine = made([first, *LAYERS[1:]], [command], SIZES, threads=1)
    except ValueError:
        return
    ext, ocm = guarded(8192), guarded(8192)
    engine.run(ext, ocm)
    for memory in (ext, ocm):
        assert memory.base is not None
        assert not memory.base[:8192].any()
        assert not memory.base[16384:].any()


@pytest.mark.parametrize("layer", range(len(LAYERS)))
def test_both_engines_refuse_the_same_layers(layer: int) -> None:
    random, differing = np.random.default_rng(layer), []
    for _ in range(200):
        row = list(LAYERS[layer])
        at = int(random.integers(1, len(row)))
        row[at] += int(random.choice([-2, -1, 1, 2, 7, 120, 2**24, 2**29, 2**31 - 2]))
        outcome = opened([row], [], SIZES)
        if outcome[0] != outcome[1]:
            differing.append((at, row[at], outcome))
    assert not differing


def test_both_engines_refuse_the_same_commands() -> None:
    random, differing = np.random.default_rng(5), []
    for _ in range(400):
        row = list(COMMAND)
        at = int(random.integers(len(row)))
        row[at] += int(random.integers(-9, 10))
        outcome = opened([CONV], [row], SIZES)
        if outcome[0] != outcome[1]:
            differing.append((at, row[at], outcome))
    assert not differing


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("at", [3, 4, 5])
def test_a_copy_to_a_place_before_the_tensor_is_refused(engine: str, at: int) -> None:
    to = [1, 0, *(0, 0, 0, 1, 1, 8), 8, 8]
    row = [3, 4, 0, 0, 1, 1, *(0, 0, 0, 1, 1, 8), 1, 64, *(0, 0, 0, 1, 1, 8), 8, 8]
    open_engine(engine, *ragged([CONV]), *ragged([row + to]), SIZES)
    with pytest.raises(ValueError, match="command 0"):
        open_engine(engine, *ragged([CONV]), *ragged([row + changed(to, at - 1, -2)]), SIZES)
