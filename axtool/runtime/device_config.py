"""Settings of boards by board model, and which of them stand: environment > scheduler > `op.load`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import isfinite
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, NoReturn

from axtool.errors import UsageError, nearest, plural

VARIABLE = "AXTOOL_CONFIGURE_BOARD"  # 0 | 1 | [clock],[ddr_size],[mvm_limitation]

MOST_CLOCK_MHZ = 100_000  # of any chip that a target file may describe
MOST_DDR_BYTES = 2**62
_GRAMMAR = "want 0 (leave boards as they are), 1 (set them as asked) or [clock],[ddr_size],[mvm_limitation]"
_UNITS = {"clock": "MHz", "ddr_size": "bytes", "mvm_limitation": "%"}
_WHOLE = re.compile(r"[0-9]{1,24}|0[xX][0-9a-fA-F]{1,20}")
_DECIMAL = re.compile(r"[0-9]{1,24}(\.[0-9]{0,24})?|\.[0-9]{1,24}")
_SHOWN = 60  # characters of a longer value in its message


class BadDeviceConfig(UsageError, ValueError):
    """A board setting that is no setting: each one is named, with what is wanted."""

    code = "bad-device-config"


@dataclass(frozen=True)
class BoardConfig:
    """Settings of one model of board; None says nothing: what is asked for elsewhere stands, or the board's own value.

    `clock` in MHz, `ddr_size` in bytes, `mvm_limitation` in percent of what the matrix unit can do (1 to 100).
    Raises BadDeviceConfig, a ValueError, with every fault.
    """

    clock: int | None = None
    ddr_size: int | None = None
    mvm_limitation: float | None = None

    def __post_init__(self) -> None:
        faults = [
            *_whole_faults("clock", self.clock, MOST_CLOCK_MHZ, "MHz"),
            *_whole_faults("ddr_size", self.ddr_size, MOST_DDR_BYTES, "bytes"),
            *_percent_faults("mvm_limitation", self.mvm_limitation),
        ]
        if faults:
            _refuse("not settings of a board", faults)
        for name in ("clock", "ddr_size"):  # a NumPy integer equals the plain one and cannot be written to a file
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else int(value))

    def over(self, below: BoardConfig) -> BoardConfig:
        """These settings, and those of `below` where these say nothing."""
        return BoardConfig(
            clock=below.clock if self.clock is None else self.clock,
            ddr_size=below.ddr_size if self.ddr_size is None else self.ddr_size,
            mvm_limitation=below.mvm_limitation if self.mvm_limitation is None else self.mvm_limitation,
        )

    def said(self) -> dict[str, int | float]:
        """The settings that are not None, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        """`clock 400 MHz, mvm_limitation 90 %`, or `as it is`."""
        return ", ".join(f"{name} {value:,} {_UNITS[name]}" for name, value in self.said().items()) or "as it is"


@dataclass(frozen=True)
class DeviceConfig:
    """A BoardConfig for each board model that it names, as `DeviceConfig({'110m': BoardConfig(mvm_limitation=90)})`.

    A board model that it does not name is left alone. Raises BadDeviceConfig, a ValueError.
    """

    boards: Mapping[str, BoardConfig]

    def __post_init__(self) -> None:
        if not isinstance(self.boards, Mapping):
            kind = type(self.boards).__name__
            _refuse("want a mapping of board models to BoardConfig", [f"boards: found {kind}"])
        faults = [
            f"{_shown(model)}: want the name of a board model, such as '110m'"
            for model in self.boards
            if not isinstance(model, str) or not model.strip()
        ]
        faults += [
            f"{_shown(model)}: want a BoardConfig, found {type(config).__name__}"
            for model, config in self.boards.items()
            if not isinstance(config, BoardConfig)
        ]
        if faults:
            _refuse("not a device_config", faults)
        object.__setattr__(self, "boards", MappingProxyType(dict(sorted(self.boards.items()))))

    def __hash__(self) -> int:
        return hash(tuple(self.boards.items()))

    def __reduce__(self) -> tuple[type[DeviceConfig], tuple[dict[str, BoardConfig]]]:
        return DeviceConfig, (dict(self.boards),)  # a read-only view can be neither copied nor pickled

    def of(self, board_model: str) -> BoardConfig:
        """What it says of a board model: nothing where it does not name it."""
        return self.boards.get(board_model, BoardConfig())

    def unknown(self, board_models: Iterable[str]) -> tuple[str, ...]:
        """The board models that it names and that are not among these, sorted."""
        return tuple(sorted(set(self.boards) - set(board_models)))

    def to_dict(self) -> dict[str, dict[str, int | float]]:
        """Plain values that `from_dict` turns back into an equal DeviceConfig, fit for TOML and JSON."""
        return {model: config.said() for model, config in self.boards.items()}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> DeviceConfig:
        """The DeviceConfig of `{'110m': {'mvm_limitation': 90}}`. Raises BadDeviceConfig with every fault."""
        if not isinstance(values, Mapping):
            _refuse("want a mapping of board models to settings", [f"found {type(values).__name__}"])
        boards, faults = {}, []
        for model, settings in values.items():
            try:
                boards[model] = _board_from(settings)
            except BadDeviceConfig as error:
                faults.append(f"{model}: {error.what}")
        if faults:
            _refuse("not a device_config", faults)
        return DeviceConfig(boards)


def resolve(
    board_model: str,
    *,
    scheduler: DeviceConfig | None = None,
    model: DeviceConfig | None = None,
    environ: Mapping[str, str] | None = None,
) -> BoardConfig:
    """The settings to write to a board of this model before it runs a model: environment > scheduler > model.

    Each setting is the first that one of them gives: one that a level leaves out is left to the next, and what none
    gives stays as the board has it. `AXTOOL_CONFIGURE_BOARD` speaks of every board; with 0 nothing is written at all.
    `model` is what `op.load` declared. `environ` stands in for `os.environ`. Raises BadDeviceConfig for a variable that
    is not of its grammar.
    """
    above = from_environment(environ)
    if above is None:
        return BoardConfig()
    below = [config.of(board_model) for config in (scheduler, model) if config is not None]
    for config in below:
        above = above.over(config)
    return above


def from_environment(environ: Mapping[str, str] | None = None) -> BoardConfig | None:
    """What AXTOOL_CONFIGURE_BOARD says of every board: None for 0 (touch none), nothing for 1, empty or unset.

    Otherwise `[clock],[ddr_size],[mvm_limitation]`, each of which may be empty, and the last ones left out: `400`,
    `,,90`, `600,0x20000000`. MHz; bytes, decimal or hexadecimal; percent. Raises BadDeviceConfig.
    """
    text = (os.environ if environ is None else environ).get(VARIABLE, "").strip()
    if text in ("", "1"):
        return BoardConfig()
    if text == "0":
        return None
    parts = [part.strip() for part in text.split(",")]
    names = [item.name for item in fields(BoardConfig)]
    if len(parts) > len(names):
        _refuse(f"{VARIABLE}={_shown(text)} has {plural(len(parts), 'part')}", [], hint=_GRAMMAR)
    faults, values = [], {}
    for name, part in zip(names, parts, strict=False):
        wanted = _DECIMAL if name == "mvm_limitation" else _WHOLE
        if part and not wanted.fullmatch(part):
            faults.append(f"{name}: {_shown(part)} is not a number")
        elif part:
            values[name] = _number(part, whole=wanted is _WHOLE)
    if faults:
        _refuse(f"{VARIABLE}={_shown(text)} cannot be read", faults, hint=_GRAMMAR)
    try:
        return BoardConfig(**values)  # type: ignore[arg-type]
    except BadDeviceConfig as error:
        _refuse(f"{VARIABLE}={_shown(text)} cannot be read", [error.what], hint=_GRAMMAR)


def _number(text: str, *, whole: bool) -> int | float:
    if not whole:
        number = float(text)
        return int(number) if number.is_integer() else number
    return int(text[2:], 16) if text[:2].lower() == "0x" else int(text)


def _board_from(settings: object) -> BoardConfig:
    if not isinstance(settings, Mapping):
        _refuse("not settings of a board", [f"want a mapping of settings, found {type(settings).__name__}"])
    known = [item.name for item in fields(BoardConfig)]
    unknown = [f"no setting '{name}' ({nearest(str(name), known)})" for name in settings if name not in known]
    if unknown:
        _refuse("not settings of a board", unknown)
    return BoardConfig(**settings)


def _whole_faults(name: str, value: object, most: int, unit: str) -> list[str]:
    if value is None or (isinstance(value, Integral) and not isinstance(value, bool) and 1 <= int(value) <= most):
        return []
    return [f"{name}: want a whole number of {unit} from 1 to {most:,}, found {_shown(value)}"]


def _percent_faults(name: str, value: object) -> list[str]:
    number = isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
    if value is None or (number and 1 <= float(value) <= 100):  # type: ignore[arg-type]
        return []
    return [f"{name}: want a percentage from 1 to 100, found {_shown(value)}"]


def _shown(value: object) -> str:
    """A value in a message, cut where it is long. An int of thousands of digits has no decimal text at all."""
    text = hex(value) if isinstance(value, int) and value.bit_length() > 256 else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _refuse(what: str, faults: Sequence[str], hint: str = "") -> NoReturn:
    raise BadDeviceConfig(f"{what}: {'; '.join(faults)}" if faults else what, hint=hint)
