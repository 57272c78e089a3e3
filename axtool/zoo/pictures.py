"""The picture sets of a config  ->  paths that `--calib` and `--data` take. Made pictures are kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from axtool.config import write_whole
from axtool.inputs.images import read_image
from axtool.zoo.catalogue import Entry
from axtool.zoo.schema import FilePictures, Scenes, WheelPictures
from axtool.zoo.sources import cache_dir, pictures_of


def paths_of(entry: Entry, sets: Sequence[WheelPictures | FilePictures | Scenes]) -> tuple[str, ...]:
    """Files and folders, in the order of the config. Fetches and makes what is not there yet."""
    paths: list[Path] = []
    for item in sets:
        if isinstance(item, FilePictures):
            paths.append(entry.file(item.path))
        elif isinstance(item, WheelPictures):
            paths += _from_wheel(item)
        else:
            paths.append(_made(item))
    return tuple(str(path) for path in paths)


def _from_wheel(item: WheelPictures) -> list[Path]:
    return pictures_of(item.package, item.version, item.paths)


def _made(item: Scenes) -> Path:
    from axtool.zoo.scenes import VERSION, make

    key = hashlib.sha256(f"{VERSION} {item.model_dump_json()}".encode()).hexdigest()[:16]
    folder = cache_dir() / "made" / key
    done = folder / "complete"
    if not done.is_file():
        base = [read_image(path) for source in item.base for path in _from_wheel(source)]
        folder.mkdir(parents=True, exist_ok=True)
        for index, image in enumerate(make(item.generator, item.count, item.seed, item.size, base, turn=item.turn)):
            write_whole(folder / f"{index:04d}.png", png(image), force=True)
        done.touch()
    return folder


def png(image: NDArray[np.uint8]) -> bytes:
    """An RGB picture as PNG bytes."""
    import cv2

    return bytes(cv2.imencode(".png", np.ascontiguousarray(image[:, :, ::-1]))[1].tobytes())
