"""Pipes where files are wanted: refused at once, for a pipe that nobody writes to never opens."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axtool.artefact.axm import is_axm
from axtool.cli.task import labels_of
from axtool.config import is_special
from axtool.errors import Exit, UsageError
from tests.conftest import Tiny
from tests.tiny import axtool, axzoo

CALIB = ("--calib", "random:2")
WORDS: dict[str, tuple[str, ...]] = {
    "a model to compile": ("compile", "PIPE.onnx", *CALIB),
    "a model to run": ("run", "PIPE.axm", "x.npy"),
    "a model to profile": ("profile", "PIPE.axm"),
    "a model to look at": ("info", "PIPE.axm"),
    "a calibration array": ("compile", "MODEL", "--calib", "PIPE.npz"),
    "a calibration picture": ("compile", "MODEL", "--calib", "PIPE.png"),
    "ranges": ("compile", "MODEL", "--ranges", "PIPE.json"),
    "a chip": ("compile", "MODEL", *CALIB, "--target", "PIPE.yaml"),
    "a function": ("compile", "MODEL", *CALIB, "--preprocess", "PIPE.py:f"),
    "an input array": ("run", "AXM", "PIPE.npy"),
    "an input picture": ("run", "AXM", "PIPE.png"),
    "a named input": ("run", "AXM", "--input", "x=PIPE.npy"),
    "the source to compare with": ("verify", "AXM", "--against", "PIPE.onnx", "--data", "random:2"),
    "data to compare over": ("verify", "AXM", "--against", "MODEL", "--data", "PIPE.npz"),
    "an output that exists": ("compile", "MODEL", *CALIB, "--force", "-o", "PIPE.axm"),
    "ranges to save": ("compile", "MODEL", *CALIB, "--force", "-o", "o.axm", "--save-ranges", "PIPE.json"),
    "arrays to save": ("run", "AXM", "x.npy", "--force", "--out", "PIPE.npz"),
}


@pytest.fixture(autouse=True)
def _impatient() -> Iterator[None]:
    """An open that hangs fails its test."""

    def hangs(*_: Any) -> None:
        pytest.fail("it waits for the pipe")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("what", WORDS)
def test_a_pipe_is_no(what: str, tiny_models: Tiny, work: Path) -> None:
    (work / "x.npy").write_bytes((tiny_models / "x.npy").read_bytes())
    places = {"MODEL": str(tiny_models / "cls.onnx"), "AXM": str(tiny_models / "cls.axm")}
    words = [places.get(word, word) for word in WORDS[what]]
    pipe = next(word for word in words if "PIPE" in word).removeprefix("x=").removesuffix(":f")
    os.mkfifo(pipe)
    ran = axtool(*words, "--json")
    assert (ran.code, ran.document["error"]["code"]) in {
        (Exit.USAGE, "not-a-file"), (Exit.USAGE, "output-is-special"), (Exit.USAGE, "not-an-image")
    }, ran.err  # fmt: skip
    assert sorted(os.listdir()) == sorted(["x.npy", pipe])


def test_a_pipe_is_no_file_of_labels(work: Path) -> None:
    os.mkfifo("PIPE.txt")
    with pytest.raises(UsageError, match="no such file of labels"):
        labels_of("PIPE.txt")


def test_a_list_of_labels_may_be_longer_than_a_file_name() -> None:
    names = [f"label-{index}" for index in range(500)]
    assert labels_of(",".join(names)) == names


@pytest.mark.parametrize("what", WORDS)
def test_a_name_longer_than_the_file_system_takes_is_bad_input(what: str, tiny_models: Tiny, work: Path) -> None:
    (work / "x.npy").write_bytes((tiny_models / "x.npy").read_bytes())
    places = {"MODEL": str(tiny_models / "cls.onnx"), "AXM": str(tiny_models / "cls.axm")}
    ran = axtool(*(places.get(word, word).replace("PIPE", "n" * 300) for word in WORDS[what]), "--json")
    error = ran.document["error"]
    assert (ran.code, error["code"]) == (Exit.USAGE, "name-too-long")
    assert "is too long for a file" in error["message"]
    assert len(error["message"]) < 200


def test_a_file_whose_content_the_kernel_makes_is_no_file(work: Path) -> None:
    proc = Path("/proc/uptime")  # it claims to be regular, as /proc/kmsg does, which never ends
    if not proc.exists():
        pytest.skip("wants /proc")
    assert (is_special(proc), is_axm(proc)) == (True, False)
    ran = axtool("info", proc, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (Exit.USAGE, "not-a-file")


def test_an_empty_file_is_a_file(work: Path) -> None:
    Path("empty").touch()
    assert not is_special(work / "empty")


def test_a_pipe_is_no_zoo_config(work: Path) -> None:
    os.mkfifo("PIPE.yaml")
    assert "is a pipe" in axzoo("info", "PIPE.yaml").err


@pytest.mark.parametrize("name", ["", ".", "/", ".."])
def test_a_folder_is_no_model(work: Path, name: str) -> None:
    ran = axtool("compile", name, *CALIB, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (Exit.USAGE, "is-a-directory")
