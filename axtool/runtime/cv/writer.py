"""`VideoWriter`: pictures  ->  a video file, H.264 where this build of FFmpeg has it, at an exact frame rate."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from axtool.config import cannot_write, permissions_of_a_new_file, real_path, refuse_overwrite
from axtool.errors import AxError, EnvironmentFault, UsageError, nearest
from axtool.runtime.cv.rates import exact_rate
from axtool.runtime.image import ColorFormat, Image, Pixels

SUFFIXES = {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".mkv": "matroska", ".avi": "avi"}
CODECS = {"h264": "libx264", "mpeg4": "mpeg4"}  # in the order of preference
_OPTIONS = {
    "libx264": {"crf": "20", "preset": "veryfast", "x264-params": "threads=2:sliced-threads=0"},  # the same bytes on
    "mpeg4": {"qscale": "3", "flags": "+qscale"},  # any number of CPUs
}
_MOST_SIDE = 16384  # of a frame of H.264
_BT709 = 1  # of FFmpeg's enumerations of colour spaces
_LIMITED = 1  # of its ranges: 16 to 235


class VideoWriter:
    """Write `Image` objects, or arrays of which the order of channels is said, as frames of a video.

    `fps` is in frames a second, exactly: an int, a Fraction, or a float such as 29.97. The first frame says the size,
    unless `size` (width, height) does; a frame of another size is fitted into it, with black beside it. H.264 and
    MPEG-4 have even sizes: an odd one gets one more column or row, a copy of the last.

    The file has a temporary name beside `path` until `close`; `discard`, or an error in a `with` block, leaves none.
    Raises UsageError for a path that cannot become a new file or has no suffix of a video, ValueError for a rate or a
    size that is none, EnvironmentFault for a full disk.
    """

    def __init__(
        self,
        path: str | Path,
        fps: int | float | Fraction,
        size: tuple[int, int] | None = None,
        *,
        force: bool = False,
        codec: str | None = None,
        inputs: Sequence[Path] = (),
    ) -> None:
        self.path, self.fps, self.frames = Path(path), exact_rate(fps), 0
        self._force, self._inputs = force, tuple(inputs)
        self._format = SUFFIXES.get(self.path.suffix.lower())
        if self._format is None:
            raise UsageError(
                f"'{self.path.suffix}' is no suffix of a video that can be written", where=str(path),
                hint=nearest(self.path.suffix.lower(), tuple(SUFFIXES)), code="bad-option",
            )  # fmt: skip
        self._codec = _encoder(codec)
        self._size = None if size is None else _checked_size(*size)
        refuse_overwrite(self.path, force=force, inputs=self._inputs)
        self._temporary: str | None = None
        self._container: Any = None
        self._stream: Any = None
        self._done = False

    def write(self, picture: Any, color_format: ColorFormat | str | None = None) -> None:
        """Append a frame; `color_format` is the order of the channels of an array. Raises ValueError for no picture."""
        if self._done:
            raise UsageError("this video is finished", where=str(self.path), hint="make another writer", code="usage")
        pixels = Image.from_any(picture, color_format).convert(ColorFormat.RGB).to_numpy()
        if self._size is None:
            self._size = _checked_size(pixels.shape[1], pixels.shape[0])
        if self._container is None:
            self._open(*self._size)
        self._encode(_evened(_fitted(pixels, self._size)))
        self.frames += 1

    def close(self) -> None:
        """Finish the file and give it its name. Raises UsageError where no frame was written: then there is no file."""
        if self._done:
            return
        if self._container is None:
            self._done = True
            raise UsageError(
                "no frame was written, so there is no video", where=str(self.path), hint="look at the source",
                code="no-frames",
            )  # fmt: skip
        try:
            self._mux(None)
            self._guarded(self._container.close)
            self._container = None
            assert self._temporary is not None
            refuse_overwrite(self.path, force=self._force, inputs=self._inputs)
            try:
                os.chmod(self._temporary, permissions_of_a_new_file())
                os.replace(self._temporary, real_path(self.path))
            except OSError as error:
                raise cannot_write(self.path, error) from error
            self._temporary = None
        finally:
            self.discard()

    def discard(self) -> None:
        """Leave no file. Nothing happens behind `close`."""
        self._done = True
        container, self._container, self._stream = self._container, None, None
        if container is not None:
            with suppress(Exception):  # the file goes, whatever else is wrong with it
                container.close()
        if self._temporary is not None:
            Path(self._temporary).unlink(missing_ok=True)
            self._temporary = None

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        if not getattr(self, "_done", True):
            self.discard()

    def _open(self, width: int, height: int) -> None:
        import av
        from av.video.reformatter import VideoReformatter

        self._reformatter = VideoReformatter()  # kept: a new one for each frame takes twice as long as its work
        try:
            handle, self._temporary = tempfile.mkstemp(
                prefix=".axtool-", suffix=self.path.suffix, dir=real_path(self.path).parent
            )
            os.close(handle)
            exact = {"fflags": "bitexact"} if self.path.suffix.lower() == ".mkv" else {}  # else it has a random number
            self._container = av.open(f"file:{self._temporary}", "w", format=self._format, options=exact)
            self._stream = self._container.add_stream(self._codec, rate=self.fps, options=_OPTIONS[self._codec])
        except (OSError, av.FFmpegError) as error:
            self.discard()
            raise self._failed(error) from error
        self._stream.width, self._stream.height = width + width % 2, height + height % 2
        self._stream.pix_fmt = "yuv420p"
        context = self._stream.codec_context
        context.colorspace = context.color_primaries = context.color_trc = _BT709
        context.color_range = _LIMITED
        context.time_base = 1 / self.fps

    def _encode(self, pixels: Pixels) -> None:
        import av

        given = av.VideoFrame.from_ndarray(pixels, format="rgb24")
        frame = self._reformatter.reformat(given, format="yuv420p", dst_colorspace=_BT709, dst_color_range=_LIMITED)
        frame.pts, frame.time_base = self.frames, 1 / self.fps
        self._mux(frame)

    def _mux(self, frame: Any) -> None:
        self._guarded(lambda: self._container.mux(self._stream.encode(frame)))

    def _guarded(self, work: Any) -> None:
        import av

        try:
            work()
        except (OSError, av.FFmpegError) as error:
            self.discard()
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> AxError:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            return cannot_write(self.path, OSError(error.errno, os.strerror(error.errno)))
        return EnvironmentFault(
            f"the video cannot be written: {getattr(error, 'strerror', None) or error}", where=str(self.path),
            hint="try another suffix, a smaller size, or codec='mpeg4'", code="cannot-write",
        )  # fmt: skip


def _encoder(codec: str | None) -> str:
    """The first encoder that is there, or the one that is asked for."""
    import av

    if codec is not None and codec not in CODECS:
        raise ValueError(f"there is no codec '{codec}'; {nearest(str(codec), tuple(CODECS))}")
    for name in (codec,) if codec is not None else CODECS:
        if CODECS[name] in av.codecs_available:
            return CODECS[name]
    raise EnvironmentFault(
        "this build of FFmpeg cannot encode it", where=codec or "H.264, MPEG-4", hint="install PyAV from PyPI",
        code="missing-extra",
    )  # fmt: skip


def _checked_size(width: int, height: int) -> tuple[int, int]:
    if not (0 < width <= _MOST_SIDE and 0 < height <= _MOST_SIDE):
        raise ValueError(f"a video of {width} x {height} pixels; want 1 to {_MOST_SIDE} each way")
    return int(width), int(height)


def _fitted(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Pixels (h, w, 3) scaled into (height, width), centred on black."""
    import cv2

    width, height = size
    if pixels.shape[:2] == (height, width):
        return pixels
    scale = min(width / pixels.shape[1], height / pixels.shape[0])
    inner = (max(1, min(width, round(pixels.shape[1] * scale))), max(1, min(height, round(pixels.shape[0] * scale))))
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    left, top = (width - inner[0]) // 2, (height - inner[1]) // 2
    made = np.zeros((height, width, 3), np.uint8)
    made[top : top + inner[1], left : left + inner[0]] = cv2.resize(pixels, inner, interpolation=way)
    return made


def _evened(pixels: Pixels) -> Pixels:
    """Pixels with even sides: half the colours of a frame are one a square of four pixels."""
    odd = pixels.shape[0] % 2, pixels.shape[1] % 2
    return np.ascontiguousarray(np.pad(pixels, ((0, odd[0]), (0, odd[1]), (0, 0)), "edge") if any(odd) else pixels)
