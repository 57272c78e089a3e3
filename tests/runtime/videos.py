"""Videos that tests make: every frame of one shade, so that a test can tell which one it got."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

NTSC = Fraction(30000, 1001)


def shades(count: int) -> list[int]:
    """`count` grey values that are far enough apart to survive the coding."""
    return [16 + round(index * 200 / max(1, count - 1)) for index in range(count)]


def picture(shade: int, width: int = 64, height: int = 48) -> NDArray[np.uint8]:
    return np.full((height, width, 3), shade, np.uint8)


def encode(
    path: Path | str,
    frames: Sequence[NDArray[np.uint8]],
    fps: Fraction | int = NTSC,
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    format: str | None = None,
    times: Sequence[int] | None = None,
    options: Mapping[str, str] | None = None,
    container_options: Mapping[str, str] | None = None,
) -> Path:
    """RGB pictures of one size as a video; `times` are milliseconds of a variable frame rate."""
    with av.open(str(path), "w", format=format, container_options=dict(container_options or {})) as container:
        stream = container.add_stream(codec, rate=fps, options=dict(options or {}))
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = pix_fmt
        if times is not None:
            stream.codec_context.time_base = Fraction(1, 1000)
        for index, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            if times is not None:
                frame.pts, frame.time_base = times[index], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return Path(path)


def shade_of(frame: Any) -> int:
    """The grey value in the middle of a frame."""
    pixels = frame.to_numpy()
    return int(pixels[pixels.shape[0] // 2, pixels.shape[1] // 2].mean())


def threads() -> set[threading.Thread]:
    """The threads that read sources now, to compare with later."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("source ")}
