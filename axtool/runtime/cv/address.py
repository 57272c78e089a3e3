"""A path, a device or a URL, perhaps with a pace behind it  ->  what kind of source it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from axtool.config import refuse_special
from axtool.errors import EnvironmentFault, UsageError, nearest
from axtool.inputs.images import is_image_name
from axtool.runtime.cv.rates import MOST_FPS

LIVE_SCHEMES = ("rtsp", "rtsps", "rtp", "rtmp", "rtmps", "srt", "udp", "tcp", "mjpeg")
SCHEMES = (*LIVE_SCHEMES, "http", "https", "file")

_PACE = re.compile(r"(?P<place>.+)@(?P<pace>auto|\d+(?:\.\d+)?|\d+/\d+)", re.DOTALL | re.ASCII)
_CAMERA = re.compile(r"/dev/(?:video\d+|v4l/.+)")
# A password is meant to have its / and @ written as %2F and %40. Where they are not, all up to the last @ is hidden;
# but what is behind host:554/ is a path.
_SECRET = re.compile(r"(://[^/@:]*):(?!\d{1,5}(?:[/?#]|$)).*@", re.DOTALL | re.ASCII)
_WORDS = r"pass(?:word|wd|phrase)?|pwd|token|secret|sig(?:nature)?|api_?key|auth"  # user=admin_password=… of cameras
_SAID = re.compile(rf"((?:\b|_)(?:{_WORDS})=)[^&/\s]+", re.IGNORECASE)

Pace = Fraction | Literal["auto"] | None  # frames a second, the source's own times, or as fast as it can be read


class Kind(StrEnum):
    """What a source reads."""

    PICTURE = "picture"
    FOLDER = "folder"
    VIDEO = "video"
    CAMERA = "camera"
    NETWORK = "network"


@dataclass(frozen=True)
class Address:
    """`place` is what is opened, `shown` what messages say of it: passwords are left out."""

    kind: Kind
    place: str
    shown: str
    pace: Pace = None

    @property
    def live(self) -> bool | None:
        """Whether frames are lost when nobody takes them; None where only the opened address can say."""
        if self.kind is not Kind.NETWORK:
            return self.kind is Kind.CAMERA
        return True if self.place.partition("://")[0].lower() in LIVE_SCHEMES else None


def address_of(text: str) -> Address:
    """What `text` names. Raises UsageError for what cannot be a source, EnvironmentFault for a missing camera."""
    if "\0" in text or not text:
        raise UsageError(
            "a source has no name without letters, or with a NUL", where=text.replace("\0", "\\0"),
            hint="give a path, /dev/video0 or a URL", code="cannot-read",
        )  # fmt: skip
    place, pace = _split_pace(text)
    if "://" in place:
        return _url(place, pace)
    if _CAMERA.fullmatch(place):
        return _camera(place, pace)
    return _path(Path(place), pace)


def _split_pace(text: str) -> tuple[str, Pace]:
    """A text and the pace behind it. What exists under the whole name has none, nor has the user of a bare URL."""
    found = _PACE.fullmatch(text)
    if found is None or _names_user(text) or _exists(Path(text)):
        return text, None
    if found["pace"] == "auto":
        return found["place"], "auto"
    numerator, _, denominator = found["pace"].partition("/")
    pace = Fraction(numerator) / Fraction(denominator or 1) if denominator.strip("0") or not denominator else Fraction()
    if not 0 < pace <= MOST_FPS:
        raise UsageError(
            f"a pace of {found['pace']} frames a second", where=found["place"],
            hint=f"say more than 0 and at most {MOST_FPS}, or @auto for the times of the video", code="bad-option",
        )  # fmt: skip
    return found["place"], pace


def _names_user(text: str) -> bool:
    """Whether the last @ stands before the host: rtsp://user@10."""
    scheme, separator, rest = text.partition("://")
    return bool(separator and scheme) and "@" not in rest.partition("/")[2]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _url(place: str, pace: Pace) -> Address:
    scheme, _, rest = place.partition("://")
    scheme = scheme.lower()  # FFmpeg knows them in no other way
    place = f"{scheme}://{rest}"
    shown = _SAID.sub(r"\1***", _SECRET.sub(r"\1:***@", place))
    if scheme not in SCHEMES:
        raise UsageError(
            f"cannot be read as a picture, a folder of pictures or a video: '{scheme}' is no kind of address",
            where=shown[:200], hint=nearest(scheme, SCHEMES), code="cannot-read",
        )  # fmt: skip
    if scheme == "file":
        return _path(_local(place), pace)
    if not rest.strip("/"):
        raise UsageError("an address without a host", where=shown, hint="rtsp://camera/path", code="cannot-read")
    address = Address(Kind.NETWORK, place, shown, pace)
    if pace is not None and address.live:
        raise _own_pace(shown)
    return address


def _local(place: str) -> Path:
    """The file of a file:// URL. Raises UsageError for one on another machine."""
    host, separator, path = place.partition("://")[2].partition("/")
    if host.lower() not in ("", "localhost"):
        raise UsageError(
            f"a file on the machine '{host}'", where=place, hint="a file of this machine is file:///path, or its path",
            code="cannot-read",
        )  # fmt: skip
    return Path(unquote(separator + path))


def _camera(place: str, pace: Pace) -> Address:
    if not _exists(Path(place)):
        there = sorted(str(path) for path in Path("/dev").glob("video*"))
        raise EnvironmentFault(
            "there is no such camera", where=place,
            hint=f"there are {', '.join(there)}" if there else "this machine shows none", code="no-camera",
        )  # fmt: skip
    if pace is not None:
        raise _own_pace(place)
    return Address(Kind.CAMERA, place, place)


def _own_pace(shown: str) -> UsageError:
    return UsageError(
        "a live source comes at its own pace", where=shown, hint="leave out what is behind the @", code="bad-option"
    )


def _path(path: Path, pace: Pace) -> Address:
    refuse_special(path)
    kind = Kind.FOLDER if path.is_dir() else Kind.PICTURE if is_image_name(path) else Kind.VIDEO
    if not _exists(path):
        before, at, _ = str(path).rpartition("@")
        hint = "a source is a picture, a folder of pictures, a video, /dev/video0 or a URL"
        if at and _exists(Path(before)):
            hint = "behind the @ stands how many frames a second, or auto for the times of the video"
        raise UsageError("there is no such file or folder", where=str(path), hint=hint, code="file-not-found")
    if pace == "auto" and kind is not Kind.VIDEO:
        raise UsageError(
            "pictures have no times of their own", where=str(path), hint="say how many a second: @30", code="bad-option"
        )
    return Address(kind, str(path), str(path), pace)
