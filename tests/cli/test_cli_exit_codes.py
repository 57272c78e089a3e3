"""Every exit code of the design, and how each failure is told."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from axtool.cli import door
from axtool.errors import Exit
from tests import tiny
from tests.conftest import Tiny
from tests.tiny import axtool

CALIB = ("--calib", "random:2")


def test_0_is_done(tiny_models: Tiny) -> None:
    assert axtool("info", tiny_models / "cls.axm").code == Exit.OK


def test_1_is_a_check_that_says_no(tiny_models: Tiny) -> None:
    assert axtool("profile", tiny_models / "cls.axm", "--max-cycles", "1").code == Exit.CHECK_FAILED


def test_2_is_usage(tiny_models: Tiny) -> None:
    assert axtool("info", "nothing.onnx").code == Exit.USAGE


def test_3_is_a_model_that_the_device_cannot_run(work: Path) -> None:
    path = tiny.save(Path("host.onnx"), "(float[1,3,3] x) => (float[1,3,3] y) { y = Trilu(x) }", {})
    ran = axtool("compile", path, *CALIB)
    assert ran.code == Exit.UNSUPPORTED
    assert "Trilu" in ran.err


def test_4_is_a_full_disk_and_nothing_is_left(tiny_models: Tiny, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.replace", full)
    ran = axtool("compile", tiny_models / "cls.onnx", *CALIB, "-o", "out.axm", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (Exit.ENVIRONMENT, "disk-full")
    assert "free some space" in ran.err
    assert list(work.iterdir()) == []


def test_4_is_a_folder_without_permission(tiny_models: Tiny, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "out.axm")

    monkeypatch.setattr("tempfile.mkstemp", refused)
    ran = axtool("compile", tiny_models / "cls.onnx", *CALIB, "-o", "out.axm")
    assert (ran.code, "cannot write" in ran.err) == (Exit.ENVIRONMENT, True)


def test_4_is_a_missing_package(tiny_models: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without_cv2(name: str, *rest: Any) -> Any:
        if name == "cv2":
            raise ModuleNotFoundError("No module named 'cv2'", name="cv2")
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_cv2)
    ran = axtool("run", tiny_models / "cls.axm", tiny_models / "picture.png", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (Exit.ENVIRONMENT, "missing-package")
    assert "pip install opencv-python-headless" in ran.err


def test_4_is_too_little_memory(tiny_models: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, MemoryError())
    assert axtool("info", tiny_models / "cls.axm").code == Exit.ENVIRONMENT


def test_5_is_numbers_that_are_refused(work: Path) -> None:
    weights = {**tiny.CLASSIFIER_WEIGHTS, "b1": [float("nan")] * 8}
    path = tiny.save(Path("nan.onnx"), tiny.CLASSIFIER, weights)
    ran = axtool("compile", path, *CALIB, "--json")
    assert (ran.code, ran.document["error"]["exit"]) == (Exit.NUMERICS, 5)
    assert "b1" in ran.err


def test_6_is_a_model_that_does_not_fit(tiny_models: Tiny) -> None:
    ran = axtool("profile", tiny_models / "cls.onnx", "--set", "memory.ocm_bytes=64")
    assert ran.code == Exit.DOES_NOT_FIT
    assert "hint:" in ran.err


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make `info` raise."""

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr("axtool.report.inspect.inspect", fail)


def test_70_is_a_bug_without_a_traceback(tiny_models: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, ZeroDivisionError("an axtool bug"))
    ran = axtool("info", tiny_models / "cls.axm")
    assert ran.code == Exit.INTERNAL
    assert "internal error: ZeroDivisionError: an axtool bug" in ran.err
    assert "-v" in ran.err
    assert "Traceback" not in ran.err


def test_70_shows_the_traceback_with_verbose(tiny_models: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, ZeroDivisionError("an axtool bug"))
    assert "Traceback" in axtool("info", tiny_models / "cls.axm", "-v").err


def test_70_is_a_document_with_json(tiny_models: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, AssertionError("an axtool bug"))
    document = axtool("info", tiny_models / "cls.axm", "--json").document
    assert (document["status"], document["error"]["code"], document["error"]["exit"]) == ("error", "internal", 70)


def test_130_is_an_interrupt(tiny_models: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())
    ran = axtool("info", tiny_models / "cls.axm", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (Exit.INTERRUPTED, "interrupted")
    assert "Traceback" not in ran.err


def test_130_is_an_interrupt_that_a_library_made_another_error_of(
    tiny_models: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime, where it comes while its module is loaded."""

    def loaded(*_: Any) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        raise ImportError("initialization failed")

    monkeypatch.setattr("axtool.report.inspect.inspect", loaded)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        ran = axtool("info", tiny_models / "cls.axm", "--json")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ran.code, ran.document["error"]["code"]) == (Exit.INTERRUPTED, "interrupted")
    assert "Traceback" not in ran.err


def test_130_is_an_interrupt_while_the_reader_of_stdout_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stalled(io.StringIO):
        def flush(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdout", Stalled())
    monkeypatch.setattr("axtool.cli.door._discard_stdout", lambda: None)
    assert door.run(lambda **_: 0, ["info"], program="axtool") == Exit.INTERRUPTED


def test_143_is_sigterm_and_the_handler_of_before_comes_back(
    tiny_models: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("axtool.report.inspect.inspect", killed)
    before = signal.getsignal(signal.SIGTERM)
    ran = axtool("info", tiny_models / "cls.axm", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (Exit.TERMINATED, "terminated")
    assert "Traceback" not in ran.err
    assert signal.getsignal(signal.SIGTERM) == before


def test_130_leaves_nothing_behind(tiny_models: Tiny, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    (work / "out.axm").write_bytes(b"old")
    assert axtool("compile", tiny_models / "cls.onnx", *CALIB, "-o", "out.axm", "--force").code == Exit.INTERRUPTED
    assert [(p.name, p.read_bytes()) for p in work.iterdir()] == [("out.axm", b"old")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("compil",), "Did you mean 'compile'?"),
        (("info",), "Missing argument"),
        (("info", "x.onnx", "--suport"), "--support"),
        (("run", "x.axm", "--threads", "a"), "--threads"),
        (("--jsn",), "--json"),
        (("verify", "x.axm"), "--data"),
        (("verify", "x.axm", "--data", "random:2"), "--against"),
    ],
)
def test_a_usage_error_is_a_document_with_json(words: tuple[str, ...], said: str) -> None:
    ran = axtool(*words, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "usage")
    assert said in ran.document["error"]["message"]
    assert "--help" in ran.document["error"]["hint"]
    assert said in ran.err


def test_flags_before_the_command_mean_the_same(tiny_models: Tiny) -> None:
    assert axtool("--json", "info", tiny_models / "cls.axm").document["command"] == "info"
    assert axtool("--json", "-q", "info", "nothing").document["error"]["code"] == "file-not-found"
