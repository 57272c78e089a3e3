"""Operators that look on: what they are given goes on unchanged."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from axtool.runtime.image import Image
from axtool.runtime.op.operator import Operator, Unpacked


class Observer(Operator):
    """Call a function with what passes by; its result is not used. A copy calls the same function."""

    fn: Callable[..., Any]
    stateful: ClassVar[bool] = True

    def __call__(self, *values: Any) -> Any:
        self.fn(*values)
        return values[0] if len(values) == 1 else Unpacked(values)


class Dumper(Operator):
    """Write what passes by to FOLDER/STEM-NUMBER, and count the numbers up from 0.

    Arrays and pictures become .npy, several at once .npz, results (lists of what the ax_ operators make) .json. The
    folder is made when it is missing; files of an earlier run are written over. A copy goes on with the numbers of its
    original. Raises TypeError for anything else.
    """

    folder: str | Path
    stem: str = "frame"
    portable: ClassVar[bool] = False  # a file that one is given must not say where to write
    stateful: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._numbers = count()

    def __call__(self, *values: Any) -> Any:
        stem = f"{self.stem}-{next(self._numbers):06d}"
        dump(Path(self.folder), stem, values[0] if len(values) == 1 else tuple(values))
        return values[0] if len(values) == 1 else Unpacked(values)


def dump(folder: Path, stem: str, value: Any) -> Path:
    """Write one value to a new file; the file. Raises TypeError for what is neither array, picture nor result."""
    folder.mkdir(parents=True, exist_ok=True)
    array, several = _array(value), _arrays(value)
    if array is not None:
        path = folder / f"{stem}.npy"
        np.save(path, array, allow_pickle=False)
    elif several:
        path = folder / f"{stem}.npz"
        np.savez(path, allow_pickle=False, **several)
    else:
        path = folder / f"{stem}.json"
        path.write_text(json.dumps(_plain(value), indent=2) + "\n", encoding="utf-8")
    return path


def _array(value: Any) -> Any:
    if isinstance(value, Image):
        return value.to_numpy()
    known = isinstance(value, (np.ndarray, np.generic)) or (hasattr(value, "__array__") and hasattr(value, "dtype"))
    array = np.asarray(value) if known else None
    return None if array is None or array.dtype.hasobject else array


def _arrays(value: Any) -> dict[str, Any]:
    """The arrays of a tuple or list, by the names of a named tuple or by their place; empty where one is no array."""
    if not isinstance(value, (tuple, list)) or not value:
        return {}
    names = getattr(value, "_fields", None) or [f"{index}" for index in range(len(value))]
    found = {name: _array(item) for name, item in zip(names, value, strict=True)}
    return found if all(array is not None for array in found.values()) else {}


def _plain(value: Any) -> Any:
    """A result as JSON has it."""
    if isinstance(value, Enum):
        return {"id": value.value, "name": value.name}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        return {name: _plain(getattr(value, name)) for name in shown}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    array = _array(value)
    if array is None:
        raise TypeError(f"dumper writes arrays, pictures and results, got {type(value).__name__}")
    return array.tolist()
