"""Words of a command line  ->  whether they name a stream. Nothing is opened, and nothing heavy imported."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from axtool.inputs.images import is_image_name

VIDEOS = (
    ".3gp", ".avi", ".flv", ".gif", ".h264", ".h265", ".hevc", ".m2ts", ".m4v", ".mjpeg", ".mkv", ".mov", ".mp4",
    ".mpeg", ".mpg", ".mts", ".ogv", ".ts", ".vob", ".webm", ".wmv", ".y4m",
)  # fmt: skip
_PACE = re.compile(r"(.+)@(?:auto|[\d./]+)", re.DOTALL)
_NO_PACE = re.compile(r"(.+)@[^@/\\]*", re.DOTALL)


def reads_like_a_stream(items: Sequence[str]) -> bool:
    """Whether inputs are read frame by frame: a video, a folder, a camera, an address, or several pictures.

    One picture, arrays and NAME=FILE are a single run. Nothing is opened for it.
    """
    pictures = 0
    for item in items:
        if is_moving(item) or Path(item).is_dir():
            return True
        pictures += is_image_name(Path(item)) and ("=" not in item or Path(item).exists())
    return pictures > 1


def is_moving(item: str) -> bool:
    """Whether a word names a video, a camera or an address, or has a pace behind it."""
    paced = _PACE.fullmatch(item)
    place = paced[1] if paced and not Path(item).exists() else item
    if "://" in place or place.startswith("/dev/video"):
        return True
    if "=" in place and not Path(place).exists():
        return False
    if not paced and not Path(item).exists() and (wrong := _NO_PACE.fullmatch(item)):
        place = wrong[1]  # who opens it says what a pace is
    paced_place = place != item and (is_image_name(Path(place)) or Path(place).is_dir())
    return Path(place).suffix.lower() in VIDEOS or paced_place
