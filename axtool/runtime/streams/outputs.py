"""Where the frames of a stream go: a video, a folder of pictures, lines of JSON. All whole, or not there at all.

Each output has `write`, `finish` and `discard`. What is written has a temporary name until `finish`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, Protocol

from axtool.config import refuse_overwrite, write_whole
from axtool.errors import EnvironmentFault, UsageError, nearest
from axtool.runtime import cv
from axtool.runtime.image import Image
from axtool.runtime.streams.pipeline import Seen
from axtool.runtime.streams.sources import Watched

VIDEO_SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv")
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
DEFAULT_FPS = Fraction(25)  # of a video from a source that does not say its rate


class Output(Protocol):
    """What keeps the frames of one source."""

    path: Path

    def write(self, frame: Any, seen: Seen) -> None:
        """The next frame."""

    def finish(self) -> None:
        """All frames are there: give the file its name."""

    def discard(self) -> None:
        """Leave nothing behind."""


class VideoFile:
    """The drawn frames as a video, at the rate of the source."""

    def __init__(self, path: Path, fps: Fraction | None, *, force: bool) -> None:
        self.path, self._fps, self._force = path, fps or DEFAULT_FPS, force
        self._writer: cv.VideoWriter | None = None

    def write(self, frame: Any, seen: Seen) -> None:
        """One frame; the first one says the size."""
        assert seen.drawn is not None  # the pipeline draws where something is to be saved
        if self._writer is None:
            self._writer = cv.VideoWriter(self.path, self._fps, force=self._force)
        self._writer.write(Image.from_array(seen.drawn, "BGR"))

    def finish(self) -> None:
        """Close and rename. A source without frames leaves no file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def discard(self) -> None:
        """Leave nothing behind."""
        if self._writer is not None:
            self._writer.discard()
            self._writer = None


class PictureFiles:
    """Each drawn frame as a picture: into a file, or into a folder by the name of the picture that was read."""

    def __init__(self, path: Path, *, force: bool) -> None:
        self.path, self._force = path, force
        self._single = path.suffix.lower() in PICTURE_SUFFIXES
        self._written: list[Path] = []

    def write(self, frame: Any, seen: Seen) -> None:
        """One frame."""
        import cv2

        assert seen.drawn is not None
        path = self.path if self._single else self._named(frame)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = bytes(cv2.imencode(path.suffix, seen.drawn)[1].tobytes())
        write_whole(path, data, force=self._force)
        self._written.append(path)

    def finish(self) -> None:
        """Every picture was whole when it was written."""

    def discard(self) -> None:
        """Take back what this run wrote."""
        for path in self._written:
            path.unlink(missing_ok=True)

    def _named(self, frame: Any) -> Path:
        stem = Path(getattr(frame, "source", "") or f"{len(self._written):06d}").stem
        path = self.path / f"{stem}.png"
        if path in self._written:  # two folders below have a picture of the same name
            path = self.path / f"{stem}-{len(self._written):06d}.png"
        return path


class ResultLines:
    """One JSON object a line for every frame of every source: source, frame (from 0) and result."""

    def __init__(self, path: Path, *, force: bool) -> None:
        self.path, self._force = path, force
        self._file: IO[str] | None = None
        self._temporary = ""

    def write(self, source: str, index: int, seen: Seen) -> None:
        """The result of one frame. Raises EnvironmentFault when the disk refuses."""
        try:
            if self._file is None:
                handle, self._temporary = tempfile.mkstemp(
                    prefix=".axtool-", suffix=".tmp", dir=self.path.resolve().parent
                )
                self._file = os.fdopen(handle, "w", encoding="utf-8")
            line = {"source": source, "frame": index, "result": seen.result}
            self._file.write(json.dumps(line, sort_keys=True, allow_nan=False) + "\n")
        except OSError as error:
            raise _refused(self.path, error) from error

    def finish(self) -> None:
        """Give the file its name. Without frames there is an empty one."""
        try:
            if self._file is None:
                write_whole(self.path, b"", force=self._force)
                return
            self._file.close()
            refuse_overwrite(self.path, force=self._force)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(self._temporary, 0o666 & ~mask)
            os.replace(self._temporary, self.path.resolve())
        except OSError as error:
            raise _refused(self.path, error) from error
        self._file = None

    def discard(self) -> None:
        """Leave nothing behind."""
        if self._file is not None:
            self._file.close()
            Path(self._temporary).unlink(missing_ok=True)
            self._file = None


def outputs_of(save: str | None, sources: Sequence[Watched], *, force: bool, inputs: Sequence[Path]) -> list[Any]:
    """An Output for each source, None without `save`: a file, a folder, or a pattern with {name} or {index}.

    Raises UsageError, before anything is read, for a name of no kind, one file for several sources, and files that are
    there already without `force`.
    """
    if save is None:
        return [None] * len(sources)
    paths = [_path_for(save, source, index, len(sources)) for index, source in enumerate(sources)]
    if len(set(paths)) < len(paths):
        raise UsageError(
            "two sources would be saved to one file", where=save, hint="name them apart with {index}: out-{index}.mp4",
            code="bad-option",
        )  # fmt: skip
    made: list[Any] = []
    for path, source in zip(paths, sources, strict=True):
        suffix = path.suffix.lower()
        if source.kind == "pictures" and suffix not in VIDEO_SUFFIXES:
            if suffix in PICTURE_SUFFIXES:
                if source.total != 1:
                    raise UsageError(
                        f"{source.reader.name} do not go into one picture", where=str(path),
                        hint="name a folder, or a video", code="bad-option",
                    )  # fmt: skip
                refuse_overwrite(path, force=force, inputs=inputs)
            elif path.exists() and not path.is_dir():
                raise UsageError("is no folder", where=str(path), hint="choose another name", code="output-exists")
            made.append(PictureFiles(path, force=force))
            continue
        if suffix not in VIDEO_SUFFIXES:
            hint = nearest(suffix, VIDEO_SUFFIXES)
            raise UsageError(f"--save {path}: want {', '.join(VIDEO_SUFFIXES)}", hint=hint, code="bad-option")
        if not path.parent.exists() and (save.endswith("/") or not Path(save).suffix):
            path.parent.mkdir(parents=True)
        refuse_overwrite(path, force=force, inputs=inputs)
        made.append(VideoFile(path, source.fps, force=force))
    return made


def _path_for(save: str, source: Watched, index: int, count: int) -> Path:
    pattern = "{name}" in save or "{index}" in save
    text = save.replace("{name}", source.short).replace("{index}", str(index))
    path = Path(text)
    folder = path.is_dir() or save.endswith("/") or not path.suffix
    if pattern and not folder:
        return path
    if folder and source.kind == "pictures":
        return path if count == 1 or pattern else path / source.short
    if folder:
        return path / f"{source.short}.mp4"
    if count > 1:
        raise UsageError(
            f"--save {save}: {count} sources do not go into one file", hint="name a folder, or say out-{name}.mp4",
            code="bad-option",
        )  # fmt: skip
    return path


def _refused(path: Path, error: OSError) -> EnvironmentFault:
    return EnvironmentFault(
        f"cannot write: {error.strerror}", where=str(path), hint="check the space and the permissions of the folder",
        code="cannot-write",
    )  # fmt: skip
