"""A pipeline  <->  an .axe file: a zip of pipeline.toml and the compiled models that it names, without any code.

Operators are written by their registered name and the fields that differ from their defaults; a model by its member
of the zip, its Postamble and its options; an optimized pipeline as the one that it was made of. The only module that
loading imports is that of a kernel that the file names.
"""

from __future__ import annotations

import dataclasses
import io
import json
import tomllib
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from axtool.artefact import axm
from axtool.config import refuse_special, write_whole
from axtool.errors import UsageError, nearest
from axtool.runtime.op.combinators import Par, Seq
from axtool.runtime.op.device_options import DeviceOptions
from axtool.runtime.op.for_each import ForEach
from axtool.runtime.op.fused import PixelsToTensor
from axtool.runtime.op.load import LoadedSeq, sequence_of
from axtool.runtime.op.operator import Operator, registered, registered_names, snake_case
from axtool.runtime.op.pixels_to_buffer import PixelsToBuffer
from axtool.runtime.postamble import Postamble, import_path

KEYS = {  # of the tables of operators
    "load": ("operator", "name", "model", "postamble", "core_allocation", "batch", "device_config"),
    "group": ("operator", "name", "steps", "iter"),
    "operator": ("operator", "name", "module", "fields"),
}
FORMAT = 1
PIPELINE = "pipeline.toml"
MAX_TOML_BYTES = 1 << 20
MAX_MODEL_BYTES = 1 << 30
MAX_MEMBERS = 64
MAX_DEPTH = 16
ABOUT = ("name", "description", "task")  # what a file says of its pipeline, for people
# What a broken or strange zip, description or kernel raises; NotImplementedError is a feature of zip that nobody reads.
UNREADABLE = (
    ValueError, TypeError, OSError, EOFError, RecursionError, NotImplementedError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
GROUPS: Mapping[str, type[Operator]] = {"seq": Seq, "par": Par, "for_each": ForEach}


def save(pipeline: Seq, path: str | Path, about: Mapping[str, str], *, force: bool = False) -> None:
    """Write a pipeline and what is said about it. Raises ValueError for a file that is not named .axe, and naming the
    operator that cannot be saved; files as `write_whole`.
    """
    if Path(path).suffix != ".axe":
        raise ValueError(f"{path}: a saved pipeline is named .axe, op.load tells it by that")
    models: dict[str, bytes] = {}
    said = "".join(f"{key} = {_toml(about[key])}\n" for key in ABOUT if about.get(key))
    text = f"format = {FORMAT}\n{said}pipeline = {_toml(_entry(pipeline, models))}\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for member, data in {PIPELINE: text.encode(), **models}.items():
            archive.writestr(zipfile.ZipInfo(member), data)  # ZipInfo's date is fixed: same pipeline, same bytes
    try:
        write_whole(Path(path), buffer.getvalue(), force=force)
    except UsageError as error:
        if error.code != "output-exists":
            raise
        raise UsageError(error.what, where=error.where, hint="pass force=True to replace it", code=error.code) from None


def load_axe(file: Path, *, engine: str = "native", threads: int = 1) -> Seq:
    """The pipeline of a file. Raises UsageError for a file that is no whole .axe, ImportError for a kernel's module."""
    refuse_special(file)
    if file.is_dir():
        raise UsageError("is a folder; want an .axe file", where=str(file), code="not-axe")
    try:
        with zipfile.ZipFile(file) as archive:
            members = _members(archive)
            document = tomllib.loads(_read(archive, members, PIPELINE, MAX_TOML_BYTES).decode())
            if document.get("format") != FORMAT:
                raise ValueError(f"{PIPELINE}: format {document.get('format')!r}, this version reads {FORMAT}")
            about = {key: document[key] for key in ABOUT if key in document}
            if not all(isinstance(value, str) for value in about.values()):
                raise ValueError(f"{PIPELINE}: {', '.join(about)}: want strings")
            made = _Reader(file, archive, members, engine, threads).operator(document.get("pipeline"), 0)
    except FileNotFoundError:
        raise UsageError("no such file", where=str(file), hint="check the path", code="file-not-found") from None
    except UNREADABLE as error:
        what = str(error).removeprefix(f"{file}: ")
        raise UsageError(
            f"not a pipeline that can be loaded: {what}", where=str(file), hint="write it again with save_axe()",
            code="not-axe",
        ) from error  # fmt: skip
    if not isinstance(made, Seq):
        raise UsageError(
            "the outermost operator is no sequence", where=str(file), hint="write it with save_axe()", code="not-axe"
        )
    made.about = about
    return made


def _entry(operator: Operator, models: dict[str, bytes]) -> dict[str, Any]:
    """An operator as plain values; compiled models go to `models`."""
    named = {"name": operator.name} if operator.name else {}
    if isinstance(operator, LoadedSeq):
        member = f"model{len(models)}.axm"
        models[member] = axm.pack(operator.artefact)
        chosen = {} if operator.postamble is None else {"postamble": operator.postamble.to_dict()}
        return {"operator": "load", "model": member, **chosen, **operator.options.to_dict(), **named}
    for key, kind in GROUPS.items():
        if type(operator) is kind:
            return {
                "operator": key,
                "steps": [_entry(s, models) for s in _inside(operator)],
                **_list(operator),
                **named,
            }
    cls = type(operator)
    if not cls.portable:
        raise ValueError(
            f"{cls.__name__} cannot be saved: it belongs to this machine or to a loaded model; leave it out"
        )
    if cls._writes_init or registered(snake_case(cls.__name__)) is not cls:
        raise ValueError(f"{cls.__name__} cannot be saved: only operators made from their fields, models and sequences")
    own = {} if cls.__module__.startswith("axtool.") else {"module": import_path(cls).partition(":")[0]}
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        value = getattr(operator, field.name)
        if field.init and field.name != "name" and not _same(value, field.default):
            fields[field.name] = _plain(value, f"{cls.__name__}.{field.name}")
    return {"operator": snake_case(cls.__name__), **own, **({"fields": fields} if fields else {}), **named}


def _inside(operator: Operator) -> list[Operator]:
    """The operators of a group; those that `optimized` made one are written as they were."""
    if isinstance(operator, Par):
        return list(operator.branches)
    steps = operator.body.operators if isinstance(operator, ForEach) else operator.operators
    return [single for step in steps for single in _as_they_were(step)]


def _as_they_were(step: Operator) -> Sequence[Operator]:
    if isinstance(step, PixelsToTensor):
        return step.steps
    first = step.operators[0] if isinstance(step, LoadedSeq) else None
    return (*first.front.steps, step) if isinstance(first, PixelsToBuffer) else (step,)


def _list(operator: Operator) -> dict[str, Any]:
    """What a for_each says of its list, where that is no default."""
    if not isinstance(operator, ForEach):
        return {}
    if operator.save is not None:
        raise ValueError("for_each with save= cannot be saved: its folder is of this machine only")
    return {} if operator.iter == "input" else {"iter": operator.iter}


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(np.all(value == default)))


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value, where)
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value).name
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item, where) for item in value]
    raise ValueError(f"{where} cannot be saved: {value!r} is no plain value (numbers, strings, booleans, lists)")


def _toml(value: Any) -> str:
    """A value on one line. None has no spelling in TOML and is refused."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        raise ValueError("None cannot be saved; leave the parameter out")
    return repr(value)


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """What the zip holds, by name: plain names only, each once."""
    found: dict[str, zipfile.ZipInfo] = {}
    entries = archive.infolist()
    if len(entries) > MAX_MEMBERS:
        raise ValueError(f"{len(entries)} members, at most {MAX_MEMBERS}")
    for info in entries:
        name = info.filename
        if name != PIPELINE and not (name.endswith(".axm") and name[:-4].isidentifier()):
            raise ValueError(f"member {name!r}: only {PIPELINE} and NAME.axm belong in it")
        if name in found:
            raise ValueError(f"member {name!r} is there twice")
        if info.flag_bits & 1:
            raise ValueError(f"member {name!r} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"member {name!r} is compressed in way {info.compress_type}; want stored or deflated")
        found[name] = info
    return found


def _read(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], name: str, most: int) -> bytes:
    """The bytes of a member, never more than `most`, whatever its header says."""
    if name not in members:
        raise ValueError(f"{name} is missing")
    if members[name].file_size > most:  # a reader of zips stops at the size that is said
        raise ValueError(f"{name} is larger than {most:,} bytes")
    with archive.open(members[name]) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{name} is larger than {most:,} bytes")
    return data


def _unknown(kind: str, module: Any) -> str:
    if isinstance(module, str):
        return f"operator {kind!r} is of the module {module!r}: import that first, a pipeline imports no operators"
    return f"there is no operator {kind!r}; {nearest(kind, registered_names())}"


@dataclasses.dataclass(frozen=True)
class _Reader:
    file: Path
    archive: zipfile.ZipFile
    members: Mapping[str, zipfile.ZipInfo]
    engine: str
    threads: int

    def operator(self, entry: Any, depth: int) -> Operator:
        if not isinstance(entry, dict) or depth > MAX_DEPTH:
            raise ValueError(f"want a table for each operator, at most {MAX_DEPTH} deep")
        kind, name = entry.get("operator"), entry.get("name", "")
        if not isinstance(kind, str) or not isinstance(name, str):
            raise ValueError(f"operator {kind!r} with name {name!r}: both are strings")
        keys = KEYS["load" if kind == "load" else "group" if kind in GROUPS else "operator"]
        for key in entry:
            if key not in keys:
                raise ValueError(f"{kind}: there is no '{key}'; {nearest(key, keys)}")
        if kind == "load":
            return self._model(entry, name)
        if kind in GROUPS:
            steps = entry.get("steps")
            if not isinstance(steps, list):
                raise ValueError(f"{kind}: steps is {steps!r}, want a list of operators")
            more = {"iter": str(entry["iter"])} if kind == "for_each" and "iter" in entry else {}
            return GROUPS[kind](*[self.operator(step, depth + 1) for step in steps], name=name, **more)
        cls = registered(kind)
        if cls is not None and (cls._writes_init or not cls.portable):
            raise ValueError(f"operator {kind!r} is not one that a file may bring")
        if cls is None:
            raise ValueError(_unknown(kind, entry.get("module")))
        fields = entry.get("fields", {})
        if not isinstance(fields, dict):
            raise ValueError(f"{kind}: fields is {fields!r}, want a table")
        try:
            return cls(**fields, name=name)
        except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
            raise ValueError(f"{kind}: {error}") from error

    def _model(self, entry: Mapping[str, Any], name: str) -> LoadedSeq:
        declared = entry.get("postamble")
        if declared is not None and not isinstance(declared, dict):
            raise ValueError(f"postamble is {declared!r}, want a table")
        postamble = None if declared is None else Postamble(**declared)
        member = str(entry.get("model"))
        artefact = axm.read_bytes(_read(self.archive, self.members, member, MAX_MODEL_BYTES), self.file / member)
        try:
            options = DeviceOptions.from_dict(entry, engine=self.engine, threads=self.threads)
            return sequence_of(artefact, self.file, postamble, name=name, options=options)
        except ImportError as error:
            raise ImportError(f"{self.file}: {error}") from error
