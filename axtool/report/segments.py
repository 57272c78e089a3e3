"""Layers  ->  the segment of each: runs of layers that belong to one block of the model.

The block of a layer is read from the name of the first node that it came from: exporters write the path of a module
into it (`/layer3/layer3.4/conv1/Conv`). What all names begin with is no block. A block that holds more than an eighth
of the layers, and more than eight, is divided by the next part of the path. A segment is a run of layers of one block.

Where names say nothing (`Conv_41`), or would cut the model into segments of about one layer, the segment is a run of
layers whose outputs have one height and width, and is called by it: `56x56`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

SHARE = 8  # a block of more than 1/SHARE of the layers is divided ...
FEWEST = 8  # ... unless it has no more than so many

Path = tuple[str, ...]


def segments(origins: Sequence[Sequence[str]], sizes: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """The name of the segment of every layer. `sizes` are (height, width) of the outputs.

    A block that is interrupted by another makes two segments of one name; who sums goes by runs.
    """
    blocks = _blocks([_path(origin) for origin in origins])
    runs = _runs(blocks)
    if 1 < runs <= len(blocks) / 2:
        return tuple("/".join(block) or "(top)" for block in blocks)
    return tuple(f"{height}x{width}" for height, width in sizes)


def _path(origin: Sequence[str]) -> Path | None:
    """Modules around the first node; None for a layer that came from none, or from one at the top."""
    first = origin[0].split(";")[0] if origin else ""  # converters join the names of what they fuse by semicolons
    parts = tuple(part for part in first.split("/") if part)
    return parts[:-1] or None


def _blocks(paths: Sequence[Path | None]) -> list[Path]:
    """Layers without a path belong to the block in front of them."""
    known = [path for path in paths if path is not None]
    common = _common(known)
    limit = max(FEWEST, len(paths) / SHARE)
    depth = dict.fromkeys(_divided(known, len(common) + 1, limit), 0)
    found: list[Path] = []
    for path in paths:
        if path is None:
            found.append(found[-1] if found else ())
        else:
            found.append(next(path[len(common) : end] for end in _ends(path, common) if path[:end] in depth))
    return found


def _ends(path: Path, common: Path) -> Iterable[int]:
    return range(min(len(common) + 1, len(path)), len(path) + 1)


def _divided(paths: Sequence[Path], length: int, limit: float) -> list[Path]:
    """The blocks: prefixes of `length` parts, longer ones where too many layers share a shorter one."""
    made: list[Path] = []
    for prefix, group in groupby(sorted(paths), key=lambda path: path[:length]):
        members = list(group)
        deeper = any(len(path) > length for path in members)
        made += _divided(members, length + 1, limit) if deeper and len(members) > limit else [prefix]
    return made


def _common(paths: Sequence[Path]) -> Path:
    """What all paths begin with; every path keeps its last part."""
    if not paths:
        return ()
    low, high = min(paths), max(paths)
    length = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[: min(length, min(map(len, paths)) - 1)]


def _runs(blocks: Sequence[Path]) -> int:
    return sum(1 for _ in groupby(blocks))
