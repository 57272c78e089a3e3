"""A board file (YAML of configs/boards, or one of the user's)  ->  a checked `Board`, every fault by its dotted path.

A number is written `{value: 4GiB, from: fact, source: …}`, as in a target file, or bare in a file of one's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from axtool.config import package_dir, read_yaml
from axtool.errors import UsageError, nearest, plural
from axtool.target_file import list_targets, unwrap, validated
from axtool.target_schema import Bytes, BytesPerSecond, Count, Hertz, Section

SCHEMA = "axtool.board/1"
MOST_CORES = 1024  # of one board: each has a thread or two that waits for it
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
Runs = Literal["here", "process"]
Seconds = Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False, strict=True)]


@dataclass(frozen=True)
class Link:
    """What carries frames and models to a board: bytes a second each way, and what one transfer takes beside them.

    With `duplex` what goes to the board and what comes from it do not wait for each other.
    """

    bytes_per_s: float
    latency_s: float = 0.0
    duplex: bool = True

    def transfer_s(self, size: int) -> float:
        """Modelled seconds of so many bytes one way, when nothing else is on the link."""
        return self.latency_s + size / self.bytes_per_s


@dataclass(frozen=True)
class Board:
    """One kind of board. Its chip is timed by the target of each compiled file; the board adds what is around it."""

    name: str
    prefix: str  # of the names of its devices: metis-0:1:0
    chip: str  # a target, or '' for one that has no file here
    board_model: str  # the key of a DeviceConfig
    board_type: str
    cores: int
    clock_hz: float
    memory_bytes: int  # beside the chip
    window_bytes: int  # as much of it as models may fill, unless ddr_size is set
    link: Link
    switch_s: float  # to start another model on a core, beside the transfer of its bytes
    clocks_mhz: tuple[int, ...] = ()  # that it can be set to; empty: any
    runs: Runs = "here"  # in this process, or in one of its own
    queue: int = 1  # frames that a core takes at once: one computes, the others have their inputs there already
    description: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict)  # by dotted path, as that of a target
    left_out: frozenset[str] = frozenset()  # the dotted paths that the file does not state


class _LinkSection(Section):
    bytes_per_s: BytesPerSecond
    latency_s: Seconds = 0.0
    duplex: Annotated[bool, Field(strict=True)] = True


class _BoardFile(Section):
    """A whole board file, without `schema`."""

    name: Name
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=40)]
    chip: Annotated[str, Field(max_length=80)] = ""
    board_model: Name
    board_type: Name
    cores: Annotated[Count, Field(le=MOST_CORES)]
    clock_hz: Hertz
    memory_bytes: Bytes
    window_bytes: Bytes | None = None
    link: _LinkSection
    switch_s: Seconds = 0.0
    clocks_mhz: list[Annotated[Count, Field(le=100_000)]] = Field(default_factory=list)
    runs: Runs = "here"
    queue: Annotated[Count, Field(le=64)] = 1
    description: str = ""


def list_boards() -> tuple[str, ...]:
    """The names of the boards that come with the package, sorted."""
    return tuple(sorted(path.stem for path in (package_dir("configs") / "boards").glob("*.yaml")))


def load_board(name_or_path: str | Path) -> Board:
    """The board of that name in configs/boards, or of that YAML file. Raises UsageError with every fault."""
    text = str(name_or_path)
    if text.endswith((".yaml", ".yml")) or "/" in text:
        return board_from_dict(read_yaml(Path(text)), where=text)
    if text not in list_boards():
        hint = f"{nearest(text, list_boards())} (a file of your own ends in .yaml)"
        raise UsageError(f"no board '{text}'", hint=hint, code="unknown-board")
    path = package_dir("configs") / "boards" / f"{text}.yaml"
    return board_from_dict(read_yaml(path), where=str(path))


def board_from_dict(values: Mapping[str, Any], where: str = "board") -> Board:
    """The Board of a mapping such as a file holds. Raises UsageError with every fault."""
    faults: list[str] = []
    raw = dict(values)
    schema = raw.pop("schema", SCHEMA)
    if schema != SCHEMA:
        faults.append(f"schema: want {SCHEMA}, found {schema!r}")
    provenance: dict[str, str] = {}
    plain = unwrap(raw, "", provenance, faults)
    file = validated(_BoardFile, plain, faults, _fields_at)
    if file is not None:
        faults += _contradictions(file)
    if faults or file is None:
        raise UsageError(f"not a board: {plural(len(faults), 'fault')}", where=where, code="bad-board", details=faults)
    numbers = file.model_dump(exclude={"link", "window_bytes", "clocks_mhz"})
    return Board(
        **numbers,
        window_bytes=file.window_bytes or file.memory_bytes,
        clocks_mhz=tuple(sorted(file.clocks_mhz)),
        link=Link(**file.link.model_dump()),
        provenance=dict(sorted(provenance.items())),
        left_out=frozenset(_left_out(file)),
    )


def _left_out(file: _BoardFile) -> list[str]:
    link = [f"link.{name}" for name in _LinkSection.model_fields if name not in file.link.model_fields_set]
    return [name for name in _BoardFile.model_fields if name not in file.model_fields_set] + link


def _fields_at(loc: Sequence[int | str]) -> Sequence[str]:
    return tuple((_LinkSection if loc else _BoardFile).model_fields)


def _contradictions(file: _BoardFile) -> list[str]:
    faults = []
    if file.chip and file.chip not in list_targets():
        faults.append(f"chip: no target '{file.chip}'; {nearest(file.chip, list_targets())}")
    if file.window_bytes is not None and file.window_bytes > file.memory_bytes:
        faults.append(f"window_bytes: {file.window_bytes:,} is more than the {file.memory_bytes:,} of memory_bytes")
    return faults
