"""Where what a calibration pass saw is kept: a file, or a folder with one file for each pass.

The key is made of all that the pass depends on: the models that are run and what is looked at, the samples as they are
fed, and the versions. What is found is what the pass would give again, bit for bit.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from platform import machine

import numpy as np

from axtool import __version__
from axtool.config import refuse_special, write_whole
from axtool.errors import AxError, EnvironmentFault, UsageError
from axtool.inputs.samples import Samples
from axtool.quant.observe import Seen, Work
from axtool.quant.seen_file import pack, unpack

log = logging.getLogger("axtool")

MAGIC = b"axtool.calib/1\n"
SUFFIX = ".axcal"
_KEY, _CHECK = 32, 32  # bytes behind the magic: what it is of, and a digest of what follows


@dataclass(frozen=True)
class CalibCache:
    """A folder, or one file that holds the last pass."""

    path: Path
    is_folder: bool

    def entry(self, work: Work, samples: Samples, held: Collection[int]) -> Entry:
        """The place of one pass. Reads the samples, and runs nothing."""
        key = key_of(work, samples, held)
        return Entry(self.path / f"{key.hex()[:32]}{SUFFIX}" if self.is_folder else self.path, key)


@dataclass(frozen=True)
class Entry:
    """The file of one pass, which may hold another one or none."""

    path: Path
    key: bytes

    def read(self, work: Work) -> tuple[Seen, Seen] | None:
        """What the pass saw, of most samples and of those held back; None, with a warning, where it is not there."""
        if not self.path.exists():
            return None
        try:
            seen, apart = unpack(self._body(), work, 2)
        except OSError as error:
            log.warning("%s cannot be read: %s; calibrating anew", self.path, error.strerror)
            return None
        except ValueError as error:
            log.warning("%s %s: calibrating anew, and replacing it", self.path, error)
            return None
        log.info("calibration is taken from %s", self.path)
        return seen, apart

    def _body(self) -> bytes:
        """What is behind the head. Raises ValueError where it is of another pass, or damaged."""
        refuse_special(self.path)
        data = self.path.read_bytes()
        head = len(MAGIC) + _KEY
        if data[:head] != MAGIC + self.key:
            raise ValueError("is of another model, other samples, options or versions")
        if data[head : head + _CHECK] != _digest(data[head + _CHECK :]):
            raise ValueError("is damaged")
        return data[head + _CHECK :]

    def write(self, seen: Seen, apart: Seen) -> None:
        """Keep what a pass saw, whole or not at all; where that cannot be, it is said and does no harm."""
        try:
            body = pack((seen, apart))
            write_whole(self.path, MAGIC + self.key + _digest(body) + body, force=True)
        except (ValueError, AxError) as error:
            log.warning("the calibration is not kept in %s: %s", self.path, error)


def open_cache(text: str) -> CalibCache:
    """The cache at a path: a folder that is there, or is made of a name that ends in / or has no ending; else a file.

    Raises UsageError where there can be neither, and for a file that is something else: it is not ours to replace.
    """
    if not text:  # what a script makes of a variable that is not set; as a path it would be the folder around
        hint = "give the name of a folder or a file"
        raise UsageError("--calib-cache is empty", hint=hint, code="bad-option")
    path = Path(text)
    refuse_special(path)
    folder = path.is_dir() or (not path.exists() and (text.endswith("/") or not path.suffix))
    if not path.parent.is_dir():
        what = f"folder {path.parent} does not exist"
        raise UsageError(what, where=text, hint="make the folder first", code="no-such-folder")
    try:
        if folder:
            path.mkdir(exist_ok=True)
        elif path.exists():
            with path.open("rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    hint = "give the name of a folder, or of a file that is new"
                    raise UsageError("is no calibration cache", where=text, hint=hint, code="not-calib-cache")
    except OSError as error:
        what = f"cannot be a calibration cache: {error.strerror}"
        raise EnvironmentFault(what, where=text, hint="choose another place", code="cannot-write") from error
    return CalibCache(path, folder)


def key_of(work: Work, samples: Samples, held: Collection[int]) -> bytes:
    """A digest of everything that a pass depends on."""
    import onnxruntime

    whole = hashlib.sha256()

    def add(*words: object) -> None:
        text = repr(words).encode("utf-8", "backslashreplace")
        whole.update(len(text).to_bytes(8, "little") + text)

    add("axtool", __version__, "onnxruntime", onnxruntime.__version__, "numpy", np.__version__, machine())
    add(work.observed_inputs, work.histograms, work.watched, sorted(work.averaged.items()), work.kept, sorted(held))
    add(sorted(work.spread))
    for piece in work.pieces:
        add(piece.inputs, piece.outputs, piece.observed, hashlib.sha256(piece.model).hexdigest())
    for feeds in samples:
        for name, array in feeds.items():
            numbers = repr(array.tolist()).encode("utf-8", "backslashreplace") if array.dtype.kind == "O" else b""
            digest = hashlib.blake2b(numbers or np.ascontiguousarray(array).data, digest_size=32)
            add(name, array.dtype.str, array.shape, digest.hexdigest())
        add("end")
    return whole.digest()


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_CHECK).digest()
