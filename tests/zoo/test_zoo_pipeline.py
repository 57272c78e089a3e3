"""The pipeline of a config finds what `interpret` finds in the same outputs: boxes, keypoints, masks."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.runtime import Image, op
from axtool.runtime.masks import from_run_lengths
from axtool.runtime.task import completed, interpret
from axtool.types import TensorSpec
from axtool.zoo.catalogue import find
from axtool.zoo.pipeline import steps_of
from axtool.zoo.sources import model_file

SIDE = 160  # of the scenes, and of the models' input


@pytest.mark.parametrize("name", ["digits-v8det", "digits-v8pose", "digits-v8seg", "digits-v5anchor"])
def test_the_operators_of_an_entry_find_what_its_task_finds(name: str) -> None:
    entry = find(name)
    image = Image.from_file(str(entry.file("detection/digits/scenes/004.webp")))
    steps, model = steps_of(entry.config), op.onnx_model(str(model_file(entry)))
    made = model(steps.front()(image))
    outputs = {str(at): array for at, array in enumerate(made if isinstance(made, tuple) else (made,))}
    task = completed(entry.config.task, [TensorSpec("images", (1, 3, SIDE, SIDE), "float32")], [])
    wanted = interpret(task, outputs, entry.config.preparation.place(SIDE, SIDE))["detections"]
    found = steps.pipeline(model)(image)
    assert len(wanted) == len(found) > 2
    inside: list[int] = []
    total: list[int] = []
    for row, item in zip(wanted, found, strict=True):
        assert (item.class_id, item.score) == (row["index"], pytest.approx(row["score"], abs=1e-6))
        assert np.allclose(SIDE * np.array(item.bbox.xyxy()), row["box"], atol=2e-3)
        if "keypoints" in row:
            points = [(SIDE * point.x, SIDE * point.y) for point in item.keypoints]
            assert np.allclose(points, np.array(row["keypoints"])[:, :2], atol=2e-3)
        if "mask" in row:  # at a quarter of the picture's resolution there, so that a thin stroke has jags
            mask = from_run_lengths(row["mask"]["counts"], (SIDE, SIDE))
            inside.append(int((np.kron(item.mask, np.ones((4, 4), bool)) & mask).sum()))
            total.append(int(mask.sum()))
    assert sum(inside) >= 0.8 * sum(total)
