"""Small videos and pictures that tests of streams read."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from axtool.runtime.cv import VideoSource, VideoWriter, create_source


def video(path: Path, frames: int = 12, size: tuple[int, int] = (64, 48), fps: int = 30) -> Path:
    """A video whose frames differ: a bright square that moves; `size` is (width, height)."""
    with VideoWriter(path, fps) as writer:
        for index in range(frames):
            pixels = np.full((size[1], size[0], 3), 40, np.uint8)
            at = 2 * index % (size[0] - 16)
            pixels[8:24, at : at + 16] = (30, 200, 90)
            writer.write(pixels, "RGB")
    return path


def pictures(folder: Path, count: int = 3, size: tuple[int, int] = (40, 30)) -> Path:
    """A folder of so many .png, 0.png first."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    for index in range(count):
        cv2.imwrite(str(folder / f"{index}.png"), rng.integers(0, 255, (size[1], size[0], 3), np.uint8))
    return folder


def frames_in(path: Path) -> list[np.ndarray]:
    """The frames of a video, RGB."""
    source: VideoSource = create_source(path)
    with source:
        return [np.asarray(frame.to_numpy()) for frame in source]
