"""Sections as a page and as a document; the command that writes them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.validation import __main__ as command
from benchmarks.validation import page
from benchmarks.validation.chip import Constant, Section, chip_names, constants_of
from benchmarks.validation.rows import LeftOut, Row, Rule

GOOD = Row("convolutions", "conv1", "cycles", 1000.0, 1010.0, tolerance=0.03)
BAD = Row("convolutions", "conv2", "cycles", 1000.0, 1100.0, tolerance=0.03)
SECTION = Section(
    name="chip",
    title="A chip, as published",
    about="Somebody published it.",
    wrong=("It has no refresh of memory.",),
    rows=(GOOD, replace(GOOD, name="conv3"), replace(GOOD, name="conv4")),
    rules=(Rule("convolutions", "median error", 0.01, 0.1, unit="%"),),
    left_out=(LeftOut("conv1", "cycles", 1000.0, 950.0),),
    fitted=(Constant("costs.mac_drain", "3", "conv1"),),
    natural=(),
    facts=7,
    seconds=1.25,
)


def test_published_stands_beside_ours_with_error_and_verdict() -> None:
    assert "| conv1 | cycles | 1,000 | 1,010 | +1.0 % | ± 3 % | holds |" in page.section_text(SECTION)


def test_a_figure_that_does_not_hold_is_said_in_bold() -> None:
    assert "**does not hold**" in page.section_text(replace(SECTION, rows=(BAD,)))


def test_the_page_says_what_is_fitted_and_where_the_model_is_wrong() -> None:
    text = page.section_text(SECTION)
    assert "| `costs.mac_drain` | 3 | conv1 |" in text
    assert "- It has no refresh of memory." in text


def test_the_page_has_the_error_of_what_was_left_out() -> None:
    assert "| conv1 | cycles | 1,000 | 950 | -5.0 % |" in page.section_text(SECTION)


def test_a_long_set_is_folded_behind_its_median() -> None:
    rows = tuple(replace(GOOD, name=f"conv{at}") for at in range(page.LONG + 1))
    assert "<details><summary>25 figures: 25 of 25 hold, median error 1.0 %" in page.section_text(
        replace(SECTION, rows=rows)
    )


def test_the_page_has_no_time_of_this_machine() -> None:
    assert page.page([SECTION]) == page.page([replace(SECTION, seconds=99.0)])


def test_every_line_of_a_table_has_as_many_cells() -> None:
    for block in page.page([SECTION]).split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1, block


def test_one_fitted_constant_for_three_figures_is_enough() -> None:
    assert replace(SECTION, rules=()).sparing
    assert not replace(SECTION, rules=(), rows=SECTION.rows[:2]).sparing


def test_figures_that_follow_from_shapes_do_not_pay_for_constants() -> None:
    rows = tuple(replace(row, fixed=True) for row in SECTION.rows)
    assert replace(SECTION, rows=rows).matched == 1


def test_the_document_says_the_same_and_survives_json() -> None:
    made = json.loads(json.dumps(page.document([SECTION]), allow_nan=False))
    assert made["holds"] is True
    assert made["sections"][0]["rows"][0]["ours"] == 1010.0


def test_files_that_share_a_constant_have_it_once() -> None:
    both, one = constants_of(["qc-u-1d5-8mb", "qc-u-1d7-16mb"]), constants_of(["qc-u-1d5-8mb"])
    assert [c.path for c in both["fitted"]] == [c.path for c in one["fitted"]]


def test_constants_are_numbers_with_thousands_or_words() -> None:
    values = {c.path: c.value for kind in constants_of(["qc-u-1d5-8mb"]).values() for c in kind}
    assert values["external.read_bytes_per_s"] == "32,000,000,000"
    assert values["costs.window_shift"] == "0.65"
    assert values["memory.activations"] == "resident"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page written from one chip that takes no time."""
    monkeypatch.setattr(command, "run_chip", lambda name: replace(SECTION, name=name))
    where = tmp_path / "validation.md"
    assert command.main([], where) == 0
    return where


def test_a_page_of_this_run_passes_the_check(made: Path) -> None:
    assert command.main(["--check"], made) == 0


def test_a_stale_page_fails_the_check_and_is_left_alone(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stale = made.read_text().replace("1,010", "1,011")
    made.write_text(stale)
    assert command.main(["--check"], made) == 1
    assert "make validation" in capsys.readouterr().err
    assert made.read_text() == stale


def test_only_one_chip_is_printed_and_nothing_is_written(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made.write_text("as it was")
    assert command.main(["--only", chip_names()[0]], made) == 0
    assert "## A chip, as published" in capsys.readouterr().out
    assert made.read_text() == "as it was"


def test_one_chip_is_written_into_the_page_and_the_rest_stays() -> None:
    other = replace(SECTION, title="Another chip")
    before, after = ((SECTION, replace(other, rows=rows)) for rows in (SECTION.rows, (BAD,)))
    for order in (lambda pair: pair, lambda pair: pair[::-1]):
        assert page.updated(page.page(order(before)), after[1]) == page.page(order(after))


def test_a_chip_that_the_page_does_not_have_is_not_written_into_it() -> None:
    with pytest.raises(ValueError, match="no part 'Another chip'"):
        page.updated(page.page([SECTION]), replace(SECTION, title="Another chip"))


def test_only_and_update_write_the_page(made: Path) -> None:
    whole = made.read_text()
    made.write_text(whole.replace("1,010", "1,011"))
    names = [part for name in chip_names() for part in ("--only", name)]
    assert command.main([*names, "--update"], made) == 0
    assert "| conv1 | cycles | 1,000 | 1,010" in made.read_text()


def test_a_figure_that_does_not_hold_ends_in_exit_code_1(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run_chip", lambda name: replace(SECTION, rows=(BAD,)))
    assert command.main([], made) == 1


def test_an_unknown_chip_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(["--only", "nothing"])
    assert "chimera" in capsys.readouterr().err


@pytest.mark.slow
def test_the_page_in_docs_is_what_a_run_makes() -> None:
    assert command.main(["--check"]) == 0
