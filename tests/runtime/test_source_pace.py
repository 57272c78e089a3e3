"""A pace behind the name of a source: frames come as a camera would give them."""

from __future__ import annotations

import time
from pathlib import Path

import cv2
import pytest

from axtool.errors import EnvironmentFault, UsageError
from axtool.runtime import cv
from tests.runtime.videos import encode, picture, shades

SOON_S = 5.0


@pytest.mark.parametrize("name", ["x.mp4@40", "x.mp4@auto", "folder@40", "x.mp4@80/2"])
def test_a_pace_gives_frames_as_a_camera_would(tmp_path: Path, name: str) -> None:
    encode(tmp_path / "x.mp4", [picture(shade) for shade in shades(9)], fps=40)
    (tmp_path / "folder").mkdir()
    for index in range(9):
        cv2.imwrite(str(tmp_path / "folder" / f"{index}.png"), picture(9))
    with cv.create_source(str(tmp_path / name)) as source:
        assert source.fps == 40
        start = time.monotonic()
        assert len(list(source)) == 9
        assert 0.199 < time.monotonic() - start < SOON_S


def test_times_of_the_video_pace_its_frames(tmp_path: Path) -> None:
    path = encode(tmp_path / "x.mkv", [picture(9)] * 4, codec="ffv1", times=[0, 10, 260, 270])
    with cv.create_source(f"{path}@auto") as source:
        at = [time.monotonic() for _ in source]
    assert at[2] - at[1] > 0.2
    assert at[3] - at[2] < 0.2


def test_closing_does_not_wait_for_the_pace(tmp_path: Path) -> None:
    path = encode(tmp_path / "x.mp4", [picture(9)] * 4)
    source = cv.create_source(f"{path}@0.1")
    next(source)
    start = time.monotonic()
    source.close()
    assert time.monotonic() - start < 1


@pytest.mark.parametrize(
    ("name", "words"),
    [("x.mp4@0", "a pace of 0"), ("x.mp4@5/0", "a pace of 5/0"), ("x.mp4@99999", "a pace of 99999"),
     ("folder@auto", "no times of their own"), ("x.mp4@fast", "no such file")],
)  # fmt: skip
def test_a_pace_that_is_none_is_refused(tmp_path: Path, name: str, words: str) -> None:
    encode(tmp_path / "x.mp4", [picture(9)])
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=words):
        cv.create_source(str(tmp_path / name))


def test_a_live_source_has_its_own_pace_and_a_user_is_no_pace() -> None:
    with pytest.raises(UsageError, match="comes at its own pace"):
        cv.create_source("rtsp://127.0.0.1:1/x@30")
    with pytest.raises(EnvironmentFault, match="cannot be opened"):
        cv.create_source("tcp://user@30", timeout_s=0.3)
