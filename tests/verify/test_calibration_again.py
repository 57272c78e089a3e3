"""Samples that calibrated a model are known again when it is judged, whatever their file is called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from axtool.artefact import axm
from axtool.quant.data import DataFacts
from axtool.quant.twins import BYTES, MOST, fingerprint, fingerprints
from axtool.verify.check import Request, notes_on_data
from tests.conftest import Tiny
from tests.tiny import Ran, axtool, axzoo


def verified(tiny_models: Tiny, data: object, *words: object) -> Ran:
    return axtool("verify", tiny_models / "cls.axm", "--against", tiny_models / "cls.onnx", "--data", data, *words)


def test_data_that_calibrated_the_model_are_told_by_number(tiny_models: Tiny, work: Path) -> None:
    data = np.load(tiny_models / "data.npz")["x"]
    others = np.random.default_rng(9).normal(0, 1, (5, 3, 16, 16)).astype(np.float32)
    np.savez(work / "some.npz", x=np.concatenate([others, data[3:6]]))
    ran = verified(tiny_models, "some.npz", "--json")
    assert "warning: 3 of 8 samples calibrated this model; figures of other data say more" in ran.err
    assert ran.document["calibrated_with"] == 3


def test_other_data_are_not_mistaken_for_it(tiny_models: Tiny, work: Path) -> None:
    data = np.load(tiny_models / "data.npz")["x"]
    data[:, 0, 0, 0] += np.float32(1e-3)
    np.savez(work / "data.npz", x=data)
    ran = verified(tiny_models, "data.npz", "--json")
    assert ("calibrated" in ran.err, ran.document["calibrated_with"]) == (False, 0)


def test_the_engines_may_be_compared_on_any_data(tiny_models: Tiny) -> None:
    assert "calibrated" not in verified(tiny_models, tiny_models / "data.npz", "--stage", "native").err


def test_a_picture_under_another_name_is_known_again(tiny_models: Tiny, work: Path) -> None:
    rng = np.random.default_rng(4)
    for folder in ("calib", "judge"):
        (work / folder).mkdir()
    for at in range(3):
        picture = rng.integers(0, 255, (20, 30, 3), np.uint8)
        cv2.imwrite(str(work / "calib" / f"{at}.png"), picture)
        cv2.imwrite(str(work / "judge" / f"again-{at}.bmp"), picture)
    cv2.imwrite(str(work / "judge" / "new.png"), rng.integers(0, 255, (20, 30, 3), np.uint8))
    words = ("--calib", "calib", "--resize", "fit", "-o", "m.axm", "-q")
    assert axtool("compile", tiny_models / "cls.onnx", *words).code == 0
    ran = axtool("verify", "m.axm", "--against", tiny_models / "cls.onnx", "--data", "judge")
    assert "3 of 4 samples calibrated this model" in ran.err


def test_a_zoo_config_whose_validation_pictures_calibrate_is_told(tiny_models: Tiny, work: Path) -> None:
    text = f"""name: mine
title: a tiny classifier
licence: Apache-2.0
source: {{kind: file, path: {tiny_models.folder}/cls.onnx}}
calibration: [{{kind: file, path: {tiny_models.folder}/data.npz}}]
validation: [{{kind: file, path: {tiny_models.folder}/data.npz}}]
"""
    (work / "mine.yaml").write_text(text)
    ran = axzoo("build", "mine.yaml", "--verify")
    assert "16 of 16 samples calibrated this model" in ran.err


def test_a_file_without_fingerprints_still_tells_data_of_the_same_name(tiny_models: Tiny) -> None:
    artefact = axm.read(tiny_models / "cls.axm")
    request = Request(tiny_models / "cls.axm", tiny_models / "cls.onnx", ("other/data.npz",))
    (note,) = notes_on_data(request, replace(artefact, provenance={"calibration": ["data.npz"]}), 16)
    assert note.startswith("other/data.npz: named as the calibration data is")
    assert notes_on_data(request, artefact, 16) == ()


@pytest.mark.parametrize(("count", "kept"), [(3, 3), (MOST, MOST), (2 * MOST + 7, MOST)])
def test_a_file_keeps_a_few_bytes_of_a_few_hundred_samples(count: int, kept: int) -> None:
    facts = DataFacts()
    for at in range(count):
        facts.add(at, {"x": np.array([float(at)], np.float32)})
    found = fingerprints(facts)
    assert (len(found), len(set(found)), {len(text) for text in found}) == (kept, kept, {2 * BYTES})


def test_a_fingerprint_is_of_all_inputs_and_their_names() -> None:
    one, two = np.ones(3, np.float32), np.zeros(3, np.float32)
    samples = ({"a": one, "b": two}, {"a": two, "b": one}, {"a": one}, {"b": one}, {"a": one, "b": one})
    assert len({fingerprint(feeds) for feeds in samples}) == len(samples)
