"""A directives file (YAML)  ->  what its user wants of the planner, every key checked.

`directives` is a list; each names layers by shell patterns and says what is fixed for them. Later entries win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from axtool.errors import UsageError, plural
from axtool.plain_faults import faults_of
from axtool.plain_yaml import Plain, read_plain
from axtool.plan.build_directives import Directive

SCHEMA: Literal["axtool.directives/1"] = "axtool.directives/1"
MOST_ENTRIES, MOST_PATTERNS = 1000, 100
BUFFERS: Mapping[str, Literal[1, 2]] = {"single": 1, "double": 2}


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1, max_length=4096)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MOST_PATTERNS), BeforeValidator(_listed)]
Count = Annotated[int, Field(ge=1, le=2**31)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TileEntry(_Strict):
    """The output box of a step: rows and columns of pixels, channels; what is left out is all that there are."""

    rows: Count | None = None
    columns: Count | None = None
    channels: Count | None = None

    @model_validator(mode="after")
    def _some(self) -> TileEntry:
        if self.rows is self.columns is self.channels is None:
            raise ValueError("want rows, columns, channels, or some of them")
        return self


class Entry(_Strict):
    """What is fixed for the layers that a pattern matches; what is left out the planner chooses."""

    layers: Texts
    tile: TileEntry | None = None
    prefetch: bool | None = None
    buffering: Literal["single", "double"] | None = None
    residency: Literal["ocm", "ext"] | None = None

    @model_validator(mode="after")
    def _something(self) -> Entry:
        if all(wish is None for wish in (self.tile, self.prefetch, self.buffering, self.residency)):
            raise ValueError("says nothing: want tile, prefetch, buffering or residency")
        return self

    @property
    def directives(self) -> list[Directive]:
        """One directive for each pattern."""
        tile = None if self.tile is None else (self.tile.rows, self.tile.columns, self.tile.channels)
        buffers = None if self.buffering is None else BUFFERS[self.buffering]
        return [Directive(pattern, self.residency, tile, buffers, self.prefetch) for pattern in self.layers]


class DirectivesFile(_Strict):
    """The whole file."""

    schema_: Literal["axtool.directives/1"] = Field(SCHEMA, alias="schema")
    description: Annotated[str, Field(max_length=4096)] = ""
    directives: Annotated[list[Entry], Field(min_length=1, max_length=MOST_ENTRIES)]


def load_directives(path: str | Path) -> tuple[Directive, ...]:
    """The directives of a file, in its order. Raises UsageError with every fault and its line."""
    plain = read_plain(Path(path))
    return directives_from_dict(plain.values, str(path), plain)


def directives_from_dict(
    values: Mapping[str, Any], where: str = "directives", plain: Plain | None = None
) -> tuple[Directive, ...]:
    """The directives of a mapping such as a file holds. Raises UsageError with every fault."""
    faults = [] if "schema" in values else [f"line 1: schema: missing; want {SCHEMA}"]
    entries: list[Entry] = []
    try:
        entries = DirectivesFile.model_validate(dict(values)).directives
    except ValidationError as error:
        faults += faults_of(error, DirectivesFile, plain)
    if faults:
        what = f"not a file of directives: {plural(len(faults), 'fault')}"
        raise UsageError(what, where=where, code="bad-directives", details=faults)
    return tuple(directive for entry in entries for directive in entry.directives)


def directives_to_dict(directives: Sequence[Directive]) -> dict[str, Any]:
    """Plain values that `directives_from_dict` makes equal directives of, fit for JSON."""
    return {"schema": SCHEMA, "directives": [_entry(directive) for directive in directives]}


def _entry(directive: Directive) -> dict[str, Any]:
    words = {count: word for word, count in BUFFERS.items()}
    tile = dict(zip(("rows", "columns", "channels"), directive.tile or (), strict=False))
    entry = {
        "layers": [directive.layers],
        "tile": {key: value for key, value in tile.items() if value is not None} or None,
        "prefetch": directive.prefetch,
        "buffering": None if directive.buffers is None else words[directive.buffers],
        "residency": directive.residency,
    }
    return {key: value for key, value in entry.items() if value is not None}
