"""A target file (YAML) or a stored dictionary -> a checked Target, with every fault listed by its dotted path.

A constant is written `{value: 8MiB, from: fact, source: …}` or, in a file of one's own, as the bare value. Units are
binary (KiB, MiB, GiB) or decimal (kB, MB, GB, Hz, kHz, MHz, GHz, B/s … GB/s) and never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from axtool.config import package_dir, read_yaml
from axtool.errors import UsageError, nearest, plural
from axtool.target import Array, External, MemorySpec, Target

SCHEMA = "axtool.target/1"
ORIGINS = ("fact", "natural", "fitted", "set")
FORMATS = ("int8", "int16", "fx32", "fp16", "float32")

# What each primitive costs, in cycles of the array clock. A tile-channel is one channel of one array-sized tile.
COSTS: Mapping[str, str] = {
    "entry": "one start of the device program",
    "fence": "hand-over between two layers",
    "pipeline": "emptying the instruction pipeline at the end of a layer",
    "mac_drain": "MAC pipeline drain of one output tile-channel",
    "requantize": "one output tile-channel from accumulator to int8",
    "add": "residual add of one tile-channel",
    "mul": "product of one tile-channel",
    "pool_tap": "one tap of a pooling window on one tile-channel",
    "lut": "table look-up of one tile-channel",
    "interpolate": "interpolated table behind a MAC layer, one tile-channel",
    "resize": "linear interpolation of one tile-channel",
    "copy_per_kib": "tile copy through the array, each 1024 bytes",
    "gather": "start of an irregular tile load",
    "gather_per_element": "irregular tile load, each element",
    "array_shift": "neighbour transfers inside the array for one output tile-channel of a MAC layer",
    "int16_passes": "passes of the MAC array over an input of 16 bits, each as long as one over int8",
}
# What a file that leaves one out means.
DEFAULT_COSTS: Mapping[str, float] = {"int16_passes": 2.0}

# Largest sizes that the chip runs; one that a file leaves out is no limit.
LIMITS: Mapping[str, str] = {
    "max_kernel": "side of a convolution kernel or of a pooling window",
    "max_stride": "step of a window",
    "max_dilation": "distance between the taps of a window",
}

_FACTORS: Mapping[str, float] = {
    "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30,
}  # fmt: skip
_NUMBER = re.compile(r"^\s*([0-9][0-9_]*\.?[0-9_]*(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z/]*)\s*$")


def parse_quantity(value: object, unit: str) -> object:
    """`"4MiB"` with unit B -> 4194304; numbers pass. Raises ValueError for a text that is not a number of `unit`."""
    if not isinstance(value, str):
        return value
    match = _NUMBER.match(value)
    prefix = match[2].removesuffix(unit) if match and match[2] else ""
    if not match or prefix not in _FACTORS or (match[2] and not match[2].endswith(unit)):
        kinds = "B, kB, KiB, MB, MiB, GB, GiB" if unit == "B" else f"{unit}, k{unit}, M{unit}, G{unit}"
        raise ValueError(f"'{value}' is not a number in {kinds}")
    number = float(match[1].replace("_", "")) * _FACTORS[prefix]
    return int(number) if number.is_integer() else number


def _quantity(unit: str) -> BeforeValidator:
    return BeforeValidator(lambda value: parse_quantity(value, unit))


def _refuse_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("want a number, found a yes/no")
    return value


_PLAIN = BeforeValidator(_refuse_bool)
_FINITE = Field(gt=0, allow_inf_nan=False)
Count = Annotated[int, Field(gt=0, le=2**62), _quantity(""), _PLAIN]
Bytes = Annotated[int, Field(gt=0, le=2**62), _quantity("B"), _PLAIN]
Hertz = Annotated[float, _FINITE, _quantity("Hz"), _PLAIN]
BytesPerSecond = Annotated[float, _FINITE, _quantity("B/s"), _PLAIN]
BytesPerCycle = Annotated[float, _FINITE, _quantity("B"), _PLAIN]
Cycles = Annotated[float, Field(ge=0, allow_inf_nan=False), _quantity(""), _PLAIN]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Array(_Section):
    rows: Count
    columns: Count
    input_channels: Count
    output_channels: Count
    cycles: Count = 1


class _Memory(_Section):
    ocm_bytes: Bytes
    lrm_bytes_per_pe: Bytes
    ocm_bytes_per_cycle: BytesPerCycle
    activations: Literal["resident", "external"] = "resident"


class _External(_Section):
    read_bytes_per_s: BytesPerSecond
    write_bytes_per_s: BytesPerSecond
    burst_bytes: Bytes
    latency_cycles: Annotated[int, Field(ge=0), _quantity(""), _PLAIN]


class _File(_Section):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    description: str = ""
    clock_hz: Hertz
    cores: Count
    array: _Array
    memory: _Memory
    external: _External
    channel_multiple: Count
    vector_unit: bool
    formats: Annotated[list[str], Field(min_length=1)]
    limits: dict[str, Count] = Field(default_factory=dict)
    costs: dict[str, Cycles]


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
    plain = _unwrap(raw, "", provenance, faults)
    file = _validate(plain, faults)
    faults += _cost_faults(plain.get("costs")) + _unknown("limits", plain.get("limits"), LIMITS)
    faults += _format_faults(plain.get("formats"))
    if faults or file is None:
        raise UsageError(
            f"not a target: {plural(len(faults), 'fault')}", where=where, code="bad-target", details=faults
        )
    return Target(
        name=file.name,
        clock_hz=file.clock_hz,
        cores=file.cores,
        array=Array(**file.array.model_dump()),
        memory=MemorySpec(**file.memory.model_dump()),
        external=External(**file.external.model_dump()),
        channel_multiple=file.channel_multiple,
        vector_unit=file.vector_unit,
        formats=tuple(file.formats),
        limits=dict(sorted(file.limits.items())),
        costs=dict(sorted({**DEFAULT_COSTS, **file.costs}.items())),
        provenance=dict(sorted(provenance.items())),
        description=file.description,
    )


def target_to_dict(target: Target) -> dict[str, Any]:
    """Plain values that `target_from_dict` turns back into an equal Target, fit for JSON."""
    values = {"schema": SCHEMA, **asdict(target)}
    values["formats"] = list(target.formats)
    return values


def set_values(target: Target, changes: Mapping[str, object]) -> Target:
    """The target with the values at dotted paths changed, e.g. `{"memory.ocm_bytes": "4MiB"}`. Raises UsageError."""
    values = target_to_dict(target)
    known = [path for path, _ in _leaves(values) if not path.startswith(("provenance", "schema"))]
    for path, value in changes.items():
        full = "external." + path.removeprefix("ext.") if path.startswith("ext.") else path
        if full not in known:
            raise UsageError(f"a target has no value '{path}'", hint=nearest(full, known), code="unknown-target-value")
        *sections, leaf = full.split(".")
        place = values
        for section in sections:
            place = place[section]
        place[leaf] = value
        values["provenance"][full] = "set: by the user"
    return target_from_dict(values, where=target.name)


def _load(path: Path) -> Target:
    return target_from_dict(read_yaml(path), where=str(path))


def _leaves(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, object]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


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


def _unwrap(value: object, path: str, provenance: dict[str, str], faults: list[str]) -> Any:
    """The value without its `{value, from, source}` wrappers; what they say goes to `provenance`."""
    if not isinstance(value, Mapping):
        return value
    if "value" not in value:
        prefix = f"{path}." if path else ""
        return {str(key): _unwrap(item, f"{prefix}{key}", provenance, faults) for key, item in value.items()}
    origin, source = value.get("from"), value.get("source", "")
    if origin not in ORIGINS:
        faults.append(f"{path}.from: want one of {', '.join(ORIGINS)}, found {origin!r}")
    elif origin in ("fact", "fitted") and not source:
        faults.append(f"{path}.source: missing; {'where is it stated' if origin == 'fact' else 'fitted to what'}?")
    keys = ("value", "from", "source")
    faults += [f"{path}.{key}: unknown key; {nearest(key, keys)}" for key in map(str, value) if key not in keys]
    provenance[path] = f"{origin}: {source}" if source else str(origin)
    return value["value"]


def _validate(plain: Any, faults: list[str]) -> _File | None:
    try:
        return _File.model_validate(plain)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            path = ".".join(str(part) for part in item["loc"])
            if item["type"] == "extra_forbidden":
                text = f"unknown key; {nearest(str(item['loc'][-1]), _fields_at(item['loc'][:-1]))}"
            elif item["type"] == "missing":
                text = "missing"
            else:
                text = f"{item['msg'].removeprefix('Value error, ')}, found {item['input']!r}"
            faults.append(f"{path}: {text}")
        return None


def _fields_at(loc: Sequence[int | str]) -> tuple[str, ...]:
    model: type[BaseModel] = _File
    for part in loc:
        annotation = model.model_fields[str(part)].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return ()
        model = annotation
    return tuple(model.model_fields)


def _cost_faults(costs: object) -> list[str]:
    if not isinstance(costs, Mapping):
        return []
    missing = [
        f"costs.{name}: missing ({meaning})"
        for name, meaning in COSTS.items()
        if name not in costs and name not in DEFAULT_COSTS
    ]
    return missing + _unknown("costs", costs, COSTS)


def _unknown(section: str, values: object, known: Mapping[str, str]) -> list[str]:
    names = [str(name) for name in values] if isinstance(values, Mapping) else []
    return [f"{section}.{name}: unknown key; {nearest(name, tuple(known))}" for name in names if name not in known]


def _format_faults(formats: object) -> list[str]:
    names = [str(name) for name in formats] if isinstance(formats, list) else []
    return [f"formats: unknown format '{name}'; {nearest(name, FORMATS)}" for name in names if name not in FORMATS]
