"""What a stream says: on a terminal, of a pace that is not kept, and of words that it cannot take."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from axtool.report.stream import stream_text
from tests.conftest import Tiny
from tests.tiny import axtool
from tests.videos import pictures, video


def test_statistics_fit_a_terminal(tiny_models: Tiny, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    video(Path("a.mp4"))
    text = axtool("run", tiny_models / "cls.axm", "a.mp4", "--show-stats", "--boards", "metis-pcie*2").out
    below = text.partition("\n\n")[2]  # the title has the whole path of the model
    assert max(map(len, below.splitlines())) <= 80
    assert re.search(r"^device: .*\n {8}\S", below, re.MULTILINE)


def test_cores_that_cannot_keep_the_modelled_pace_are_not_told_as_keeping_it() -> None:
    document = stream_document_of(device_modelled=1000.0, device_measured=400.0)
    assert "400.0 frames/s here, simulated but slower than modelled, measured" in stream_text(document, stats=True)
    document = stream_document_of(device_modelled=1000.0, device_measured=980.0)
    assert "980.0 frames/s here, simulated at the modelled pace, measured" in stream_text(document, stats=True)


def stream_document_of(*, device_modelled: float, device_measured: float) -> dict[str, Any]:
    """What the text of a run with --realtime is made of."""
    rates = {
        "device_frames_per_s_modelled": device_modelled, "device_frames_per_s_measured": device_measured,
        "host_frames_per_s_measured": 100.0, "system_frames_per_s_measured": 90.0,
    }  # fmt: skip
    return {
        "model": "m.axm", "status": "ok", "frames": 9, "operators_frames": 9, "seconds_measured": 0.1, "sources": [],
        "operators": [], "cores": [], "boards": [], "rates": rates, "replay": False, "realtime": True, "workers": 1,
        "max_in_flight": 1, "process": {"cpu_ms_per_frame_measured": None},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--repeat", "3"), "--repeat is for a single input, not for a stream"),
        (("-o", "out.npz"), "--out out.npz: the results of a stream are lines of .jsonl"),
    ],
)
def test_an_option_of_a_single_input_is_refused_for_a_stream(
    tiny_models: Tiny, work: Path, words: tuple[str, ...], error: str
) -> None:
    ran = axtool("run", tiny_models / "cls.axm", video(Path("a.mp4")), *words)
    assert (ran.code, error in ran.err) == (2, True)


def test_a_pace_that_is_none_is_answered_with_what_one_is(tiny_models: Tiny, work: Path) -> None:
    ran = axtool("run", tiny_models / "cls.axm", f"{video(Path('a.mp4'))}@fast")
    assert ran.code == 2
    assert "behind the @ stands how many frames a second" in ran.err


def test_a_folder_of_pictures_takes_a_pace(tiny_models: Tiny, work: Path) -> None:
    pictures(Path("folder"))
    ran = axtool("run", tiny_models / "cls.axm", "folder@100")
    assert (ran.code, "3 frames of 1 source" in ran.out) == (0, True), ran.err


def test_a_stream_of_nothing_is_answered(tiny_models: Tiny) -> None:
    ran = axtool("run", tiny_models / "cls.axm", "--frames", "4")
    assert (ran.code, "no input is given [missing-input]" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("in_flight", "said"),
    [("1", "with one frame after the other in one thread"), ("2", "workers and up to 2 frames in flight a source")],
)
def test_who_works_on_the_frames_is_said(tiny_models: Tiny, work: Path, in_flight: str, said: str) -> None:
    words = ("--show-stats", "--max-in-flight", in_flight)
    assert said in axtool("run", tiny_models / "cls.axm", video(Path("a.mp4")), *words).out


def test_a_named_input_is_answered_with_what_a_stream_takes(tiny_models: Tiny, work: Path) -> None:
    ran = axtool("run", tiny_models / "cls.axm", f"x={video(Path('a.mp4'))}", "--frames", "4")
    assert (ran.code, "hint: say a.mp4: it feeds the one input" in ran.err) == (2, True)


def test_lines_of_one_picture_are_a_stream_of_it(tiny_models: Tiny, work: Path) -> None:
    pictures(Path("folder"), 1)
    ran = axtool("run", tiny_models / "cls.axm", Path("folder/0.png"), "-o", "lines.jsonl")
    assert (ran.code, len(Path("lines.jsonl").read_text().splitlines())) == (0, 1), ran.err


def test_replayed_results_are_told_as_those_of_other_frames(tiny_models: Tiny, work: Path) -> None:
    words = ("run", tiny_models / "cls.axm", video(Path("a.mp4")))
    ran = axtool(*words, "--replay", "-o", "lines.jsonl")
    assert "outputs are replayed: what was found is in other frames" in ran.out
    assert "warning: outputs are replayed: what is saved is not what is in the frames" in ran.err
    assert "replayed" not in axtool(*words, "-o", "more.jsonl").err
    assert "replayed" not in axtool(*words, "--replay").err  # nothing is saved
