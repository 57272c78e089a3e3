"""`axzoo run` and `axzoo benchmark` on a video: the steps and the kernel of the config, over the cores of a board."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import pytest

from axtool.report.schemas import check_document
from axtool.runtime import Image
from axtool.runtime.cv import VideoWriter
from axtool.zoo.catalogue import find
from axtool.zoo.loaded import load_entry
from tests.tiny import axzoo
from tests.videos import frames_in

FRAMES = 5


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scene of digits that moves to the left."""
    path = tmp_path_factory.mktemp("film") / "digits.mp4"
    scene = cv2.imread(str(find("digits-v8det").file("detection/digits/scene.png")))
    with VideoWriter(path, 30) as writer:
        for index in range(FRAMES):
            writer.write(np.roll(scene, -4 * index, 1), "BGR")
    return path


def test_a_video_finds_what_its_frames_have(digits_axm: Path, film: Path) -> None:
    ran = axzoo("run", "digits-v8det", film, "--axm", digits_axm, "--json")
    assert ran.code == 0, ran.err
    check_document(ran.document)
    loaded = load_entry(find("digits-v8det"), digits_axm)
    pipeline, wanted = loaded.steps.pipeline(loaded.model), Counter[str]()
    labels = loaded.model.artefact.task["labels"]  # type: ignore[index]
    for pixels in frames_in(film):
        wanted += Counter(labels[int(one.class_id)] for one in pipeline(Image.from_array(pixels, "RGB")))
    (source,) = ran.document["sources"]
    assert ran.document["model"] == "digits-v8det"
    assert {one["label"]: one["objects"] for one in source["found"]} == dict(wanted)
    assert sum(wanted.values()) > FRAMES
    assert "UltralyticsYoloPostamble" in [row["operator"] for row in ran.document["operators"]]


def test_the_frames_are_saved_with_boxes(digits_axm: Path, film: Path, work: Path) -> None:
    ran = axzoo("run", "digits-v8det", film, "--axm", digits_axm, "-o", "found.mp4")
    assert (ran.code, ran.err) == (0, "wrote found.mp4\n"), ran.err
    assert len(frames_in(Path("found.mp4"))) == FRAMES


@pytest.mark.parametrize(("more", "schema"), [((), "axzoo.run"), (("--max-in-flight", "1"), "run.stream")])
def test_pictures_stay_pictures_unless_an_option_of_streams_is_given(
    digits_axm: Path, more: tuple[str, ...], schema: str
) -> None:
    scene = find("digits-v8det").file("detection/digits/scene.png")
    ran = axzoo("run", "digits-v8det", scene, "--axm", digits_axm, "--json", *more)
    assert (ran.code, ran.document["schema"]) == (0, f"axtool.{schema}/1"), ran.err


def test_a_benchmark_of_a_video_warms_up_and_counts_only_what_follows(digits_axm: Path, film: Path) -> None:
    words = ("benchmark", "digits-v8det", film, "--axm", digits_axm, "--frames", "3", "--warmup", "4")
    document = axzoo(*words, "--json").document
    check_document(document)
    calls = {row["operator"]: row["calls"] for row in document["operators"]}
    assert (document["frames"], calls["Interpret"], calls["source_pull"]) == (3, 3, 3)
    assert sum(core["frames"] for core in document["cores"]) == 3
    assert "effective FPS" in axzoo(*words).out


def test_a_benchmark_of_a_video_has_no_unfused_form(digits_axm: Path, film: Path) -> None:
    ran = axzoo("benchmark", "digits-v8det", film, "--axm", digits_axm, "--optimize", "none")
    assert (ran.code, "leave out --optimize" in ran.err) == (2, True)
