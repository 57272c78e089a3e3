"""Rows that come from anywhere: the native engine says which one is wrong and why, and never touches other memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from axtool.ops.encoding import OPCODES, ragged
from axtool.sim.engine import Tap, open_engine
from axtool.types import Tile, View

native = pytest.importorskip("axtool.native._native")

SIZES = {"ext": 4096, "ocm": 4096}
CONV = [OPCODES["conv"], 8, 8, 4, 8, 8, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, 0, -128, 127, 0]
ADD = [OPCODES["add"], 4, 4, 8, 4, 4, 8, *(4, 4, 8), *(4, 4, 8), 0, 1 << 30, 31, 0, 1 << 30, 31, 0, -128, 127, 0]
CONV_COMMAND = [0, 0, 0, 0, 3, 1, *(0, 0, 0, 8, 8, 16)]
CONV_COMMAND += [0, 0, *(0, 0, 0, 8, 8, 4), 32, 4]  # x
CONV_COMMAND += [0, 1024, *(0, 0, 0, 1, 1, 576), 576, 576]  # weights
CONV_COMMAND += [0, 2048, *(0, 0, 0, 1, 1, 256), 256, 256]  # params
CONV_COMMAND += [1, 0, *(0, 0, 0, 8, 8, 16), 128, 16]  # y
COPY = [1, 2, 0, 0, 1, 1, *(0, 0, 0, 1, 1, 64), *(0, 0, 0, 0, 0, 1, 1, 64, 64, 64), *(1, 0, 0, 0, 0, 1, 1, 64, 64, 64)]


def opened(layers: list[list[int]], commands: list[list[int]], sizes: dict[str, int] = SIZES) -> list[bool]:
    """Whether the reference and the native engine accept these rows."""
    outcome = []
    for name in ("reference", "native"):
        try:
            open_engine(name, *ragged(layers), *ragged(commands), sizes)
            outcome.append(True)
        except ValueError:
            outcome.append(False)
    return outcome


def made(layers: list[list[int]], commands: list[list[int]], sizes: dict[str, int] = SIZES, **options: Any) -> Any:
    return native.Engine(*ragged(layers), *ragged(commands), sizes, **options)


def changed(row: list[int], at: int, value: int) -> list[int]:
    return [*row[:at], value, *row[at + 1 :]]


def test_the_rows_of_these_tests_run() -> None:
    made([CONV, ADD], [COPY, CONV_COMMAND]).run(np.zeros(4096, np.uint8), np.zeros(4096, np.uint8))


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (2, 1, "layer 1 does not exist"),
        (4, 2, "not|integers"),
        (6, 1, "not in the output"),
        (9, 9, "not in the output"),
        (13, 4000, "leave ext"),
        (13, -1, "offset"),
        (17, 7, "operand 0 needs"),
        (20, 10**12, "stride"),
        (23, 3600, "leave ext"),
        (29, 512, "operand 1 needs"),
        (33, 2049, "inside a number"),
        (42, 2, "memory 2 does not exist"),
        (43, 4090, "leave ocm"),
        (50, 0, "overlaps itself"),
        (51, 15, "overlaps itself"),
    ],
)
def test_a_command_is_refused_by_number_and_reason(at: int, value: int, why: str) -> None:
    with pytest.raises(ValueError, match=f"command 1: .*({why})"):
        made([CONV], [COPY, changed(CONV_COMMAND, at, value)])


@pytest.mark.parametrize("at", [*range(7, 13), *range(15, 20)])  # a pad may be negative
@pytest.mark.parametrize("value", [-(2**31), 2**31 - 1, 2**40, -(2**63)])
def test_absurd_numbers_of_a_layer_are_refused(at: int, value: int) -> None:
    with pytest.raises(ValueError, match="layer 0"):
        made([changed(CONV, at, value)], [])


def test_zero_strides_and_groups_do_not_divide() -> None:
    for at in (9, 10, 11, 12, 15):
        with pytest.raises(ValueError, match="layer 0"):
            made([changed(CONV, at, 0)], [])


def test_offsets_that_do_not_cut_the_values_are_refused() -> None:
    values, offsets = ragged([CONV])
    for wrong in ([0, 5], [1, len(CONV)], [0, 9, 5, len(CONV)], []):
        with pytest.raises(ValueError, match="layer: offsets do not cut"):
            native.Engine(values, np.array(wrong, np.int64), np.zeros(0, np.int64), np.zeros(1, np.int64), SIZES)
    assert len(offsets) == 2


def test_memories_that_are_too_short_are_refused() -> None:
    with pytest.raises(ValueError, match="ocm has 100 bytes, the commands need 4096"):
        made([CONV], [COPY]).run(np.zeros(4096, np.uint8), np.zeros(100, np.uint8))


@pytest.mark.parametrize(
    ("after", "offset", "shape"), [(1, 0, (1, 1, 64)), (-1, 0, (1, 1, 64)), (0, 4090, (1, 1, 64)), (0, 0, (1, 64, 1))]
)
def test_taps_that_do_not_fit_are_refused(after: int, offset: int, shape: tuple[int, int, int]) -> None:
    tap = Tap(after, View("ext", offset, Tile(0, 0, 0, 1, 1, 64), 64, 64), np.zeros(shape, np.uint8))
    with pytest.raises(ValueError, match="tap"):
        made([CONV], [COPY]).run(np.zeros(4096, np.uint8), np.zeros(4096, np.uint8), [tap])


def test_an_unknown_instruction_set_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="isa 'mmx' does not exist on this CPU; there are auto, portable"):
        made([CONV], [], isa="mmx")


def test_a_missing_constant_is_found_in_the_run() -> None:
    pool = [OPCODES["avg_pool"], 2, 2, 8, 1, 1, 8, *(2, 2), *(1, 1), *(1, 1), *(0, 0), *(0, 0), 0, 0, 0, -128, 127]
    command = [0, 1, 0, 0, 2, 1, 0, 0, 0, 1, 1, 8, *(0, 0, 0, 0, 0, 2, 2, 8, 16, 8)]
    command += [*(0, 64, 0, 0, 0, 1, 1, 12, 12, 12), *(1, 0, 0, 0, 0, 1, 1, 8, 8, 8)]
    engine = made([pool], [COPY, command], threads=2)
    with pytest.raises(ValueError, match="command 1: avg_pool has no constant for windows of 4 cells"):
        engine.run(np.zeros(4096, np.uint8), np.zeros(4096, np.uint8))


def fuzz_rows(draw: Any, good: list[int]) -> list[int]:
    row = list(good)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(row) - 1))
        near = st.integers(row[at] - 70, row[at] + 70)
        row[at] = draw(st.one_of(near, st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 1, 2**23, 2**31, 2**38])))
    if draw(st.integers(0, 9)) == 0:
        row = row[: draw(st.integers(0, len(row)))]
    return row


@settings(max_examples=500, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damaged_rows_are_refused_or_run_inside_the_memories(data: st.DataObject) -> None:
    damage_layer = data.draw(st.integers(0, 3)) == 0
    layer = fuzz_rows(data.draw, CONV) if damage_layer else CONV
    command = CONV_COMMAND if damage_layer and data.draw(st.booleans()) else fuzz_rows(data.draw, CONV_COMMAND)
    rows = (*ragged([layer, ADD]), *ragged([fuzz_rows(data.draw, COPY) if data.draw(st.booleans()) else COPY, command]))
    try:
        engine = native.Engine(*rows, SIZES, threads=1)
    except ValueError:
        return
    ext, ocm = guarded(4096), guarded(4096)
    engine.run(ext, ocm)
    for memory in (ext, ocm):
        assert memory.base is not None
        assert not memory.base[:4096].any()
        assert not memory.base[8192:].any()


def guarded(size: int) -> NDArray[np.uint8]:
    """A memory with zeros on both sides, which must stay zero."""
    everything = np.zeros(size * 3, np.uint8)
    everything[size : 2 * size] = np.random.default_rng(size).integers(0, 256, size)
    return everything[size : 2 * size]


def test_both_engines_refuse_the_same_damage() -> None:
    random, differing = np.random.default_rng(5), []
    for _ in range(400):
        row = list(CONV_COMMAND)
        at = int(random.integers(len(row)))
        row[at] += int(random.integers(-9, 10))
        outcome = opened([CONV], [row])
        if outcome[0] != outcome[1]:
            differing.append((at, row[at], outcome))
    assert not [d for d in differing if d[2] == [False, True]], differing  # ours may be the stricter: alignment
