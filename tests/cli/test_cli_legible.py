"""Names that would write to the terminal what is not ours: shown as escapes, in every message and table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from axtool.legible import legible, legible_values
from tests import tiny
from tests.tiny import axtool

EVIL = "a\x1b[2J\x1b]0;t\x07\nerror: b\u202egnp\x9b\u2028\r"
SHOWN = r"a\x1b[2J\x1b]0;t\x07\nerror: b\u202egnp\x9b\u2028\r"


def hostile(text: str) -> set[str]:
    """What a terminal would obey, or not show."""
    return {c for c in text if c != "\n" and legible(c) != c}


@pytest.fixture
def model(work: Path) -> Path:
    """The classifier with evil names of tensors and nodes."""
    made = tiny.model(tiny.CLASSIFIER, tiny.CLASSIFIER_WEIGHTS)
    names = {"x": EVIL, "scores": f"{EVIL}1", "a": f"{EVIL}2"}
    for node in made.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        node.name = f"{EVIL}{node.op_type}"
    made.graph.input[0].name, made.graph.output[0].name = names["x"], names["scores"]
    (work / "m.onnx").write_bytes(made.SerializeToString())
    np.save(work / "x.npy", np.ones((1, 3, 16, 16), np.float32))
    return work / "m.onnx"


def test_a_legible_text_has_one_line_and_all_that_was_in_it() -> None:
    assert legible(EVIL) == SHOWN
    assert legible("größe 図 – 1…2") == "größe 図 – 1…2"
    assert legible("\udc80") == r"\udc80"
    assert legible_values({EVIL: [EVIL, 1, (None, EVIL)]}) == {SHOWN: [SHOWN, 1, (None, SHOWN)]}


def test_every_command_shows_evil_names_as_escapes(model: Path) -> None:
    assert axtool("compile", model, "--calib", "random:2", "-o", "o.axm", "-v").code == 0
    for words in (
        ("info", "m.onnx", "--support"),
        ("info", "o.axm", "--support", "--layers", "--tensors", "--memory"),
        ("profile", "o.axm"),
        ("run", "o.axm", "x.npy"),
        ("verify", "o.axm", "--against", "m.onnx", "--data", "random:2", "--layers"),
    ):
        ran = axtool(*words)
        assert hostile(ran.out + ran.err) == set(), words
        assert r"\x1b[2J" in ran.out, (words, ran.err)
        assert "\nerror: b" not in ran.out + ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("run", "o.axm", f"{EVIL}.npy"),
        ("run", "o.axm", "--input", f"{EVIL}=x.npy"),
        ("info", EVIL),
        ("info", "\udc80\udcff"),
        ("compile", "m.onnx", "--calib", EVIL),
        ("compile", "m.onnx", "--outputs", EVIL),
        ("compile", "m.onnx", "--calib", "random:2", "--target", EVIL),
        ("compile", "m.onnx", f"--{EVIL}"),
    ],
)
def test_every_error_shows_evil_names_as_escapes(model: Path, words: tuple[str, ...]) -> None:
    ran = axtool(*words)
    assert ran.code == 2
    assert hostile(ran.err) == set()
    assert ran.err.count("\nerror:") == 0
    ran.err.encode()
