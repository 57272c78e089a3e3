"""NVDLA: what was published of ResNet-50 beside ours, and the designs that the sizes stand for."""

from __future__ import annotations

from functools import cache

import pytest

from axtool.target_file import load_target
from benchmarks.validation import nvdla
from benchmarks.validation.rows import Row, median_error, total_error

FRAME_CYCLES = 7_113_691  # the sum that the spreadsheet prints


@cache
def layers() -> tuple[Row, ...]:
    return tuple(nvdla.layer_rows())


def test_the_lines_of_the_sheet_add_up_to_its_sum():
    assert sum(line.cycles for line in nvdla.sheet()) == FRAME_CYCLES


def test_a_line_of_the_sheet_takes_as_long_as_its_macs_or_its_traffic():
    assert all(line.cycles == pytest.approx(max(line.mac_cycles, 100 * line.dram_kb), abs=1) for line in nvdla.sheet())


def test_half_of_the_layers_are_within_a_tenth():
    assert median_error(layers()) <= 0.10


def test_a_frame_takes_as_many_cycles_as_the_sheet_says():
    assert abs(total_error(layers())) <= 0.05


def test_every_layer_of_the_network_is_in_one_line_of_the_sheet():
    timing = nvdla.time_plan(nvdla.network(), load_target(nvdla.TARGET))
    groups = nvdla.lines_of(timing.layers)
    assert len(groups) == len(nvdla.sheet()) == 54
    assert sorted(layer.index for group in groups for layer in group) == [layer.index for layer in timing.layers]


@pytest.mark.parametrize(
    ("macs", "size"),
    [(2048, (64, 32)), (1024, (64, 16)), (512, (32, 16)), (256, (32, 8)), (128, (16, 8)), (64, (16, 4)), (32, (8, 4))],
)
def test_the_atoms_of_a_smaller_design_are_halved_in_turn(macs: int, size: tuple[int, int]):
    assert nvdla.atoms(macs) == size


def test_a_design_between_two_sizes_is_refused():
    with pytest.raises(ValueError, match="want 2048 halved"):
        nvdla.atoms(1000)


def test_the_largest_design_is_the_target_with_the_bandwidth_of_the_table():
    chip, large = nvdla.design(2048, 512, 10), load_target(nvdla.TARGET)
    assert (chip.array, chip.memory, chip.external) == (large.array, large.memory, large.external)


def test_only_the_largest_design_has_winograd():
    assert [nvdla.design(macs, 256, 5).array.winograd for macs in (2048, 1024, 32)] == [2.25, 1, 1]


def test_no_constant_of_the_chip_is_fitted():
    assert not any(text.startswith("fitted") for text in load_target(nvdla.TARGET).provenance.values())


@pytest.mark.slow
def test_each_size_of_the_design_is_within_15_percent():
    sizes = nvdla.size_rows()
    assert len(sizes) == 7
    assert {row.name: row.error for row in sizes if not row.holds} == {}
