"""Sources of pictures and the writer of videos: `from axtool.runtime import cv`.

The names are imported when they are first used; PyAV and OpenCV when the first source needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axtool.runtime.cv.reader import Reader, SourceEvent
    from axtool.runtime.cv.source import VideoSource, create_source, frames_of
    from axtool.runtime.cv.writer import VideoWriter

__all__ = ["Reader", "SourceEvent", "VideoSource", "VideoWriter", "create_source", "frames_of"]

_HOMES = {"Reader": "reader", "SourceEvent": "reader", "VideoWriter": "writer"}
_SOURCE = "source"  # where every other name is


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"axtool.runtime.cv.{_HOMES.get(name, _SOURCE)}"), name)
    raise AttributeError(f"module 'axtool.runtime.cv' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
