"""A video file, a camera or an address, by PyAV  ->  upright RGB frames with their times, the exact frame rate."""

from __future__ import annotations

import errno
import logging
import os
import re
import time
from collections.abc import Generator, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from axtool.errors import AxError, EnvironmentFault, UsageError
from axtool.runtime.cv.address import Address, Kind
from axtool.runtime.cv.opening import within
from axtool.runtime.cv.rates import MOST_FPS
from axtool.runtime.cv.reader import Timed
from axtool.runtime.image import ColorFormat, Image, Pixels
from axtool.runtime.pool import Pool

log = logging.getLogger("axtool")

MOST_PIXELS = 1 << 27  # of one frame: 16K is 2^27; a file that claims more is damaged or means harm
_DECODERS = 4  # threads of one source: more than the conversion to RGB behind them keeps up with
MOST_SECONDS_MISSING = 1  # between the length that a file tells and its last frame

# What a file may be. Playlists, which name other files and addresses, are not among them.
FORMATS = (
    "mov", "mp4", "m4a", "3gp", "3g2", "mj2", "matroska", "webm", "avi", "mpegts", "mpegtsraw", "mpeg", "mpegvideo",
    "m4v", "h261", "h263", "h264", "hevc", "vvc", "av1", "obu", "ivf", "flv", "live_flv", "asf", "ogg", "nut", "mxf",
    "gxf", "dv", "vob", "swf", "rm", "wtv", "mjpeg", "mjpeg_2000", "mpjpeg", "yuv4mpegpipe", "apng", "gif", "dirac",
    "vc1", "cavsvideo", "avs2", "avs3", "evc", "bink", "smk", "nsv", "film_cpk", "flic", "roq", "webp_pipe",
)  # fmt: skip
# How addresses are opened: RTSP asks for TCP first, which loses nothing; UDP goes on after more than it can hold.
_NETWORK_OPTIONS = {"rtsp_flags": "prefer_tcp", "overrun_nonfatal": "1"}
_LIVE_FORMATS = ("mpjpeg", "hls", "dash")  # of what an http address gives, where it has no length

_SILENCE = "nothing came in time"
_INDEXED = (".mp4", ".m4v", ".mov", ".3gp")
_UNFINISHED = "a file that was cut off while it was written has no index and cannot be read"
_WHAT_IS_READ = "play it to see whether it is a video; .mp4, .mkv, .avi, .ts and what else FFmpeg knows are read"


class Video:
    """An opened video. `fps` is its average rate; `frame_count` is what the file says, or its length times its rate.

    Raises UsageError for what is no video, EnvironmentFault for an address that does not answer in `timeout_s`.
    """

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.damaged = 0
        self._shape: tuple[int, ...] = ()
        self._pool = Pool(self._shape, np.uint8)
        self._address, self._timeout_s = address, timeout_s
        self._container = _opened(address, timeout_s)
        try:
            self._stream = _picture_stream(self._container, address)
        except BaseException:
            self._container.close()
            raise
        self.fps = _rate(self._stream)
        self.live = address.live if address.live is not None else _goes_on(self._container)
        self._declared = int(self._stream.frames or 0)
        self._packets, self._cut, self._end_s = 0, "", Fraction(0)
        self._begin_s = Fraction(self._stream.start_time or 0) * Fraction(self._stream.time_base or 0)
        self._length_s = _length_s(self._container, self._stream)
        self.frame_count = None if self.live else self._expected()
        self._stream.thread_type = "SLICE" if self.live else "AUTO"  # threads by frame would hold frames back
        self._stream.thread_count = min(_DECODERS, os.cpu_count() or 1)

    def close(self) -> None:
        """Close what was opened and is not read."""
        self._container.close()

    def frames(self) -> Generator[Timed, None, None]:
        """Every frame that can be decoded. Raises UsageError behind the last where the file is cut short, or has none;
        EnvironmentFault where an address is silent.
        """
        from av.video.reformatter import VideoReformatter

        reformatter, given, first = VideoReformatter(), 0, None
        try:
            for frame in self._decoded():
                moment = None if frame.pts is None or not frame.time_base else frame.pts * Fraction(frame.time_base)
                first = moment if first is None else first
                time_s = None if moment is None or first is None else moment - first
                given += 1
                yield Timed(self._image(frame, reformatter), time_s)
            self._check_end(given)
        finally:
            self._container.close()

    def _image(self, frame: Any, reformatter: Any) -> Image:
        """A frame as RGB, upright, in an array that no other frame uses while somebody holds it."""
        pixels: Pixels = reformatter.reformat(frame, format="rgb24").to_ndarray()  # a view of FFmpeg's memory
        matrix = frame.side_data.get("DISPLAYMATRIX")
        if matrix is not None:
            pixels = upright(pixels, np.frombuffer(bytes(matrix), np.int32))
        if self._shape != pixels.shape:
            self._shape, self._pool = pixels.shape, Pool(pixels.shape, np.uint8)
        kept = self._pool.take()
        np.copyto(kept, pixels)
        return Image(kept, ColorFormat.RGB, self._address.shown)

    def _decoded(self) -> Iterator[Any]:
        """Frames of FFmpeg; packets that cannot be decoded are counted and left out."""
        import av

        packets = self._container.demux(self._stream)
        while True:
            try:
                packet = next(packets, None)
            except av.FFmpegError as error:
                if self.live or self._address.kind is Kind.NETWORK:
                    raise self._silent(error) from _without_password(error, self._address)
                self._cut = _words(error)
                yield from self._frames_of(None)  # the demuxer did not tell the decoder that this is the end
                return
            if packet is None:
                return
            if packet.size:
                self._note(packet)
            yield from self._frames_of(packet)

    def _note(self, packet: Any) -> None:
        self._packets += 1
        self._cut = "its last packet is not whole" if packet.is_corrupt else ""
        if packet.pts is not None and packet.time_base:
            self._end_s = max(self._end_s, (packet.pts + (packet.duration or 0)) * Fraction(packet.time_base))

    def _frames_of(self, packet: Any) -> Iterator[Any]:
        import av

        try:
            yield from self._stream.decode(packet)
        except av.EOFError:
            return
        except (av.FFmpegError, MemoryError):
            self.damaged += 1

    def _check_end(self, given: int) -> None:
        """Raise UsageError when a file has no frame, or is not whole beyond doubt; warn when it seems short."""
        where = self._address.shown
        if self.live:
            return
        if not given:
            raise UsageError(
                "the video has no frame that can be decoded", where=where,
                hint="the file is damaged or empty: play it, or record it again", code="no-frames",
            )  # fmt: skip
        frame_s = 1 / self.fps if self.fps else Fraction(0)
        rest_s = self._length_s - (self._end_s - self._begin_s) if self._length_s is not None else Fraction(0)
        missing = self._declared - self._packets  # also where an edit list leaves frames out: that shortens the length
        if not self._cut and missing > 0 and rest_s > frame_s * Fraction(3, 2):
            self._cut = f"{missing:,} of its {self._declared:,} frames are not in it"
        if self._cut:
            raise UsageError(
                f"the file is cut short or damaged behind frame {given - 1:,}: {self._cut}", where=where,
                hint="`ffmpeg -i FILE -c copy NEW` makes a video of what is whole", code="video-cut-short",
            )  # fmt: skip
        if rest_s > MOST_SECONDS_MISSING:
            log.warning(
                "%s: the last %.1f s of %.1f s are not in the file", where, float(rest_s), float(self._length_s or 0)
            )

    def _expected(self) -> int | None:
        """Frames that will come: what the file says, less where an edit list leaves some out and so shortens it."""
        by_length = max(1, round(self._length_s * self.fps)) if self._length_s and self.fps else None
        counts = [count for count in (self._declared, by_length) if count]
        return min(counts, default=None)

    def _silent(self, error: Exception) -> EnvironmentFault:
        return EnvironmentFault(
            f"the source broke off: {_words(error)}", where=self._address.shown,
            hint=f"it has {self._timeout_s:g} s for each frame (timeout_s); check that it still sends",
            code="source-silent",
        )  # fmt: skip


def _opened(address: Address, timeout_s: float) -> Any:
    import av

    start = time.monotonic()
    try:
        if address.kind is Kind.VIDEO:
            options = {"format_whitelist": ",".join(FORMATS), "max_pixels": str(MOST_PIXELS)}
            return av.open(f"file:{Path(address.place).absolute()}", options=options, metadata_errors="replace")
        # FFmpeg looks at the time itself, but not while it asks a name server or a driver.
        return within(2 * timeout_s, lambda: _far(address, timeout_s), lambda container: container.close())
    except (av.FFmpegError, OSError, ValueError, MemoryError) as error:
        late = address.kind is not Kind.VIDEO and time.monotonic() - start >= timeout_s  # RTSP calls it invalid data
        fault = _not_opened(error, address, _SILENCE if late else _words(error))
        raise fault from _without_password(error, address)


def _far(address: Address, timeout_s: float) -> Any:
    """A camera or an address, opened. FFmpeg gives up a step of it when it takes longer than `timeout_s`."""
    import av

    limits = (timeout_s, timeout_s)
    if address.kind is Kind.CAMERA:
        return av.open(address.place, format="v4l2", timeout=limits)
    place = re.sub("^mjpeg://", "http://", address.place, flags=re.IGNORECASE)
    options = {**_NETWORK_OPTIONS, "max_pixels": str(MOST_PIXELS)}
    return av.open(place, options=options, timeout=limits, metadata_errors="replace")


def _not_opened(error: Exception, address: Address, words: str) -> AxError:
    import av

    where = address.shown
    if address.kind is Kind.VIDEO:
        if isinstance(error, PermissionError):
            return UsageError(f"cannot be read: {words}", where=where, hint="check its permissions", code="cannot-read")
        empty = Path(address.place).stat().st_size == 0
        if getattr(error, "errno", None) == errno.EINVAL:  # it is of a format that is not in FORMATS
            words = "it is no video itself, or a list of other files"
        return UsageError(
            f"cannot be read as a picture, a folder of pictures or a video: {'it is empty' if empty else words}",
            where=where, hint=_UNFINISHED if Path(address.place).suffix.lower() in _INDEXED else _WHAT_IS_READ,
            code="cannot-read",
        )  # fmt: skip
    if isinstance(error, av.ProtocolNotFoundError):
        return UsageError(
            "this build of FFmpeg does not know such addresses",
            where=where,
            hint="use rtsp://, udp:// or http://",
            code="cannot-read",
        )
    if address.kind is Kind.CAMERA:
        hint = "another program may hold it, or you may lack the right to read it (group video)"
        return EnvironmentFault(f"the camera cannot be opened: {words}", where=where, hint=hint, code="no-camera")
    return EnvironmentFault(
        f"the address cannot be opened: {words}",
        where=where,
        hint="check that it can be reached and that it sends",
        code="source-silent",
    )


def _goes_on(container: Any) -> bool:
    """Whether an http address gives what happens now, not a file."""
    return container.duration is None and container.format.name in _LIVE_FORMATS


def _picture_stream(container: Any, address: Address) -> Any:
    """The best stream of moving pictures. Raises UsageError where there is none, or none that can be decoded."""
    where = address.shown
    best = container.streams.best("video")
    if best is None:
        kinds = sorted({stream.type for stream in container.streams})
        raise UsageError(
            f"holds no video{', only ' + ' and '.join(kinds) if kinds else ''}", where=where,
            hint="give a file with moving pictures", code="no-frames",
        )  # fmt: skip
    if best.codec_context is None:
        raise UsageError(
            "is coded in a way that this build of FFmpeg cannot decode", where=where,
            hint="convert it to H.264: `ffmpeg -i FILE NEW.mp4`", code="cannot-read",
        )  # fmt: skip
    if best.width * best.height > MOST_PIXELS:
        raise UsageError(
            f"claims frames of {best.width:,} x {best.height:,} pixels; {MOST_PIXELS:,} pixels are the most",
            where=where, hint="the file is damaged, or has to be made smaller first", code="cannot-read",
        )  # fmt: skip
    best.codec_context.options = {**dict(best.codec_context.options or {}), "max_pixels": str(MOST_PIXELS)}
    return best


def _rate(stream: Any) -> Fraction | None:
    """Frames a second: over the whole stream where it says so, else as FFmpeg guesses from its begin."""
    for rate in (stream.average_rate, stream.guessed_rate):
        if rate and 0 < rate <= MOST_FPS:  # without a rate FFmpeg may give the ticks of the clock
            return Fraction(rate)
    return None


def _length_s(container: Any, stream: Any) -> Fraction | None:
    """Seconds of the pictures, as the file says."""
    if stream.duration and stream.time_base:
        return Fraction(stream.duration * stream.time_base)
    alone = len(container.streams) == 1  # else it may be the sound that is so long
    return Fraction(container.duration, 1_000_000) if container.duration and alone else None


def upright(pixels: Pixels, matrix: np.ndarray[Any, np.dtype[np.int32]]) -> Pixels:
    """Pixels (h, w, 3) as a display matrix (a b u, c d v, x y w) turns and mirrors them by quarters of a turn: a view.

    The point (p, q) goes to (a p + c q + x, b p + d q + y), x to the right and y down.
    """
    a, b, c, d = (int(value) for value in matrix[[0, 1, 3, 4]])
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return pixels[:: -1 if d < 0 else 1, :: -1 if a < 0 else 1]
    return pixels.transpose(1, 0, 2)[:: -1 if b < 0 else 1, :: -1 if c < 0 else 1]


def _without_password(error: Exception, address: Address) -> Exception:
    """The same error, which is the cause in a traceback: FFmpeg's names the whole address."""
    if not isinstance(error, OSError) or error.filename is None:
        return error
    return type(error)(error.errno, error.strerror, address.shown)


def _words(error: Exception) -> str:
    """FFmpeg's reason without its number and our path."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(reason).strip()[:200].rstrip(".").replace("Immediate exit requested", _SILENCE)
