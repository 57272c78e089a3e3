"""calib.npz  ->  its samples one after the other, for the scripts beside this file: no quantizer is charged for
pictures that it did not ask to keep.

The scripts run in environments that know nothing of this package. Each takes MODEL.onnx CALIB.npz OUT, writes OUT, and
prints one JSON line.
"""

from __future__ import annotations

import json
import sys
import time
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np


class Samples:
    """Feeds by input name. As an iterable it begins anew each time; `get_next` goes through it once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._left = iter(self)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with zipfile.ZipFile(self.path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            columns = [_rows(archive, f"{name}.npy") for name in names]
            for values in zip(*columns, strict=True):
                yield dict(zip(names, values, strict=True))

    def get_next(self) -> dict[str, Any] | None:
        """As onnxruntime's CalibrationDataReader wants it."""
        return next(self._left, None)

    def __next__(self) -> dict[str, Any]:
        return next(self._left)

    def rewind(self) -> None:
        """`get_next` begins anew."""
        self._left = iter(self)

    def reset_iter(self) -> None:
        """The same, by the name that Quark calls."""
        self.rewind()


def _rows(archive: zipfile.ZipFile, member: str) -> Iterator[np.ndarray[Any, Any]]:
    """The entries of an array (n, ...) as (1, ...), read from the file one at a time."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        (count, *shape), fortran, dtype = read(file)
        if fortran:
            raise ValueError(f"{member} is in Fortran order")
        size = int(np.prod(shape)) * dtype.itemsize
        for _ in range(count):
            yield np.frombuffer(file.read(size), dtype).reshape(1, *shape)


def arguments() -> tuple[str, Samples, str, list[str]]:
    """Model, samples, the file to write, and what else was given."""
    model, calibration, out, *rest = sys.argv[1:]
    return model, Samples(calibration), out, rest


def done(name: str, version: str, imports_cpu_s: float) -> None:
    """The line that says what was run; `imports_cpu_s` is the CPU that was gone before the work began."""
    cpu_s = time.process_time()
    told = {"tool": name, "version": version, "imports_cpu_s": round(imports_cpu_s, 3), "cpu_s": round(cpu_s, 3)}
    print(json.dumps(told), flush=True)
