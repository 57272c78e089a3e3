"""Progress of long work: a bar on a terminal, lines elsewhere, each with its unit and the time that is left."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from axtool.cli import console
from axtool.cli.console import SURE_S, UNITS, Progress, time_left
from tests.conftest import Tiny
from tests.tiny import axtool

SOURCE = Path(console.__file__).parent.parent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """What stands for stderr from now on, to the end of the test."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return made


def plain(stderr: Terminal) -> str:
    """What was written without the codes of terminals."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stderr.getvalue())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test turns on."""
    now = [0.0]
    monkeypatch.setattr(console.time, "perf_counter", lambda: now[0])
    return now


def test_a_bar_tells_step_count_and_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = terminal(monkeypatch)
    with Progress().shown() as progress:
        progress.step("calibrating")
        progress.count(3, 32)
        progress._bar.refresh()
        progress.step("trying recipes")
        progress.count(1, 5)
        progress._bar.refresh()
    text = plain(stderr)
    assert re.search(r"calibrating .* 3/32 samples", text)
    assert re.search(r"trying recipes .* 1/5 recipes", text)
    assert "left" not in text  # no pace is known yet


def test_a_bar_tells_the_time_that_is_left_in_the_words_of_lines(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    stderr = terminal(monkeypatch)
    with Progress().shown() as progress:
        progress.step("calibrating")
        progress._bar.get_time = progress._bar.tasks[0]._get_time = lambda: clock[0]
        progress._bar.start_task(progress._task)
        for done in (0, 1, 2):
            progress.count(done, 32)
            clock[0] += 3
        progress._bar.refresh()
    assert re.search(r"calibrating .* 2/32 samples 1 min 30 s left", plain(stderr))


def test_the_time_left_of_a_stream_goes_by_the_rate_beside_it(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress().shown() as progress:
        progress.step("streaming")
        clock[0] += 60  # boards are opened
        progress.rate(50, 200, 10.0)
    assert capsys.readouterr().err == "streaming: 50/200 frames, 10.0 frames/s, 15 s left\n"


def test_the_total_of_one_step_does_not_stay_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch)
    with Progress().shown() as progress:
        progress.step("calibrating")
        progress.count(32, 32)
        progress.step("planning")
        (task,) = progress._bar.tasks
        assert (task.description, task.total, task.completed) == ("planning", None, 0)


def test_elsewhere_lines_tell_the_same(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Progress().shown() as progress:
        progress.step("calibrating")
        for done in range(1, 21):
            clock[0] += 7
            progress.count(done, 20)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "calibrating: 1/20 samples, 2 min 13 s left"
    assert lines[-1] == "calibrating: 20/20 samples"
    assert len(lines) == 11


@pytest.mark.parametrize("words", [{"quiet": True}, {"as_json": True}])
def test_nothing_is_shown_where_silence_or_a_document_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, bool]
) -> None:
    stderr = terminal(monkeypatch)
    with Progress(**words).shown() as progress:
        progress.step("calibrating")
        progress.count(3, 32)
    assert stderr.getvalue() == ""


def test_a_document_comes_without_progress(tiny_models: Tiny, work: Path) -> None:
    words = ("--calib", tiny_models / "data.npz", "--json")
    ran = axtool("compile", tiny_models / "cls.onnx", *words)
    assert (ran.code, "calibrating" in ran.err) == (0, False)


@pytest.mark.parametrize(
    ("elapsed", "done", "total", "text"),
    [
        (0.0, 0, 10, ""),
        (SURE_S / 2, 5, 10, ""),
        (5.0, 10, 10, ""),
        (5.0, 9, 10, "1 s"),
        (30.0, 1, 3, "1 min 0 s"),
        (59.0, 1, 2, "59 s"),
        (600.0, 1, 8, "1 h 10 min"),
    ],
)
def test_the_time_that_is_left_goes_by_the_pace_so_far(elapsed: float, done: int, total: int, text: str) -> None:
    assert time_left(elapsed, done, total) == text


def test_every_unit_is_of_a_step_that_there_is() -> None:
    source = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    assert [name for name in UNITS if f'.step("{name}")' not in source] == []
