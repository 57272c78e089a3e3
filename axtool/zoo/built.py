"""The compiled file of an entry in the cache: where it is kept, and whether it is still what would be made today."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import axtool
from axtool.config import package_dir, write_whole
from axtool.quant.recipe_file import is_file_name
from axtool.target_file import load_target, target_to_dict
from axtool.zoo.catalogue import Entry
from axtool.zoo.schema import FilePictures
from axtool.zoo.sources import cache_dir


def built_path(entry: Entry, target: str) -> Path:
    """Where the compiled file of an entry is kept, whether it is there or not."""
    name = entry.config.name
    if entry.root != package_dir("zoo"):  # of one's own: two folders may have configs of one name
        name += f"-{hashlib.sha256(str(entry.path).encode()).hexdigest()[:12]}"
    return cache_dir() / "built" / name / Path(target).stem / f"{entry.config.name}.axm"


def is_current(path: Path, made_from: dict[str, Any]) -> bool:
    """Whether a kept file was made from the same: config, model, pictures, target and compiler.

    A model whose digest is not known (one that the user has, and does not name now) is taken to be the same.
    """
    try:
        kept = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(kept, dict) or not path.is_file():
        return False
    known = dict(made_from) if made_from["model"] else {**made_from, "model": kept.get("model")}
    return kept == known


def keep(path: Path, data: bytes, made_from: dict[str, Any]) -> None:
    """Write a compiled file and what it was made from, which comes last: half of it is never taken for whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    note = path.with_suffix(".json")
    note.unlink(missing_ok=True)
    write_whole(path, data, force=True)
    write_whole(note, json.dumps(made_from, sort_keys=True).encode(), force=True)


def made_from(entry: Entry, target: str, model: Path | None = None) -> dict[str, Any]:
    """What decides the bytes of a compiled file, as digests. `model` is the source where it is a file on this machine;
    without one the digest that the config names stands for it.
    """
    recipe, named = entry.config.quantization.recipe, getattr(entry.config.source, "sha256", None)
    return {
        "axtool": axtool.__version__,
        "compiler": _code(),
        "config": _digest(entry.config.model_dump_json().encode()),
        "model": _digest(model.read_bytes()) if model is not None else named if isinstance(named, str) else None,
        "pictures": _pictures(entry),
        "quantization": _file(entry.file(recipe)) if recipe and is_file_name(recipe) else None,
        "target": _digest(json.dumps(target_to_dict(load_target(target)), sort_keys=True).encode()),
    }


def _pictures(entry: Entry) -> str:
    """The calibration pictures that are files: by name, size and time. Those of wheels are the config's."""
    found = []
    for item in entry.config.calibration:
        if isinstance(item, FilePictures):
            path = entry.file(item.path)
            files = sorted(path.iterdir()) if path.is_dir() else [path]
            found += [(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.is_file()]
    return _digest(json.dumps(found).encode())


@lru_cache(maxsize=1)
def _code() -> str:
    """The compiler itself: another state of its sources may make other bytes."""
    root = Path(axtool.__file__).parent
    folded = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        folded.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return folded.hexdigest()


def _file(path: Path) -> str | None:
    """None for a file that is not there, which the compiler tells."""
    return _digest(path.read_bytes()) if path.is_file() else None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
