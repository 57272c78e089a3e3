"""`axtool compile --emit qdq`: where the file goes, what is said of it, and that a failure leaves nothing."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from axtool.errors import UnsupportedError
from tests import tiny
from tests.conftest import Tiny
from tests.tiny import axtool

CALIB = ("--calib", "random:2")


@pytest.fixture
def onnx(tiny_models: Tiny) -> Path:
    return tiny_models / "cls.onnx"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_is_beside_the_output(onnx: Path, work: Path) -> None:
    (work / "made").mkdir()
    assert axtool("compile", onnx, *CALIB, "-o", "made/m.v2.axm", "--emit", "qdq", "-q").code == 0
    assert files(work / "made") == ["m.v2.axm", "m.v2.qdq.onnx"]


def test_the_file_has_the_name_that_is_given(onnx: Path, work: Path) -> None:
    assert axtool("compile", onnx, *CALIB, "--emit", "qdq=q.onnx", "-q").code == 0
    assert files(work) == ["cls.axm", "q.onnx"]


def test_the_document_and_the_text_name_the_file(onnx: Path, work: Path) -> None:
    document = axtool("compile", onnx, *CALIB, "--emit", "qdq", "--json").document
    assert document["qdq"] == {"file": "cls.qdq.onnx", "file_bytes": (work / "cls.qdq.onnx").stat().st_size}
    assert "cls.qdq.onnx: " in axtool("compile", onnx, *CALIB, "--emit", "qdq", "--force").out


def test_without_the_option_there_is_no_file_and_none_is_named(onnx: Path, work: Path) -> None:
    ran = axtool("compile", onnx, *CALIB, "--json")
    assert (ran.document["qdq"], files(work)) == (None, ["cls.axm"])


def test_the_compiled_file_is_the_same_with_and_without(onnx: Path, work: Path) -> None:
    assert axtool("compile", onnx, *CALIB, "-o", "a.axm", "-q").code == 0
    assert axtool("compile", onnx, *CALIB, "-o", "b.axm", "--emit", "qdq", "-q").code == 0
    assert (work / "a.axm").read_bytes() == (work / "b.axm").read_bytes()


def test_an_existing_file_is_left_alone_without_force(onnx: Path, work: Path) -> None:
    (work / "cls.qdq.onnx").write_bytes(b"old")
    ran = axtool("compile", onnx, *CALIB, "--emit", "qdq", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "output-exists")
    assert ((work / "cls.qdq.onnx").read_bytes(), files(work)) == (b"old", ["cls.qdq.onnx"])
    assert axtool("compile", onnx, *CALIB, "--emit", "qdq", "--force", "-q").code == 0
    assert (work / "cls.qdq.onnx").stat().st_size > 3


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--emit", "qdq=m.onnx"), "output-is-input"),
        (("--emit", "qdq=no/q.onnx"), "no-such-folder"),
        (("--emit", "qdq=q.axm"), "bad-option"),
        (("--emit", "qdq="), "bad-option"),
        (("--emit", "onnx"), "bad-option"),
        (("--emit", "qdq=r.onnx", "--save-ranges", "r.onnx"), "output-is-input"),
    ],
)
def test_a_file_that_cannot_be_is_refused_before_any_work(words: tuple[str, ...], code: str, work: Path) -> None:
    source = tiny.save(work / "m.onnx", tiny.CLASSIFIER, tiny.CLASSIFIER_WEIGHTS)
    before = source.read_bytes()
    ran = axtool("compile", "m.onnx", *CALIB, "--force", *words, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, code)
    assert (files(work), source.read_bytes()) == (["m.onnx"], before)


def test_a_model_that_cannot_be_written_leaves_no_file(onnx: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise UnsupportedError("too large", code="emit-too-large")

    monkeypatch.setattr("axtool.quant.emit_qdq.to_standard", refuse)
    ran = axtool("compile", onnx, *CALIB, "--emit", "qdq", "--json")
    assert (ran.code, ran.document["error"]["code"], files(work)) == (3, "emit-too-large", [])
    assert "cls.onnx" in ran.document["error"]["message"] + str(ran.document["error"].get("where"))


def test_weights_that_fill_no_single_file_are_refused(onnx: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("axtool.graph.standard.LARGEST_FILE", 100)
    ran = axtool("compile", onnx, *CALIB, "--emit", "qdq", "--json")
    assert (ran.code, ran.document["error"]["code"], files(work)) == (3, "emit-too-large", [])


def test_an_op_that_nothing_brings_to_a_new_opset_is_refused(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("No Adapter From Version $9 for Scan")

    tiny.save(
        work / "m.onnx", "(float[1,3,8,8] x) => (float[1,4,8,8] y) { y = Conv (x, w) }", {"w": (4, 3, 1, 1)}, opset=9
    )
    monkeypatch.setattr("onnx.version_converter.convert_version", refuse)
    ran = axtool("compile", "m.onnx", *CALIB, "--emit", "qdq", "--json")
    assert (ran.code, ran.document["error"]["code"], files(work)) == (3, "emit-opset", ["m.onnx"])
    assert "Scan" in ran.document["error"]["message"]


def test_a_disk_that_refuses_leaves_no_file(onnx: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("axtool.config.os.replace", refuse)
    ran = axtool("compile", onnx, *CALIB, "--emit", "qdq", "--json")
    assert (ran.code, ran.document["error"]["code"], files(work)) == (4, "disk-full", [])


def test_a_failed_calibration_leaves_no_file(onnx: Path, work: Path) -> None:
    assert axtool("compile", onnx, "--calib", "nowhere", "--emit", "qdq", "-q").code == 2
    assert files(work) == []


def test_ranges_that_cannot_be_written_leave_the_old_model(
    onnx: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "full").mkdir()
    (work / "m.axm").write_bytes(b"old")
    (work / "q.onnx").write_bytes(b"old")
    made = tempfile.mkstemp

    def mkstemp(*words: Any, dir: Path, **named: Any) -> tuple[int, str]:
        if dir.name == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return made(*words, dir=dir, **named)

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    words = ("-o", "m.axm", "--emit", "qdq=q.onnx", "--save-ranges", "full/r.json", "--force", "--json")
    ran = axtool("compile", onnx, *CALIB, *words)
    assert (ran.code, ran.document["error"]["code"]) == (4, "disk-full")
    assert ran.document["error"]["where"] == "full/r.json"
    assert files(work) == ["full", "m.axm", "q.onnx"]
    assert {(work / name).read_bytes() for name in ("m.axm", "q.onnx")} == {b"old"}
