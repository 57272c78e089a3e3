"""The table of optimisations: what each is worth, closed against the totals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from axtool.graph.front import Reading
from axtool.options import Options
from axtool.pass_table import PassTable, pass_table
from axtool.report.passes import passes_text
from tests.graph.pass_models import build, noise

F = np.float32
HALF = 'coordinate_transformation_mode = "half_pixel"'
# a stem of 7x7 by 4, two branches of it, one of them enlarged by 4, joined and fused by 1x1
BODY = (
    "s = Conv<strides = [4, 4], pads = [3, 3, 3, 3]>(x, stem) r = Relu(s)"
    " h = Conv<strides = [4, 4], pads = [1, 1, 1, 1]>(r, half)"
    f' u = Resize<mode = "linear", {HALF}>(h, , scales) j = Concat<axis = 1>(u, r) f = Conv(j, fuse)'
    " labels = ArgMax<axis = 1, keepdims = 0>(f)"
)
WEIGHTS: dict[str, Any] = {
    "stem": noise(8, 3, 7, 7, scale=0.1), "half": noise(24, 8, 3, 3, scale=0.1), "fuse": noise(4, 32, 1, 1, scale=0.1),
    "scales": np.asarray((1, 1, 4, 4), F),
}  # fmt: skip


class Silent:
    def step(self, name: str) -> None: ...
    def count(self, done: int, total: int) -> None: ...


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PassTable]:
    path = Path(tmp_path_factory.mktemp("model")) / "model.onnx"
    onnx.save(ir.to_proto(build(BODY, "float[1, 3, 128, 256] x", "int64 labels", **WEIGHTS)), path)
    return path, pass_table(path, Options(calib=("random:2",)), Silent())


def test_every_row_that_acts_saves_cycles(made: tuple[Path, PassTable]) -> None:
    acting = {row.name: row.cycles for row in made[1].worth.rows if row.cycles is not None}
    assert set(acting) == {
        "single-walk", "branches-in-place", "split-resize", "packed-space-to-depth",
        "fuse-before-upsample",
    }  # fmt: skip
    assert max(acting.values()) < 0


def test_the_second_phase_closes_and_the_first_nearly_does(made: tuple[Path, PassTable]) -> None:
    table = made[1].worth
    sums = [sum(row.cycles or 0 for row in table.rows if row.phase == phase) for phase in (1, 2)]
    assert sums[1] == table.final - table.composed
    assert sums[0] == pytest.approx(table.composed - table.base, rel=0.05)


def test_pixels_of_int8_are_stored_in_blocks_even_without_optimisations(made: tuple[Path, PassTable]) -> None:
    assert made[1].own == ("space-to-depth-stem",)


def test_the_agreement_of_labels_is_measured_before_and_after(made: tuple[Path, PassTable]) -> None:
    agreement = made[1].agreement
    assert agreement is not None
    assert agreement.unit == "% of labels"
    assert agreement.samples == 2
    assert min(agreement.before or 0, agreement.after or 0) > 80


def test_what_the_user_disables_is_no_row(made: tuple[Path, PassTable]) -> None:
    off = ("single-walk", "split-resize")
    table = pass_table(made[0], Options(calib=("random:2",), reading=Reading(disable=off)), Silent())
    assert not set(off) & {row.name for row in table.worth.rows}


def test_the_text_has_the_totals_and_the_agreement(made: tuple[Path, PassTable]) -> None:
    text = passes_text(made[1].to_dict())
    for number in (made[1].worth.base, made[1].worth.composed, made[1].worth.final):
        assert f"{number:,}" in text
    assert "% of labels" in text
    assert "bit-exact" in text
