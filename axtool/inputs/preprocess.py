"""`file.py:function`  ->  the user's own preparation of an image; its faults are told with file and line."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.config import refuse_special
from axtool.errors import UsageError, nearest


@dataclass(frozen=True, slots=True)
class Preprocess:
    """A function of a Python file, loaded when it is first called, so that it travels to other processes by name.

    It takes an RGB uint8 array (h, w, 3) and gives the model's input, with or without the batch axis.
    """

    path: str
    function: str

    def __call__(self, image: NDArray[np.uint8]) -> NDArray[Any]:
        """The prepared array. Raises UsageError with the user's file and line when the function fails."""
        function = _load(self.path, self.function)
        try:
            result = function(image)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit too: it would end the command as if all were done
            raise _fault(self.path, error) from error
        if not isinstance(result, np.ndarray) or result.dtype.kind not in "biuf":
            kind = f"{result.dtype} array" if isinstance(result, np.ndarray) else type(result).__name__
            raise UsageError(
                f"{self.function} returned {kind}, want an array of numbers", where=self.path, code="preprocess"
            )
        return result

    def __str__(self) -> str:
        return f"{self.path}:{self.function}"


def load_preprocess(text: str) -> Preprocess:
    """The function that `file.py:function` names, checked. Raises UsageError."""
    path, colon, function = text.rpartition(":")
    if not colon or not function.isidentifier():
        raise UsageError(
            f"'{text}' is not file.py:function", code="preprocess", hint="for example --preprocess prepare.py:prepare"
        )
    _load(path, function)
    return Preprocess(path, function)


def _load(path: str, name: str) -> Callable[[NDArray[np.uint8]], Any]:
    module = _module(path, _version(path))
    function = vars(module).get(name)  # no getattr: a module's own __getattr__ is not asked
    if not callable(function):
        known = sorted(key for key, value in vars(module).items() if callable(value) and not key.startswith("_"))
        raise UsageError(f"there is no function '{name}'", where=path, hint=nearest(name, known), code="preprocess")
    return function  # type: ignore[no-any-return]


def _version(path: str) -> tuple[object, ...]:
    """What tells the file from another one of the same name, and from itself after a change."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ()
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


@lru_cache(maxsize=16)
def _module(path: str, version: tuple[object, ...]) -> ModuleType:
    """The file as a module of its own, outside sys.modules; read once for each `version` of it."""
    module = ModuleType(Path(path).stem)
    module.__file__ = path
    refuse_special(Path(path))
    try:
        source = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"cannot read: {reason}", where=path, code="file-not-found") from error
    try:
        exec(compile(source, path, "exec"), vars(module))
    except SyntaxError as error:
        where = path if error.lineno is None else f"{path}:{error.lineno}"
        raise UsageError(f"SyntaxError: {error.msg}", where=where, code="preprocess") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _fault(path, error) from error
    return module


def _fault(path: str, error: BaseException) -> UsageError:
    """The error with the last line of the user's file that led to it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    where = f"{path}:{lines[-1]}" if lines else path
    told = f"it ended the program, {error!r}" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    return UsageError(told, where=where, code="preprocess")
