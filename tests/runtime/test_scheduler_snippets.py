"""Scripts in the manner of the vendor's page on its scheduler run here with only their import lines changed.

Each runs with `pipeline`, the digit detector with decoding and suppression, and `source`, three pictures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.runtime import op, scheduler

HOMOGRAPHY = np.array([[1.0, 0.02, -3.0], [0.01, 1.0, 2.0], [0.0, 0.0, 1.0]])


@pytest.fixture(autouse=True)
def _no_default_is_left() -> Iterator[None]:
    yield
    scheduler.current().close()


@pytest.fixture
def known(digits: Path) -> dict[str, Any]:
    """What the scripts find: a pipeline, its source, and the model beside them."""
    pipeline = op.seq(
        op.letterbox(160, 160), op.to_tensor(), op.load(digits), op.decode_detections("yolov8", num_classes=10),
        op.nms(), op.to_image_space(), op.ax_detection(),
    )  # fmt: skip
    rng = np.random.default_rng(7)
    source = [rng.integers(0, 256, (120, 200, 3), np.uint8) for _ in range(3)]
    return {"pipeline": pipeline, "source": source, "img": source[0], "image": source[0], "model_file": str(digits)}


def run(script: str, known: dict[str, Any]) -> dict[str, Any]:
    """The names that a script leaves behind."""
    names: dict[str, Any] = {"__name__": "a_users_script", **known}
    exec(compile(script, "script.py", "exec"), names)
    return names


def test_a_pipeline_is_called_without_a_word_about_schedulers(known: dict[str, Any]) -> None:
    names = run(
        """
from axtool.runtime import scheduler

detections = pipeline(image)
owner = scheduler.current()
"""
    , known)  # fmt: skip
    assert isinstance(names["detections"], list)
    assert names["owner"].is_connected


def test_a_block_with_a_scheduler_of_its_own(known: dict[str, Any]) -> None:
    names = run(
        """
from axtool.runtime import scheduler

found = []
with scheduler.create(devices='metis-0:1:0'):
    for img in source:
        detections = pipeline(img)
        found.append(detections)
"""
    , known)  # fmt: skip
    assert len(names["found"]) == 3
    assert not scheduler.current().is_connected


def test_the_default_is_torn_down_early_and_comes_again(known: dict[str, Any]) -> None:
    names = run(
        """
from axtool.runtime import scheduler

before = pipeline(img)
first = scheduler.current()
scheduler.current().close()
with scheduler.create(devices='0'):
    inside = pipeline(img)
after = pipeline(img)
second = scheduler.current()
"""
    , known)  # fmt: skip
    assert names["first"] is not names["second"]
    assert len(names["before"]) == len(names["inside"]) == len(names["after"])


def test_a_stream_that_is_split_behind_a_named_operator(known: dict[str, Any]) -> None:
    names = run(
        """
from axtool.runtime import op

shown = []


def display(frame):
    shown.append(np.asarray(frame).shape)


pipeline = op.seq(
    op.perspective(matrix=homography, width=640, height=480, name='undistort'),
    op.letterbox(160, 160),
    op.totensor(),
    op.load(model_file),
    op.decode_detections('yolov8', num_classes=10),
)
results = [
    result
    for image, result in pipeline.stream(source, frame_callback=display, split_at='undistort')
]
"""
    , {**known, "homography": HOMOGRAPHY, "np": np})  # fmt: skip
    assert names["shown"] == [(480, 640, 3)] * 3
    assert [result.shape[1] for result in names["results"]] == [6] * 3


def test_a_limit_of_the_matrix_unit_for_one_model_of_board(known: dict[str, Any]) -> None:
    names = run(
        """
from axtool.runtime import scheduler
from axtool.runtime.device_config import BoardConfig, DeviceConfig

limits = DeviceConfig({'110m': BoardConfig(mvm_limitation=90)})
with scheduler.create(devices='metis-0:1:0', device_config=limits):
    detections = pipeline(image)
"""
    , known)  # fmt: skip
    assert isinstance(names["detections"], list)


@pytest.mark.parametrize("way", ["as_available", "round_robin"])
def test_several_cameras_are_read_in_one_loop(way: str, known: dict[str, Any]) -> None:
    names = run(
        f"""
from axtool.runtime import scheduler

cameras = [source, source[:1]]
streams = [pipeline.copy().stream(camera) for camera in cameras]
seen = []
for stream_id, image, result in scheduler.current().{way}(streams):
    seen.append((stream_id, image is None))
"""
    , known)  # fmt: skip
    assert sorted(names["seen"]) == [(0, False)] * 3 + [(0, True), (1, False), (1, True)]


def test_several_cameras_call_back_from_threads_of_their_own(known: dict[str, Any]) -> None:
    names = run(
        """
import threading
from axtool.runtime import scheduler

seen, lock = [], threading.Lock()


def deliver(stream_id, image, result):
    with lock:
        seen.append((stream_id, threading.get_ident(), image is None))


scheduler.current().with_callback([pipeline.copy().stream(source) for _ in range(2)], deliver)
"""
    , known)  # fmt: skip
    assert len(names["seen"]) == 8
    assert len({thread for _, thread, _ in names["seen"]}) == 2


def test_a_batch_is_what_single_calls_are(known: dict[str, Any]) -> None:
    names = run(
        """
from axtool.runtime import scheduler

results = scheduler.current().batch(pipeline, (source,))
single = [pipeline(img) for img in source]
"""
    , known)  # fmt: skip
    assert [[thing.bbox.xyxy() for thing in frame] for frame in names["results"]] == [
        [thing.bbox.xyxy() for thing in frame] for frame in names["single"]
    ]


def test_a_model_is_executed_alone_on_buffers(known: dict[str, Any]) -> None:
    names = run(
        """
import numpy as np
from axtool.runtime import op, scheduler

device = op.load(model_file).device
inputs = [np.full(lane.info.shape, lane.info.zero_point, lane.info.dtype) for lane in device.part.inputs]
outputs = [np.empty(lane.info.shape, lane.info.dtype) for lane in device.outputs]
scheduler.current().exec_model(model_file, inputs, outputs)
wanted = device(*inputs)
"""
    , known)  # fmt: skip
    for got, want in zip(names["outputs"], names["wanted"], strict=True):
        np.testing.assert_array_equal(got, want)
