"""`axzoo benchmark`: what is measured here and what is modelled of the chip are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from axtool.report.schemas import check_document
from axtool.zoo.catalogue import find
from tests.tiny import axtool, axzoo


@pytest.fixture(scope="module")
def words(digits_axm: Path) -> tuple[str, ...]:
    return ("benchmark", "digits-v8det", "--axm", str(digits_axm), "--frames", "12", "--warmup", "2")


def test_the_document_has_every_figure_and_fits_its_schema(words: tuple[str, ...]) -> None:
    document = axzoo(*words, "--json").document
    check_document(document)
    spread = document["frame_ms_measured"]
    assert spread["min"] <= spread["p50"] <= spread["p95"] <= spread["p99"] <= spread["max"]
    assert document["frames"] == 12
    assert sum(row["share"] for row in document["operators"]) == pytest.approx(1)


def test_host_and_device_make_the_frame(words: tuple[str, ...]) -> None:
    document = axzoo(*words, "--json").document
    parts = (document[key]["mean"] for key in ("host_ms_measured", "simulated_device_ms_measured"))
    assert sum(parts) == pytest.approx(document["frame_ms_measured"]["mean"])
    assert [row["operator"] for row in document["operators"] if row["where"] == "device"] == ["AxRuntimeModel"]


def test_the_modelled_time_is_that_of_the_chip_which_profile_says_too(words: tuple[str, ...], digits_axm: Path) -> None:
    document = axzoo(*words, "--json").document
    profiled = axtool("profile", digits_axm, "--json").document
    assert document["device_ms_modelled"] == pytest.approx(profiled["latency_ms"])


def test_the_text_says_of_each_figure_whether_it_is_measured_or_modelled(words: tuple[str, ...]) -> None:
    shown = axzoo(*words).out
    assert "ms a frame, measured" in shown
    assert "device, simulated here" in shown
    for line in shown.splitlines()[-4:]:
        assert line.endswith(("measured", "modelled")), line


def test_without_optimizing_and_kernel_every_operator_has_its_row(words: tuple[str, ...]) -> None:
    document = axzoo(*words, "--no-kernel", "--optimize", "none", "--json").document
    names = [row["operator"] for row in document["operators"]]
    assert {"Letterbox", "Quant", "Pad", "Depad", "Dequant", "OnnxModel"} <= set(names)
    assert document["postamble"] is None
    document = axzoo(*words, "--json").document
    assert "UltralyticsYoloPostamble" in [row["operator"] for row in document["operators"]]


def test_a_picture_of_ones_own_may_be_timed(words: tuple[str, ...]) -> None:
    picture = find("digits-v8det").file("detection/digits/scenes/000.webp")
    assert axzoo(*words, picture, "--json").document["picture"] == str(picture)


@pytest.mark.parametrize(("option", "value"), [("--frames", "0"), ("--warmup", "-1"), ("--optimize", "fast")])
def test_options_that_cannot_be_are_refused(words: tuple[str, ...], option: str, value: str) -> None:
    assert axzoo(*words, option, value).code == 2
