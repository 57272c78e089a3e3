"""What one calibration pass saw  <->  bytes: a compressed safetensors file, checked in every part when it is read.

Every number survives exactly. Histograms are stored without their empty bins.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.quant.data import DataFacts, Fact
from axtool.quant.means import ChannelMeans
from axtool.quant.observe import Seen, Work
from axtool.quant.observers import HALF, Histogram, MinMax
from axtool.quant.spread import ChannelExtremes

MOST_BYTES = 1 << 30  # of one file, unpacked
_LEVEL = 1  # the fastest: half of the size at ten times the speed of the default
_NO_EXPONENT = -(2**31)
_BROKEN = (zlib.error, LookupError, TypeError, AttributeError, OverflowError, RecursionError)  # of what is read

Blobs = dict[str, NDArray[Any]]
Names = dict[str, Any]


def pack(parts: Sequence[Seen]) -> bytes:
    """The bytes of what was seen. Raises ValueError where an output is no array of numbers."""
    from safetensors.numpy import save

    blobs: Blobs = {}
    names: list[Names] = []
    for at, seen in enumerate(parts):
        assert {field.name for field in fields(Seen)} == set(_PACKED), "a part of Seen would be lost"
        part: Blobs = {}
        names.append({key: packed(getattr(seen, key), key, part) for key, (packed, _) in _PACKED.items()})
        blobs |= {f"{at}/{key}": array for key, array in part.items()}
    arrays = {key: np.asarray(array, order="C") for key, array in blobs.items()}  # a number stays without axes
    whole = save(arrays, metadata={"seen": json.dumps(names)})
    return zlib.compress(whole, _LEVEL)


def unpack(data: bytes, work: Work, count: int) -> tuple[Seen, ...]:
    """What was seen, of `count` parts, by that work. Raises ValueError with the reason for anything else."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        stream = zlib.decompressobj()
        whole = stream.decompress(data, MOST_BYTES)
        if not stream.eof or stream.unused_data:
            raise ValueError("is cut off, or larger than it should be")
        arrays: Blobs = load(whole)
        header = json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])
        names = json.loads(header["__metadata__"]["seen"])
        if not isinstance(names, list) or len(names) != count:
            raise ValueError(f"want {count} parts")
        return tuple(_part(names[at], at, arrays, work) for at in range(count))
    except (
        SafetensorError,
        zlib.error,
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ValueError(f"is damaged: {type(error).__name__}: {error}") from error


def _part(names: Names, at: int, arrays: Blobs, work: Work) -> Seen:
    """One part, whose names have to be those that the work sees."""
    mine = {key.removeprefix(f"{at}/"): array for key, array in arrays.items() if key.startswith(f"{at}/")}
    seen = Seen.nothing(work)
    for key, (_, unpacked) in _PACKED.items():
        setattr(seen, key, unpacked(names[key], key, mine, getattr(seen, key)))
    wrong = [name for _, name in seen.kept if name not in work.kept]
    wrong += [name for _, name in seen.means.means if name not in work.averaged]
    wrong += [name for name in seen.extremes.seen if name not in work.spread]
    if wrong:
        raise ValueError(f"holds '{wrong[0]}', which nobody asked for")
    return seen


def _pack_observers(observers: Mapping[str, MinMax], key: str, blobs: Blobs) -> list[str]:
    seen = list(observers.values())
    exponents = [getattr(one, "exponent", None) for one in seen]
    blobs[f"{key}/ends"] = np.array([(one.low, one.high) for one in seen], np.float64).reshape(-1, 2)
    blobs[f"{key}/numbers"] = np.array(
        [(o.count, o.nan, o.inf, _NO_EXPONENT if e is None else e) for o, e in zip(seen, exponents, strict=True)],
        np.int64,
    ).reshape(-1, 4)
    full = [np.flatnonzero(one.counts) for one in seen if isinstance(one, Histogram)]
    if full:
        counts = [one.counts[at] for one, at in zip(seen, full, strict=True) if isinstance(one, Histogram)]
        together = np.concatenate(counts)
        small = together.size and together.max() < 2**32
        blobs[f"{key}/sizes"] = np.array([at.size for at in full], np.int64)
        blobs[f"{key}/bins"] = np.concatenate(full).astype(np.uint16)
        blobs[f"{key}/counts"] = together.astype(np.uint32 if small else np.int64)
    return list(observers)


def _unpack_observers(names: list[str], key: str, blobs: Blobs, fresh: Mapping[str, MinMax]) -> dict[str, MinMax]:
    if names != list(fresh):
        raise ValueError("is of other tensors")
    count = len(names)
    ends, numbers = _array(blobs, f"{key}/ends", (count, 2), "f8"), _array(blobs, f"{key}/numbers", (count, 4), "i8")
    made: dict[str, MinMax] = {}
    at = 0
    for index, (name, one) in enumerate(fresh.items()):
        one.low, one.high = map(float, ends[index])
        one.count, one.nan, one.inf, exponent = map(int, numbers[index])
        if isinstance(one, Histogram):
            size = int(_array(blobs, f"{key}/sizes", (count,), "i8")[index])
            places = blobs[f"{key}/bins"][at : at + size].astype(np.intp)
            counts = blobs[f"{key}/counts"][at : at + size]
            if size < 0 or places.size != size or counts.size != size or (size and places.max() > 2 * HALF - 2):
                raise ValueError(f"the histogram of '{name}' is none")
            one.exponent = None if exponent == _NO_EXPONENT else exponent
            one.counts[places] = counts
            at += size
            if int(one.counts.sum()) != one.finite:
                raise ValueError(f"the histogram of '{name}' does not hold {one.finite} values")
        made[name] = one
    return made


def _pack_facts(facts: DataFacts, key: str, blobs: Blobs) -> dict[str, Any]:
    inputs = sorted({name for _, name in facts.facts})
    rows = list(facts.facts.items())
    places = [(index, inputs.index(name), fact.size) for (index, name), fact in rows]
    blobs[f"{key}/places"] = np.array(places, np.int64).reshape(-1, 3)
    blobs[f"{key}/ends"] = np.array([(fact.low, fact.high) for _, fact in rows], np.float64).reshape(-1, 2)
    return {"inputs": inputs, "count": facts.count, "digests": [fact.digest.hex() for _, fact in rows]}


def _unpack_facts(names: dict[str, Any], key: str, blobs: Blobs, fresh: DataFacts) -> DataFacts:
    inputs, count, digests = names["inputs"], int(names["count"]), [bytes.fromhex(text) for text in names["digests"]]
    places = _array(blobs, f"{key}/places", (len(digests), 3), "i8").tolist()
    ends = _array(blobs, f"{key}/ends", (len(digests), 2), "f8").tolist()
    rows = zip(places, ends, digests, strict=True)
    return DataFacts({(i, inputs[at]): Fact(low, high, d, size) for (i, at, size), (low, high), d in rows}, count)


def _pack_means(means: ChannelMeans, key: str, blobs: Blobs) -> list[str]:
    names = list(dict.fromkeys(name for _, name in means.means))
    for at, name in enumerate(names):
        rows = {index: row for (index, other), row in means.means.items() if other == name}
        blobs[f"{key}/{at}/samples"] = np.array(list(rows), np.int64)
        blobs[f"{key}/{at}/rows"] = np.array(list(rows.values()), np.float32)
    return names


def _unpack_means(names: list[str], key: str, blobs: Blobs, fresh: ChannelMeans) -> ChannelMeans:
    for at, name in enumerate(names):
        samples = blobs[f"{key}/{at}/samples"]
        rows = blobs[f"{key}/{at}/rows"]
        if rows.ndim != 2 or rows.dtype != np.float32 or samples.shape != rows.shape[:1]:
            raise ValueError(f"the means of '{name}' are none")
        fresh.means |= {(int(index), name): row for index, row in zip(samples, rows, strict=True)}
    return fresh


def _pack_extremes(extremes: ChannelExtremes, key: str, blobs: Blobs) -> list[str]:
    for at, pair in enumerate(extremes.seen.values()):
        blobs[f"{key}/{at}"] = np.array(pair, np.float32)
    return list(extremes.seen)


def _unpack_extremes(names: list[str], key: str, blobs: Blobs, fresh: ChannelExtremes) -> ChannelExtremes:
    for at, name in enumerate(names):
        pair = blobs[f"{key}/{at}"]
        if pair.ndim != 2 or pair.dtype != np.float32 or len(pair) != 2:
            raise ValueError(f"the extremes of '{name}' are none")
        fresh.seen[name] = (pair[0], pair[1])
    return fresh


def _pack_kept(kept: Mapping[tuple[int, str], Any], key: str, blobs: Blobs) -> list[tuple[int, str]]:
    for at, array in enumerate(kept.values()):
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
            raise ValueError("an output is no array of numbers")
        blobs[f"{key}/{at}"] = array
    return list(kept)


def _unpack_kept(names: list[Any], key: str, blobs: Blobs, fresh: Any) -> dict[tuple[int, str], NDArray[Any]]:
    return {(int(index), str(name)): blobs[f"{key}/{at}"] for at, (index, name) in enumerate(names)}


def _array(blobs: Blobs, key: str, shape: tuple[int, ...], kind: str) -> NDArray[Any]:
    array = blobs[key]
    if array.shape != shape or array.dtype.str[1:] != kind:
        raise ValueError(f"{key} is {array.dtype}{list(array.shape)}, want {kind}{list(shape)}")
    return array


# How each field of `Seen` is packed, with its names, and unpacked into a fresh one.
_PACKED: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "observers": (_pack_observers, _unpack_observers),
    "watched": (_pack_observers, _unpack_observers),
    "facts": (_pack_facts, _unpack_facts),
    "means": (_pack_means, _unpack_means),
    "extremes": (_pack_extremes, _unpack_extremes),
    "kept": (_pack_kept, _unpack_kept),
}
