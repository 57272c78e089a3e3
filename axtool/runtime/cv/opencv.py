"""The same as `video`, by OpenCV: for cameras and codecs that PyAV's build does not know."""

from __future__ import annotations

from collections.abc import Generator
from fractions import Fraction
from typing import Any

import numpy as np

from axtool.errors import EnvironmentFault, UsageError
from axtool.runtime.cv.address import Address, Kind
from axtool.runtime.cv.rates import MOST_FPS, exact_rate
from axtool.runtime.cv.reader import Timed
from axtool.runtime.image import ColorFormat, Image


class Capture:
    """An opened video of OpenCV, with what `video.Video` tells. OpenCV turns frames upright itself."""

    damaged = 0

    def __init__(self, address: Address, timeout_s: float) -> None:
        import cv2

        self._address = address
        live = address.live is not False
        milliseconds = round(timeout_s * 1e3)
        limits = [cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, milliseconds, cv2.CAP_PROP_READ_TIMEOUT_MSEC, milliseconds]
        if address.kind is Kind.CAMERA:
            self._capture = cv2.VideoCapture(address.place, cv2.CAP_V4L2)
        else:
            self._capture = cv2.VideoCapture(address.place, cv2.CAP_FFMPEG, limits)
        if not self._capture.isOpened():
            raise _not_opened(address)
        rate = float(self._capture.get(cv2.CAP_PROP_FPS))
        self.fps = exact_rate(rate) if 0 < rate <= MOST_FPS else None  # OpenCV has it as a float
        count = self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        self.frame_count = int(count) if 0 < count < 1e12 and address.live is not True else None
        self.live = live if address.live is not None else self.frame_count is None

    def frames(self) -> Generator[Timed, None, None]:
        """Every frame as RGB. Raises UsageError for a file without any."""
        import cv2

        given = 0
        try:
            while True:
                found, pixels = self._capture.read()
                if not found:
                    break
                milliseconds = float(self._capture.get(cv2.CAP_PROP_POS_MSEC))
                time_s = Fraction(round(milliseconds * 1e3), 1_000_000) if np.isfinite(milliseconds) else None
                given += 1
                yield Timed(self._image(pixels), time_s)
            if not given and not self.live:
                raise UsageError(
                    "the video has no frame that can be decoded", where=self._address.shown,
                    hint="the file is damaged or empty: play it, or record it again", code="no-frames",
                )  # fmt: skip
        finally:
            self._capture.release()

    def close(self) -> None:
        """Close what was opened and is not read."""
        self._capture.release()

    def _image(self, pixels: Any) -> Image:
        import cv2

        code = cv2.COLOR_GRAY2RGB if pixels.ndim == 2 else cv2.COLOR_BGR2RGB
        return Image(np.asarray(cv2.cvtColor(pixels, code), np.uint8), ColorFormat.RGB, self._address.shown)


def _not_opened(address: Address) -> UsageError | EnvironmentFault:
    if address.kind is Kind.VIDEO:
        return UsageError(
            "cannot be read as a picture, a folder of pictures or a video: OpenCV does not open it",
            where=address.shown, hint="backend='ffmpeg' says why", code="cannot-read",
        )  # fmt: skip
    code = "no-camera" if address.kind is Kind.CAMERA else "source-silent"
    return EnvironmentFault(
        "OpenCV cannot open it", where=address.shown, hint="check that it is there and that nobody else holds it",
        code=code,
    )  # fmt: skip
