"""Compiled models that several tests of the runtime load."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from axtool.compiler import compile_file
from axtool.options import Options
from tests.tiny import CLASSIFIER, CLASSIFIER_WEIGHTS, model

DIGITS = Path(__file__).resolve().parents[2] / "zoo" / "detection" / "digits" / "digits_v8det_160.onnx"
SOFTMAX = CLASSIFIER.replace("scores = Gemm", "logits = Gemm").replace("}", "  scores = Softmax <axis=-1> (logits)\n}")


class Silent:
    """A progress that nobody watches."""

    def step(self, name: str) -> None:
        """Say nothing."""

    def count(self, done: int, total: int) -> None:
        """Say nothing."""


def compiled(source: Path, out: Path) -> Path:
    """`out`, with the model of `source` compiled fast: one random sample, nothing optimized."""
    compile_file(source, out, Options(calib=("random:1",), optimize=0), Silent())
    return out


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zoo's digit detector: 160 x 160, 10 classes, a split head, metadata as Ultralytics writes them."""
    return compiled(DIGITS, tmp_path_factory.mktemp("digits") / "digits.axm")


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten classes of a picture of 16 x 16; the Softmax is its postamble."""
    folder = tmp_path_factory.mktemp("classifier")
    onnx.save(model(SOFTMAX, CLASSIFIER_WEIGHTS), str(folder / "my-model.onnx"))
    return compiled(folder / "my-model.onnx", folder / "my-model.axm")
