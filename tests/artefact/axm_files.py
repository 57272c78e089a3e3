"""Take an .axm file apart, change it, and put it together again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

Manifest = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Change = Callable[[Manifest, Arrays], None]


def open_file(path: Path) -> tuple[Manifest, Arrays]:
    with safe_open(path, framework="np") as file:
        return json.loads(file.metadata()["axm"]), {name: np.array(file.get_tensor(name)) for name in list(file.keys())}


def changed(source: Path, target: Path, change: Change) -> Path:
    """A copy of `source` after `change` worked on its manifest and arrays in place."""
    manifest, arrays = open_file(source)
    change(manifest, arrays)
    return with_text(source, target, json.dumps(manifest), arrays)


def with_text(source: Path, target: Path, text: str, arrays: Arrays | None = None) -> Path:
    """A file with this manifest, whatever it is."""
    data = open_file(source)[1] if arrays is None else arrays
    target.write_bytes(save(data, metadata={"axm": text}))
    return target


def device(manifest: Manifest) -> Any:
    """The first device stage."""
    return next(stage for stage in manifest["stages"] if stage["kind"] == "device")
