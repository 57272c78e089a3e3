"""Models that many tests read, made once a session. Nothing may change them."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests import tiny


def pytest_configure() -> None:
    """Have Ctrl-C heard here and in the programs that tests start, also where this is a job in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class Tiny:
    """A folder with a classifier and a two-stage model, compiled; feeds; a picture; ranges."""

    folder: Path

    def __truediv__(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """`cls.onnx/.axm`, `two.onnx/.axm`, `x.npy`, `picture.png`, `ranges.json`, `data.npz` (16 samples of x)."""
    import cv2

    folder = tmp_path_factory.mktemp("tiny")
    tiny.save(folder / "cls.onnx", tiny.CLASSIFIER, tiny.CLASSIFIER_WEIGHTS)
    tiny.save(folder / "two.onnx", tiny.TWO_STAGES, tiny.TWO_STAGES_WEIGHTS)
    rng = np.random.default_rng(0)
    data = rng.normal(0, 1, (16, 3, 16, 16)).astype(np.float32)
    np.save(folder / "x.npy", data[:1])
    np.savez(folder / "data.npz", x=data)
    cv2.imwrite(str(folder / "picture.png"), rng.integers(0, 255, (20, 30, 3), np.uint8))
    ran = tiny.axtool(
        "compile", folder / "cls.onnx", "--calib", folder / "data.npz", "--save-ranges", folder / "ranges.json",
        "-o", folder / "cls.axm", "--method", "minmax",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    ran = tiny.axtool(
        "compile", folder / "two.onnx", "--calib", "random:2", "--input-shape", "image:1,3,8,8", "-o",
        folder / "two.axm",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    return Tiny(folder)


@pytest.fixture(autouse=True)
def _no_width_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests in parallel processes are given a terminal width that a test alone is not."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True)
def _words_go_where_they_went() -> Iterator[None]:
    """A command sets up the package's logger for its process; the next test finds it as it was."""
    logger = logging.getLogger("axtool")
    handlers, propagate, level = list(logger.handlers), logger.propagate, logger.level
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)


@pytest.fixture(autouse=True)
def _boards_are_free_again() -> Iterator[None]:
    """A pipeline outside of any block leaves the process default connected: the next test may want its boards."""
    yield
    default = sys.modules.get("axtool.runtime.scheduler.default")
    if default is not None:  # else no pipeline ran
        default.close_default()


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
