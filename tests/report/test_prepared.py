"""The input preparation in words: what has an effect, in order, and what nobody chose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from axtool.inputs.prepare import Preparation
from axtool.report.prepared import effective, fraction, prepared_text
from tests.conftest import Tiny
from tests.tiny import axtool


@pytest.mark.parametrize(
    ("value", "text"), [(1 / 255, "1/255"), (1.0, "1"), (2.0, "2"), (0.3, "0.3"), (1 / 128, "1/128")]
)
def test_a_scale_is_a_fraction_where_it_is_one(value: float, text: str) -> None:
    assert fraction(value) == text


@pytest.mark.parametrize(
    ("preparation", "text"),
    [
        (Preparation(size=(416, 416), color="RGB"), "fit 416x416, RGB, x 1/255"),
        (Preparation(size=(8, 9), resize="letterbox"), "letterbox 8x9 filled with 114, x 1/255"),
        (Preparation(mean=(103.5, 116.3, 123.7), std=(58.0,)), "fit, x 1, - (103.5, 116.3, 123.7), / 58"),
        (Preparation(resize="crop", color="BGR", scale=2.0, layout="NHWC"), "crop of 0.875, BGR, x 2, NHWC"),
    ],
)
def test_the_steps_are_in_the_order_of_their_application(preparation: Preparation, text: str) -> None:
    assert prepared_text(effective(preparation.to_dict())) == text


def test_compile_says_how_pictures_become_inputs_and_what_is_a_default(tiny_models: Tiny, work: Path) -> None:
    (work / "p").mkdir()
    (work / "p" / "a.png").write_bytes((tiny_models / "picture.png").read_bytes())
    words = ("compile", tiny_models / "cls.onnx", "--calib", "p", "--force")
    said = axtool(*words).out
    assert "fit 16x16 (default), RGB (default), x 1/255 (default: say --scale), NCHW" in said
    document = axtool(*words, "--json", "--scale", "1", "--color", "BGR").document
    assert (document["preparation"]["scale"], document["preparation_defaults"]) == (1.0, ["resize"])
    document = axtool(*words, "--json").document
    assert document["preparation"]["scale"] == pytest.approx(1 / 255)
    info = axtool("info", "cls.axm")
    assert "fit 16x16, RGB, x 1/255, NCHW" in info.out
    assert axtool("info", "cls.axm", "--json").document["preparation"]["scale"] == pytest.approx(1 / 255)


def test_a_function_of_the_users_own_is_named(tiny_models: Tiny, work: Path) -> None:
    source = "import numpy as np\ndef f(image):\n    return np.zeros((1, 3, 16, 16), np.float32)\n"
    (work / "zeros.py").write_text(source)
    words = ("compile", tiny_models / "cls.onnx", "--calib", tiny_models / "picture.png", "--preprocess", "zeros.py:f")
    ran = axtool(*words)
    assert (ran.code, "by zeros.py: give --preprocess" in ran.out) == (0, True), ran.err


def test_ranges_bring_the_preparation_they_were_measured_with(tiny_models: Tiny, work: Path) -> None:
    source = tiny_models / "cls.onnx"
    words = ("compile", source, "--calib", tiny_models / "picture.png", "--scale", "1/128", "--color", "BGR")
    assert axtool(*words, "--save-ranges", "r.json", "-q").code == 0
    assert json.loads((work / "r.json").read_text())["preparation"]["color"] == "BGR"
    ran = axtool("compile", source, "--ranges", "r.json", "-o", "b.axm")
    assert "fit 16x16, BGR, x 1/128" in ran.out
    assert "no preparation" not in ran.err
    again = axtool("compile", source, "--ranges", "r.json", "-o", "c.axm", "--color", "RGB")
    assert "--color RGB replaces BGR of the file" in again.err
    assert "fit 16x16, RGB, x 1/128" in again.out


def test_ranges_without_a_preparation_are_a_warning(tiny_models: Tiny, work: Path) -> None:
    ran = axtool("compile", tiny_models / "cls.onnx", "--ranges", tiny_models / "ranges.json")
    assert "no preparation is stored" in ran.err
    assert "arrays as they are" in ran.out
    assert "no preparation" in axtool("run", "cls.axm", tiny_models / "picture.png").err


def test_an_option_that_replaces_the_stored_preparation_is_said(tiny_models: Tiny, work: Path) -> None:
    picture = tiny_models / "picture.png"
    assert axtool("compile", tiny_models / "cls.onnx", "--calib", picture, "-q").code == 0
    assert "warning: --scale 1 replaces 1/255 of the file" in axtool("run", "cls.axm", picture, "--scale", "1").err
    assert "replaces" not in axtool("run", "cls.axm", picture, "--scale", "1/255").err
    changed = axtool("run", "cls.axm", picture, "--mean", "120").err
    assert "--mean 120 replaces none" in changed
    assert "the scale is 1, not the 1/255" in changed
    against = ("--against", tiny_models / "cls.onnx", "--data", picture)
    assert "--color BGR replaces RGB" in axtool("verify", "cls.axm", *against, "--color", "BGR").err
