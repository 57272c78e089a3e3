"""What calibration found: a range for each tensor, and its JSON form that can be edited and read back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from axtool.config import refuse_special, write_whole
from axtool.errors import UsageError, nearest
from axtool.inputs.notice import Notice
from axtool.types import Computed

SCHEMA = "axtool.ranges/1"
MOST_SAMPLES, LONGEST_METHOD = 2**48, 200
Rows = Mapping[str, tuple[float, ...]]
PRECISIONS: tuple[Computed, ...] = ("int8", "int16", "fx32", "fp16", "float")
FLOAT32_MAX = (2 - 2.0**-23) * 2.0**127


@dataclass(frozen=True)
class Ranges(Mapping[str, tuple[float, float]]):
    """(low, high) in real units by tensor name, with what is to be said about the calibration."""

    tensors: Mapping[str, tuple[float, float]]
    samples: int = 0
    method: str = ""
    notices: tuple[Notice, ...] = field(default=(), compare=False)
    preparation: Mapping[str, Any] | None = field(default=None, compare=False)  # of the pictures it was measured on
    means: Rows = field(default_factory=dict)  # of each channel that a MAC site reads
    # What the channels of a tensor are multiplied by; its range and its means are those of the products.
    factors: Rows = field(default_factory=dict)
    wide: tuple[str, ...] = ()  # tensors that are int16
    drift: Rows = field(default_factory=dict)  # the float model's mean minus the device's, of what a MAC site reads
    # In which int8 nodes read a tensor that is stored in fx32 or fp16, where it is not the range of the tensor itself.
    reads: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # What nodes are asked to compute in, fx32 or fp16, by the first output that each has before projections are fused,
    # and what inputs are stored in.
    precision: Mapping[str, Computed] = field(default_factory=dict)
    bought: Mapping[str, Computed] = field(default_factory=dict)  # what a budget chose for nodes beside it

    def __getitem__(self, name: str) -> tuple[float, float]:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document; the same ranges give the same document."""
        document: dict[str, Any] = {"schema": SCHEMA}
        if self.samples:
            document |= {"samples": self.samples, "method": self.method}
        if self.preparation is not None:
            document["preparation"] = dict(self.preparation)
        document["tensors"] = {name: list(self.tensors[name]) for name in sorted(self.tensors)}
        if self.reads:
            document["reads"] = {name: list(self.reads[name]) for name in sorted(self.reads)}
        for key, rows in (("means", self.means), ("factors", self.factors), ("drift", self.drift)):
            if rows:
                document[key] = {name: list(rows[name]) for name in sorted(rows)}
        if self.wide:
            document["int16"] = list(self.wide)
        for key, kinds in (("precision", self.precision), ("bought", self.bought)):
            if kinds:
                document[key] = {name: kinds[name] for name in sorted(kinds)}
        return document

    @classmethod
    def from_dict(cls, document: object, where: str = "ranges") -> Ranges:
        """The Ranges of a JSON document. Raises UsageError listing every entry that is no range."""
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            found = document.get("schema") if isinstance(document, dict) else type(document).__name__
            raise UsageError(f"not a ranges file: schema is {found!r}, want '{SCHEMA}'", where=where, code="bad-ranges")
        tensors = document.get("tensors")
        if not isinstance(tensors, dict):
            raise UsageError("'tensors' is missing: want {name: [low, high]}", where=where, code="bad-ranges")
        reads = document.get("reads", {})
        if not isinstance(reads, dict):
            raise UsageError("'reads' is not {name: [low, high]}", where=where, code="bad-ranges")
        rows = [*tensors.items(), *reads.items()]
        bad = [f"'{name}': {repr(value)[:60]}" for name, value in rows if not _is_range(value)]
        if bad:
            shown = "; ".join(bad[:5]) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
            raise UsageError(
                f"not [low, high] of finite float32 numbers with low <= high: {shown}",
                where=where,
                code="bad-ranges",
                details=bad,
            )
        means, drift = _rows(document, "means", where), _rows(document, "drift", where)
        factors = _rows(document, "factors", where, positive=True)
        samples, method = document.get("samples", 0), document.get("method", "")
        if type(samples) is not int or not 0 <= samples < MOST_SAMPLES:
            raise UsageError("'samples' is not how many there were", where=where, code="bad-ranges")
        if not isinstance(method, str) or len(method) > LONGEST_METHOD:
            what = f"'method' is no text of at most {LONGEST_METHOD} characters"
            raise UsageError(what, where=where, code="bad-ranges")
        preparation = document.get("preparation")
        if preparation is not None and not isinstance(preparation, dict):
            raise UsageError("'preparation' is not an object", where=where, code="bad-ranges")
        wide = document.get("int16", [])
        if not isinstance(wide, list) or not all(isinstance(name, str) for name in wide):
            raise UsageError("'int16' is not a list of names of tensors", where=where, code="bad-ranges")
        return cls(
            {str(name): (float(low), float(high)) for name, (low, high) in tensors.items()},
            samples,
            method,
            preparation=preparation,
            means=means,
            factors=factors,
            wide=tuple(wide),
            drift=drift,
            reads={str(name): (float(low), float(high)) for name, (low, high) in reads.items()},
            precision=_precisions(document, "precision", where),
            bought=_precisions(document, "bought", where),
        )

    def check(
        self, wanted: Sequence[str], known: Collection[str] = (), channels: Mapping[str, int] | None = None
    ) -> None:
        """Raises UsageError listing the wanted tensors that are missing, the names no tensor has, and the rows that are
        not of as many channels as a MAC site reads.

        `known` are names that are no error, though nothing needs their range.
        """
        wrong = [f"'{name}' is missing" for name in wanted if name not in self.tensors]
        for key, rows in (("means", self.means), ("drift", self.drift)):
            counts = {name: (channels or {}).get(name, len(row)) for name, row in rows.items()}
            wrong += [
                f"'{name}' has {counts[name]} channels, found {len(row)} {key}"
                for name, row in rows.items()
                if len(row) != counts[name]
            ]
        named = dict.fromkeys((*self.tensors, *self.wide, *self.means, *self.drift, *self.reads, *self.bought))
        unknown = [name for name in named if name not in wanted and name not in known]
        foreign = [f"'{name}' is no tensor of the model: {nearest(name, list(wanted), 1)}" for name in unknown]
        problems = wrong + foreign
        if problems:
            shown = "; ".join(problems[:5]) + (f" and {len(problems) - 5} more" if len(problems) > 5 else "")
            hint = "export the ranges again from the same model and options"
            raise UsageError(f"ranges do not fit the model: {shown}", hint=hint, code="bad-ranges", details=problems)


def read_ranges(path: str | Path) -> Ranges:
    """The Ranges of a JSON file. Raises UsageError."""
    refuse_special(Path(path))
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path), code="file-not-found") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not valid JSON: {error}", where=str(path), code="bad-ranges") from error
    return Ranges.from_dict(document, str(path))


def ranges_text(ranges: Ranges) -> str:
    """The JSON text that `read_ranges` reads; floats survive exactly. A tensor's range, or its means, is one line."""
    lines = []
    for key, value in ranges.to_dict().items():
        if key in ("tensors", "reads", "means", "factors", "drift", "precision", "bought"):
            rows = ",\n".join(f"  {_json(name)}: {_json(row)}" for name, row in value.items())
            lines.append(f" {_json(key)}: {{\n{rows}\n }}" if rows else f" {_json(key)}: {{}}")
        else:
            lines.append(f" {_json(key)}: {_json(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_range(value: object) -> bool:
    """Whether a JSON value is [low, high] in float32, in which scales are kept. JSON's integers may be of any size."""
    if not (isinstance(value, list) and len(value) == 2 and all(type(v) in (int, float) for v in value)):
        return False
    low, high = value
    return bool(-FLOAT32_MAX <= low <= high <= FLOAT32_MAX)


def _precisions(document: Mapping[str, Any], key: str, where: str) -> dict[str, Computed]:
    """The precisions by tensor under a key. Raises UsageError naming those that are none."""
    found = document.get(key, {})
    if not isinstance(found, dict):
        raise UsageError(f"'{key}' is not {{name: format}}", where=where, code="bad-ranges")
    wrong = [f"'{name}': {repr(kind)[:60]}" for name, kind in found.items() if kind not in PRECISIONS]
    if wrong:
        what = f"'{key}' wants {', '.join(PRECISIONS[:-1])} or {PRECISIONS[-1]}: {'; '.join(wrong[:5])}"
        raise UsageError(what, where=where, code="bad-ranges", details=wrong)
    return {str(name): kind for name, kind in found.items()}


def _rows(document: Mapping[str, Any], key: str, where: str, *, positive: bool = False) -> Rows:
    """The rows of numbers by tensor under a key. Raises UsageError naming those that are none."""
    rows = document.get(key, {})
    wrong = ["all"]
    if isinstance(rows, dict):
        wrong = [name for name, row in rows.items() if not _is_row(row) or (positive and min(row, default=1) <= 0)]
    if wrong:
        shown, what = ", ".join(f"'{name}'" for name in wrong[:5]), "positive" if positive else "finite"
        raise UsageError(
            f"'{key}' holds no lists of {what} numbers: {shown}", where=where, code="bad-ranges", details=wrong
        )
    return {str(name): tuple(map(float, row)) for name, row in rows.items()}


def _is_row(value: object) -> bool:
    """Whether a JSON value is a list of float32 numbers."""
    numbers = isinstance(value, list) and all(type(v) in (int, float) for v in value)
    return numbers and all(-FLOAT32_MAX <= v <= FLOAT32_MAX for v in value)  # type: ignore[attr-defined]


def write_ranges(path: Path, ranges: Ranges, *, force: bool = False) -> None:
    """Write the JSON file whole or not at all. Errors as `axtool.config.write_whole`."""
    write_whole(path, ranges_text(ranges).encode(), force=force)
