"""`axtool run` over videos, folders and pictures: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from axtool.artefact import axm
from axtool.inputs.prepare import Preparation
from axtool.report.schemas import check_document
from axtool.runtime.cv import create_source
from tests.cli.test_cli_shell import MAIN, ROOT
from tests.conftest import Tiny
from tests.tiny import Ran, axtool
from tests.videos import frames_in, pictures, video

TASK = {"kind": "classification", "labels": [f"class {index}" for index in range(10)]}


@pytest.fixture(scope="module")
def given(tiny_models: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A classifier with a task, the same without, a video of 12 frames, another of 7, a folder of 3 pictures."""
    folder = tmp_path_factory.mktemp("streams")
    artefact = axm.read(tiny_models / "cls.axm")
    made = Preparation(resize="letterbox", color="RGB").to_dict()
    axm.write(folder / "task.axm", replace(artefact, task=TASK, preparation=made))
    return {
        "model": folder / "task.axm", "plain": tiny_models / "cls.axm", "video": video(folder / "a.mp4"),
        "other": video(folder / "b.mp4", 7), "folder": pictures(folder / "pictures"),
        "picture": folder / "pictures" / "0.png",
    }  # fmt: skip


def document(*words: object) -> dict[str, Any]:
    ran = axtool("run", *words, "--json")
    assert ran.code == 0, ran.err
    check_document(ran.document)
    return ran.document


def test_a_video_is_run_frame_by_frame(given: Mapping[str, Path]) -> None:
    found = document(given["model"], given["video"])
    (source,) = found["sources"]
    assert (found["frames"], source["frames"], source["kind"]) == (12, 12, "video")
    assert (source["size"], source["source_frames_per_s"], source["live"]) == ([64, 48], 30.0, False)
    assert sum(one["frames"] for one in source["found"]) == 12


def test_the_results_are_those_of_the_frames_one_by_one(given: Mapping[str, Path], work: Path) -> None:
    lines = results(given["model"], given["video"], "-o", "out.jsonl")
    for index, pixels in enumerate(frames_in(given["video"])):
        cv2.imwrite("frame.png", pixels[:, :, ::-1])
        alone = axtool("run", given["model"], "frame.png", "--json").document["result"]
        assert lines[index] == {"stream": 0, "source": str(given["video"]), "frame": index, "result": alone}


def results(*words: object) -> list[dict[str, Any]]:
    ran = axtool("run", *words, "-q")
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    "options",
    [
        ("--max-in-flight", "1"),
        ("--workers", "1"),
        ("--boards", "metis-pcie*2", "--devices", "1"),
        ("--boards", "metis-1core", "--realtime"),
        ("--engine", "reference", "--frames", "3"),
    ],
)
def test_the_results_do_not_depend_on_how_the_work_is_spread(
    given: Mapping[str, Path], work: Path, options: tuple[str, ...]
) -> None:
    plain = results(given["model"], given["video"], "-o", "out.jsonl")
    spread = results(given["model"], given["video"], "-o", "out.jsonl", "-f", *options)
    assert spread == plain[: len(spread)]
    assert len(spread) == (3 if "--frames" in options else 12)


def test_a_folder_is_a_stream_and_several_pictures_are_one(given: Mapping[str, Path]) -> None:
    (folder,) = document(given["model"], given["folder"])["sources"]
    assert (folder["frames"], folder["kind"], folder["source"]) == (3, "pictures", str(given["folder"]))
    (several,) = document(given["model"], given["picture"], given["folder"] / "2.png")["sources"]
    assert (several["frames"], several["source"]) == (2, "2 pictures")


def test_one_picture_is_a_single_run_unless_an_option_of_streams_is_given(given: Mapping[str, Path]) -> None:
    assert document(given["model"], given["picture"])["schema"] == "axtool.run/1"
    assert document(given["model"], given["picture"], "--show-stats")["schema"] == "axtool.run.stream/1"


def test_a_stream_ends_behind_the_frames_that_were_asked_for(given: Mapping[str, Path]) -> None:
    found = document(given["model"], given["video"], given["other"], "--frames", "4")
    assert [one["frames"] for one in found["sources"]] == [4, 4]


@pytest.mark.parametrize("order", ["as_available", "round_robin"])
def test_several_sources_have_a_row_each(given: Mapping[str, Path], order: str) -> None:
    found = document(given["model"], given["video"], given["other"], "--order", order)
    assert [one["frames"] for one in found["sources"]] == [12, 7]
    assert (found["frames"], found["order"]) == (19, order)
    text = axtool("run", given["model"], given["video"], given["other"]).out
    assert f"{given['model']}: 19 frames of 2 sources in " in text
    assert sum(line.startswith(str(given["video"].parent)) for line in text.splitlines()) == 3


def test_operators_are_one_row_for_all_sources(given: Mapping[str, Path]) -> None:
    found = document(given["model"], given["video"], given["other"])
    names = [row["operator"] for row in found["operators"]]
    assert len(names) == len(set(names))
    calls = {row["operator"]: row["calls"] for row in found["operators"]}
    assert calls["Interpret"] == calls["source_pull"] == 19


def test_operators_are_told_of_the_frames_behind_the_first_full_window(given: Mapping[str, Path]) -> None:
    options = (given["model"], given["video"], "--max-in-flight", "4")
    found = document(*options)
    assert (found["frames"], found["operators_frames"]) == (12, 8)
    calls = {row["operator"]: row["calls"] for row in found["operators"]}
    assert (calls["source_pull"], calls["AxRuntimeModel"], calls["Interpret"]) == (12, 8, 8)
    (device,) = (row for row in found["operators"] if row["where"] == "device")
    expected = len(found["cores"]) * device["effective_frames_per_s_measured"]
    assert found["rates"]["device_frames_per_s_measured"] == pytest.approx(expected)
    text = axtool("run", *options, "--show-stats").out
    assert "operators, a call of the 8 frames behind the first full window, measured:" in text


def test_the_statistics_are_asked_for(given: Mapping[str, Path]) -> None:
    short = axtool("run", given["model"], given["video"]).out
    full = axtool("run", given["model"], given["video"], "--show-stats").out
    for part in ("effective FPS", "device:", "host:", "latency: p50", "processor:"):
        assert part in full
        assert part not in short
    for text in (short, full):
        assert "system: " in text
        assert "frames/s" in text
        assert "measured" in text


def test_the_device_is_told_as_modelled_and_as_measured(given: Mapping[str, Path]) -> None:
    found = document(given["model"], given["video"], "--boards", "metis-pcie*2")
    rates = found["rates"]
    assert rates["device_frames_per_s_modelled"] > 0
    assert rates["device_frames_per_s_measured"] > 0
    assert [board["name"] for board in found["boards"]] == ["metis-0:1:0", "metis-0:2:0"]
    assert sum(core["frames"] for core in found["cores"]) == 12
    each = [core["modelled_ms_per_frame"] for core in found["cores"] if core["frames"]]
    assert rates["device_frames_per_s_modelled"] == pytest.approx(1e3 * len(found["cores"]) / each[0])
    text = axtool("run", given["model"], given["video"], "--show-stats").out
    assert "on 4 cores of metis-0:1:0, modelled" in text
    assert "here, simulated, measured" in text


def test_the_device_row_is_what_its_cores_were_taken_and_the_wait_stands_apart(given: Mapping[str, Path]) -> None:
    rows = {row["operator"]: row for row in document(given["model"], given["video"])["operators"]}
    assert (rows["AxRuntimeModel"]["where"], rows["wait for a core"]["where"]) == ("device", "wait")
    assert rows["wait for a core"]["calls"] == 12
    assert rows["wait for a core"]["us_measured"]["p99"] is None


def test_a_replay_is_told_as_one(given: Mapping[str, Path]) -> None:
    found = document(given["model"], given["video"], "--replay")
    assert (found["replay"], found["realtime"]) == (True, False)
    assert "here, replayed, measured" in axtool("run", given["model"], given["video"], "--replay", "--show-stats").out


# ---- what is written


def test_a_saved_video_has_the_frames_the_rate_and_the_drawing(given: Mapping[str, Path], work: Path) -> None:
    ran = axtool("run", given["model"], given["video"], "--save", "out.mp4")
    assert (ran.code, ran.err) == (0, "wrote out.mp4\n")
    frames = frames_in(Path("out.mp4"))
    with create_source("out.mp4") as source:
        assert source.fps == 30
    assert len(frames) == 12
    assert frames[0].shape == (384, 512, 3)  # small pictures are enlarged, so that labels can be read
    plain = cv2.resize(frames_in(given["video"])[0], (512, 384), interpolation=cv2.INTER_NEAREST).astype(int)
    changed = np.abs(plain - frames[0]).max(2) > 60
    assert changed[:20, :100].mean() > 0.5  # the label in the corner
    assert changed[100:, 200:].mean() < 0.02


def test_several_videos_go_into_a_folder_or_under_a_pattern(given: Mapping[str, Path], work: Path) -> None:
    both = (given["model"], given["video"], given["other"], "--frames", "2", "-q")
    assert axtool("run", *both, "--save", "found").code == 0
    assert axtool("run", *both, "--save", "seen-{name}.mp4").code == 0
    assert axtool("run", *both, "--save", "number-{index}.mkv").code == 0
    names = sorted(str(path.relative_to(work)) for path in work.rglob("*") if path.is_file())
    assert names == ["found/a.mp4", "found/b.mp4", "number-0.mkv", "number-1.mkv", "seen-a.mp4", "seen-b.mp4"]
    for name in names:
        assert len(frames_in(Path(name))) == 2


def test_pictures_are_saved_into_a_folder_by_their_names(given: Mapping[str, Path], work: Path) -> None:
    assert axtool("run", given["model"], given["folder"], "--save", "found", "-q").code == 0
    assert sorted(path.name for path in Path("found").iterdir()) == ["0.png", "1.png", "2.png"]
    assert axtool("run", given["model"], given["folder"], "--save", "found", "-q").code == 2
    assert axtool("run", given["model"], given["folder"], "--save", "found", "-q", "--force").code == 0
    assert axtool("run", given["model"], given["folder"], "--save", "out.mp4", "-q").code == 0
    assert len(frames_in(Path("out.mp4"))) == 3


def test_a_trace_has_a_lane_for_every_thread_and_every_core(given: Mapping[str, Path], work: Path) -> None:
    assert axtool("run", given["model"], given["video"], given["other"], "--trace", "t.json", "-q").code == 0
    trace = json.loads(Path("t.json").read_text())
    lanes = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [lanes[2, number] for number in range(1, 5)] == [f"metis-0:1:0/{core}" for core in range(4)]
    assert {(span["pid"], span["tid"]) for span in spans} <= set(lanes)
    assert any("worker" in name for (process, _), name in lanes.items() if process == 1)
    assert sum(span["name"] == "Interpret" for span in spans) == 19
    frames = [span["args"]["frame"] for span in spans if span["name"] == "Interpret" and span["args"]["stream"] == 1]
    assert sorted(frames) == list(range(7))
    for span in spans:
        assert span["ts"] >= 0
        assert span["dur"] >= 0
    on_cores = [span for span in spans if span["cat"] == "core"]
    assert len(on_cores) == 19
    assert all(span["args"]["modelled_us"] > 0 for span in on_cores)


def test_a_json_run_says_nothing_else(given: Mapping[str, Path], work: Path) -> None:
    ran = axtool("run", given["model"], given["video"], "--save", "out.mp4", "--json", "--quiet")
    assert ran.err == ""
    assert ran.document["sources"][0]["saved"] == "out.mp4"


# ---- what is refused


REFUSED: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "an unknown board": (("{video}", "--boards", "metis-pci"), "unknown-board", "metis-pcie"),
    "an unknown device": (("{video}", "--devices", "7"), "unknown-device", "metis-0:1:0"),
    "an order of no kind": (("{video}", "--order", "fifo"), "bad-option", "as_available"),
    "no frames": (("{video}", "--frames", "0"), "usage", "--frames"),
    "no workers": (("{video}", "--workers", "0"), "usage", "--workers"),
    "the float engine": (("{video}", "--engine", "float"), "bad-option", "float"),
    "arrays": (("x.npy", "--show-stats"), "not-a-stream", "arrays"),
    "a missing video": (("no.mp4",), "file-not-found", "no.mp4"),
    "a missing picture": (("{picture}", "no.png"), "file-not-found", "no.png"),
    "a file that is no video": (("text.mp4",), "cannot-read", "text.mp4"),
    "a folder without pictures": ((".",), "no-pictures", "folder"),
    "an address of no kind": (("gopher://here/a",), "cannot-read", "gopher"),
    "a video of no kind": (("{video}", "--save", "out.gif"), "bad-option", ".mp4"),
    "one video for two sources": (("{video}", "{other}", "--save", "out.mp4"), "bad-option", "{name}"),
    "one name for two sources": (("{video}", "{video}", "--save", "{name}.mp4"), "bad-option", "{index}"),
    "one picture for three": (("{folder}", "--save", "out.png"), "bad-option", "folder"),
    "lines of no kind": (("{video}", "-o", "out.npz"), "bad-option", ".jsonl"),
    "an existing video": (("{video}", "--save", "there.mp4"), "output-exists", "--force"),
    "an existing trace": (("{video}", "--trace", "there.mp4"), "output-exists", "--force"),
    "the source as output": (("{video}", "--save", "{video}", "-f"), "output-is-input", "a.mp4"),
    "the source with a pace as output": (("{video}@30", "--save", "{video}", "-f"), "output-is-input", "a.mp4"),
    "the source with a pace as trace": (("{video}@30", "--trace", "{video}", "-f"), "output-is-input", "a.mp4"),
    "its own pictures as output": (("{folder}", "--save", "{folder}", "-f"), "output-is-input", "0.png"),
    "two outputs of one name": (("{video}", "--out", "x.jsonl", "--trace", "./x.jsonl"), "bad-option", "x.jsonl"),
    "a folder that is not there": (("{video}", "--save", "no/out.mp4"), "no-such-folder", "no"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_before_anything_is_written(given: Mapping[str, Path], work: Path, name: str) -> None:
    words, code, said = REFUSED[name]
    np.save("x.npy", np.zeros((1, 3, 16, 16), np.float32))
    Path("text.mp4").write_text("no video at all" * 100)
    Path("there.mp4").write_text("mine")
    before = {path.name: path.read_bytes() for path in work.iterdir()}
    named = {key: str(path) for key, path in given.items()}
    ran = axtool("run", given["model"], *(filled(word, named) for word in words), "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, code), ran.err
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert {path.name: path.read_bytes() for path in work.iterdir()} == before


def filled(word: str, named: Mapping[str, str]) -> str:
    return word.format_map({"name": "{name}", "index": "{index}", **named})


def test_a_model_without_a_task_runs_but_has_nothing_to_draw(given: Mapping[str, Path], work: Path) -> None:
    found = document(given["plain"], given["video"])
    assert found["sources"][0]["found"] == []
    ran = axtool("run", given["plain"], given["video"], "--save", "out.mp4", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "nothing-to-draw")
    assert list(work.iterdir()) == []


def test_a_float_model_is_to_be_compiled_first(tiny_models: Tiny, given: Mapping[str, Path]) -> None:
    ran = axtool("run", tiny_models / "cls.onnx", given["video"])
    assert (ran.code, "axtool compile" in ran.err) == (2, True)


def test_a_picture_that_is_none_ends_the_run_and_leaves_nothing(given: Mapping[str, Path], work: Path) -> None:
    folder = pictures(work / "in", 3)
    (folder / "1.png").write_bytes(b"no picture")
    ran = axtool("run", given["model"], folder, "--save", "found", "--json")
    assert ran.code == 2
    assert "1.png" in ran.document["error"]["message"]
    assert [path.name for path in work.rglob("*.png") if path.parent.name == "found"] == []
    ran = axtool("run", given["model"], folder, "-o", "out.jsonl")
    assert ran.code == 2
    assert sorted(path.name for path in work.iterdir() if path.is_file()) == []


# ---- as a shell sees it


def process(*words: object, **more: Any) -> subprocess.Popen[str]:
    heard = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {MAIN}"
    return subprocess.Popen(
        [sys.executable, "-c", heard, "run", *map(str, words)], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}, **more,
    )  # fmt: skip


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_stream_with_a_playable_video_and_a_document(
    given: Mapping[str, Path], work: Path, number: int, code: int
) -> None:
    slow = video(work / "slow.mp4", 400)
    running = process(given["model"], f"{slow}@20", "--save", "out.mp4", "-o", "out.jsonl", "--json")
    assert running.stdout is not None
    wait_for(work)
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    found = Ran(running.returncode, out, err).document
    check_document(found)
    assert (running.returncode, found["status"], err) == (code, "interrupted", "wrote out.mp4\nwrote out.jsonl\n")
    assert 0 < found["frames"] < 400
    assert len(frames_in(work / "out.mp4")) == found["frames"] == len(Path("out.jsonl").read_text().splitlines())
    assert sorted(path.name for path in work.iterdir()) == ["out.jsonl", "out.mp4", "slow.mp4"]


def wait_for(folder: Path) -> None:
    """Until a video has been begun and frames are in it."""
    import time

    until = time.monotonic() + 60
    while not any(path.name.startswith(".axtool-") and path.suffix == ".mp4" for path in folder.iterdir()):
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.5)


def test_a_reader_that_left_is_no_error(given: Mapping[str, Path]) -> None:
    running = process(given["model"], given["video"], "--show-stats")
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    with running.stderr as stderr:
        assert stderr.read() == ""
    assert running.wait(60) == 0


def test_the_progress_is_told_in_lines_where_there_is_no_terminal(
    given: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("axtool.cli.console.RATE_S", 0.0)
    ran = axtool("run", given["model"], f"{given['video']}@60")
    assert "streaming: " in ran.err
    assert "/12 frames, " in ran.err
    assert "frames/s" in ran.err
    assert axtool("run", given["model"], given["video"], "-q").err == ""


PREPARE = """import numpy as np
def half(image):
    return np.zeros((1, 3, 8, 8), np.float32)
def fails(image):
    raise ValueError("not today")
def dark(image):
    return np.zeros((3, 16, 16), np.float32)
"""


@pytest.mark.parametrize(
    ("function", "said"),
    [("half", "gives [1, 3, 8, 8], the model wants [1, 3, 16, 16]"), ("fails", "ValueError: not today")],
)
def test_a_preparation_of_ones_own_that_fails_is_told_with_its_frame(
    given: Mapping[str, Path], work: Path, function: str, said: str
) -> None:
    Path("own.py").write_text(PREPARE)
    ran = axtool("run", given["model"], given["video"], "--preprocess", f"own.py:{function}", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "preprocess"), ran.err
    assert "frame 0" in ran.err
    assert said in ran.err


def test_a_preparation_of_ones_own_makes_the_input(given: Mapping[str, Path], work: Path) -> None:
    Path("own.py").write_text(PREPARE)
    found = results(given["model"], given["video"], "-o", "out.jsonl", "--preprocess", "own.py:dark")
    assert len({json.dumps(line["result"]) for line in found}) == 1


@pytest.mark.parametrize("kernel", ["UltralyticsYoloPostamble,num_classes=80", "kernel=nowhere:Kernel"])
def test_a_kernel_that_does_not_fit_is_refused(given: Mapping[str, Path], kernel: str) -> None:
    ran = axtool("run", given["model"], given["video"], "--postamble", kernel, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "bad-postamble"), ran.err


def test_many_cores_are_told_board_by_board(given: Mapping[str, Path]) -> None:
    few = axtool("run", given["model"], given["video"], "--boards", "metis-pcie*4", "--show-stats").out
    many = axtool("run", given["model"], given["video"], "--boards", "metis-pcie*5", "--show-stats").out
    assert sum(line.startswith("metis-0:") for line in few.splitlines()) == 16
    assert sum(line.startswith("metis-0:") for line in many.splitlines()) == 5
    assert "on 20 cores of 5 boards, modelled" in many
