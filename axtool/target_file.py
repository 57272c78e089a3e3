"""A target file (YAML) or a stored dictionary -> a checked Target, with every fault listed by its dotted path.

A constant is written `{value: 8MiB, from: fact, source: …}` or, in a file of one's own, as the bare value. Units are
binary (KiB, MiB, GiB) or decimal (kB, MB, GB, Hz, kHz, MHz, GHz, B/s … GB/s) and never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from axtool.config import package_dir, read_yaml
from axtool.errors import UsageError, nearest, plural
from axtool.optimizations import OPTIMIZATIONS
from axtool.target import DEFAULT_COSTS, Array, Depthwise, Energy, Engines, External, MemorySpec, Target
from axtool.target_limits import LIMIT_LISTS, take_limit_lists
from axtool.target_schema import (
    COSTS,
    FORMATS,
    LIMITS,
    ORIGINS,
    SCHEMA,
    Section,
    TargetFile,
    fields_at,
    known_paths,
)

MOST_SHOWN = 200  # characters of a wrong value in its message

_S = TypeVar("_S", bound=Section)


def load_target(name_or_path: str | Path) -> Target:
    """The target of that name in configs/targets, or of that YAML file. Raises UsageError."""
    text = str(name_or_path)
    if text.endswith((".yaml", ".yml")) or "/" in text:
        return _load(Path(text))
    if text not in list_targets():
        raise UsageError(f"no target '{text}'", hint=nearest(text, list_targets()), code="unknown-target")
    return _load(package_dir("configs") / "targets" / f"{text}.yaml")


def list_targets() -> tuple[str, ...]:
    """The names of the targets that come with the package, sorted."""
    return tuple(sorted(path.stem for path in (package_dir("configs") / "targets").glob("*.yaml")))


def target_from_dict(values: Mapping[str, Any], where: str = "target") -> Target:
    """The Target of a mapping such as a file holds or `target_to_dict` writes. Raises UsageError with every fault."""
    faults: list[str] = []
    raw = {key: value for key, value in values.items() if key != "provenance"}
    schema = raw.pop("schema", SCHEMA)
    if schema != SCHEMA:
        faults.append(f"schema: want {SCHEMA}, found {schema!r}")
    provenance = _stored_provenance(values.get("provenance", {}), faults)
    plain = unwrap(raw, "", provenance, faults)
    lists = take_limit_lists(plain, faults)
    file = validated(TargetFile, plain, faults, fields_at)
    faults += _cost_faults(plain.get("costs")) + _unknown("limits", plain.get("limits"), {**LIMITS, **LIMIT_LISTS})
    faults += _format_faults(plain.get("formats")) + _lone_faults(plain)
    faults += _optimization_faults(file)
    if faults or file is None:
        raise UsageError(
            f"not a target: {plural(len(faults), 'fault')}", where=where, code="bad-target", details=faults
        )
    return Target(
        name=file.name,
        clock_hz=file.clock_hz,
        cores=file.cores,
        array=_array(file),
        memory=MemorySpec(**file.memory.model_dump()),
        external=External(**file.external.model_dump()),
        channel_multiple=file.channel_multiple,
        subword_channels=file.subword_channels,
        vector_unit=file.vector_unit,
        optimizations=tuple(file.optimizations),
        formats=tuple(file.formats),
        limits=dict(sorted(file.limits.items())),
        ops=lists["ops"],
        rules=lists["rules"],
        costs=dict(sorted({**DEFAULT_COSTS, **file.costs}.items())),
        provenance=dict(sorted(provenance.items())),
        description=file.description,
        engines=Engines(**file.engines.model_dump()),
        energy=None if file.energy is None else Energy(**file.energy.model_dump()),
    )


def target_to_dict(target: Target) -> dict[str, Any]:
    """Plain values that `target_from_dict` turns back into an equal Target, fit for JSON.

    A value that nobody stated and that is the default is left out: a file that names no field keeps its dictionary when
    fields are added.
    """
    values: dict[str, Any] = {"schema": SCHEMA, **asdict(target)}
    values["formats"] = list(target.formats)
    lists = {name: list(values.pop(name)) for name in LIMIT_LISTS}
    values["limits"] = {**values["limits"], **{name: names for name, names in lists.items() if names}}
    said = target.provenance
    for name in ("array", "memory", "external", "engines"):
        for item in fields(getattr(target, name)):
            default = item.default is not MISSING and values[name][item.name] == item.default
            if default and not any(f"{path}.".startswith(f"{name}.{item.name}.") for path in said):
                del values[name][item.name]
    for name, value in DEFAULT_COSTS.items():
        if values["costs"].get(name) == value and f"costs.{name}" not in said:
            values["costs"].pop(name)
    values["optimizations"] = list(target.optimizations)
    optional = ("engines", "energy", "optimizations", "subword_channels")
    return {key: value for key, value in values.items() if value or key not in optional}


def set_values(target: Target, changes: Mapping[str, object]) -> Target:
    """The target with the values at dotted paths changed, e.g. `{"memory.ocm_bytes": "4MiB"}`. Raises UsageError."""
    values = target_to_dict(target)
    known = known_paths()
    for path, value in changes.items():
        full = "external." + path.removeprefix("ext.") if path.startswith("ext.") else path
        if full not in known:
            raise UsageError(f"a target has no value '{path}'", hint=nearest(full, known), code="unknown-target-value")
        *sections, leaf = full.split(".")
        place = values
        for section in sections:
            place = place.setdefault(section, {})
        place[leaf] = value
        values["provenance"][full] = "set: by the user"
    return target_from_dict(values, where=target.name)


def _array(file: TargetFile) -> Array:
    values = file.array.model_dump()
    depthwise = values.pop("depthwise")
    return Array(**values, depthwise=None if depthwise is None else Depthwise(**depthwise))


def _load(path: Path) -> Target:
    return target_from_dict(read_yaml(path), where=str(path))


def _stored_provenance(value: object, faults: list[str]) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(v, str) for v in value.values()):
        faults.append("provenance: want a mapping of dotted paths to texts")
        return {}
    found = {str(path): str(text) for path, text in value.items()}
    faults += [
        f"provenance.{path}: '{text}' must begin with one of {', '.join(ORIGINS)}"
        for path, text in found.items()
        if text.split(":")[0] not in ORIGINS
    ]
    return found


def unwrap(value: object, path: str, provenance: dict[str, str], faults: list[str]) -> Any:
    """The value without its `{value, from, source}` wrappers; what they say goes to `provenance`."""
    if not isinstance(value, Mapping):
        return value
    if "value" not in value:
        prefix = f"{path}." if path else ""
        return {str(key): unwrap(item, f"{prefix}{key}", provenance, faults) for key, item in value.items()}
    origin, source = value.get("from"), value.get("source", "")
    if origin not in ORIGINS:
        faults.append(f"{path}.from: want one of {', '.join(ORIGINS)}, found {origin!r}")
    elif origin in ("fact", "fitted") and not source:
        faults.append(f"{path}.source: missing; {'where is it stated' if origin == 'fact' else 'fitted to what'}?")
    keys = ("value", "from", "source")
    faults += [f"{path}.{key}: unknown key; {nearest(key, keys)}" for key in map(str, value) if key not in keys]
    provenance[path] = f"{origin}: {source}" if source else str(origin)
    return value["value"]


def validated(
    kind: type[_S], plain: Any, faults: list[str], fields_at: Callable[[Sequence[int | str]], Sequence[str]]
) -> _S | None:
    """The section that `plain` is, or None and its faults. `fields_at` gives the keys of the section at a place."""
    try:
        return kind.model_validate(plain)
    except ValidationError as error:
        faults += _said_faults(error, fields_at)
    except UnicodeEncodeError:  # pydantic cannot take it, and YAML can write it: "\ud800"
        faults.append("a text holds half of a surrogate pair")
    return None


def _said_faults(error: ValidationError, fields_at: Callable[[Sequence[int | str]], Sequence[str]]) -> list[str]:
    """One line for each fault of a file: its dotted path and what is wrong. `fields_at` gives the keys of a section."""
    faults = []
    for item in error.errors(include_url=False):
        path = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            text = f"unknown key; {nearest(str(item['loc'][-1]), fields_at(item['loc'][:-1]))}"
        elif item["type"] == "missing":
            text = "missing"
        else:
            text = f"{item['msg'].removeprefix('Value error, ')}, found {_shown(item['input'])}"
        faults.append(f"{path}: {text}")
    return faults


def _shown(value: object) -> str:
    """A value in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _cost_faults(costs: object) -> list[str]:
    if not isinstance(costs, Mapping):
        return []
    missing = [
        f"costs.{name}: missing ({meaning})"
        for name, meaning in COSTS.items()
        if name not in costs and name not in DEFAULT_COSTS
    ]
    return missing + _unknown("costs", costs, COSTS)


def _lone_faults(plain: Any) -> list[str]:
    """Values that mean nothing without another."""
    array, memory = ((plain.get(name) if isinstance(plain, Mapping) else None) for name in ("array", "memory"))
    faults = []
    if isinstance(array, Mapping) and array.get("fold_below") is not None and array.get("fold", "none") == "none":
        faults.append("array.fold_below: nothing is folded; array.fold wants row or window")
    if isinstance(memory, Mapping):
        size, rate = memory.get("near_bytes", 0), memory.get("near_bytes_per_cycle")
        if size not in (0, "0", None) and rate is None:
            faults.append("memory.near_bytes_per_cycle: missing (how fast memory.near_bytes are read)")
        if size in (0, "0", None) and rate is not None:
            faults.append("memory.near_bytes: missing (how much memory.near_bytes_per_cycle reads)")
    return faults


def _unknown(section: str, values: object, known: Mapping[str, str]) -> list[str]:
    names = [str(name) for name in values] if isinstance(values, Mapping) else []
    return [f"{section}.{name}: unknown key; {nearest(name, tuple(known))}" for name in names if name not in known]


def _optimization_faults(file: TargetFile | None) -> list[str]:
    named = () if file is None else file.optimizations
    return [
        f"optimizations: unknown name '{name}'; {nearest(name, tuple(OPTIMIZATIONS))}"
        for name in named
        if name not in OPTIMIZATIONS
    ]


def _format_faults(formats: object) -> list[str]:
    names = [str(name) for name in formats] if isinstance(formats, list) else []
    return [f"formats: unknown format '{name}'; {nearest(name, FORMATS)}" for name in names if name not in FORMATS]
