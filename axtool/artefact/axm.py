"""Artefact  <->  an .axm file: a safetensors file with one metadata key, `axm`, whose value is the JSON manifest.

Any safetensors reader opens it, it is mapped and not parsed, and it holds no code and no time stamp: the same
artefact gives the same bytes. The reader checks everything before it uses anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from axtool.artefact.check import check_artefact
from axtool.artefact.entries import Blobs, pack_stage, spec_entry, spec_of, unpack_stage
from axtool.artefact.manifest import (
    FORMAT,
    ExportEntry,
    Manifest,
    ProvenanceEntry,
    QuantizationEntry,
    SupportEntry,
    TaskEntry,
)
from axtool.artefact.stages import Artefact, DeviceStage, HostStage
from axtool.config import is_special, refuse_special, write_whole
from axtool.errors import AxError, UsageError, plural

__all__ = ["Artefact", "DeviceStage", "HostStage", "is_axm", "pack", "read", "read_bytes", "write"]

MAX_HEADER_BYTES = 100_000_000  # what the safetensors format itself allows


def write(path: Path, artefact: Artefact, *, force: bool = False) -> int:
    """Write the file whole or not at all; the number of bytes. Errors as `axtool.config.write_whole`."""
    data = pack(artefact)
    write_whole(path, data, force=force)
    return len(data)


def pack(artefact: Artefact) -> bytes:
    """The bytes of the file."""
    from safetensors.numpy import save

    blobs: Blobs = {}
    manifest = Manifest(
        format=FORMAT,
        target=dict(artefact.target),
        inputs=[spec_entry(spec) for spec in artefact.inputs],
        outputs=[spec_entry(spec) for spec in artefact.outputs],
        stages=[pack_stage(index, stage, blobs) for index, stage in enumerate(artefact.stages)],
        preparation=None if artefact.preparation is None else dict(artefact.preparation),
        task=TaskEntry.model_validate(dict(artefact.task)) if artefact.task else None,
        **({"export": ExportEntry.model_validate(dict(artefact.export))} if artefact.export else {}),
        quantization=QuantizationEntry.model_validate(dict(artefact.quantization)),
        support=[SupportEntry.model_validate(dict(row)) for row in artefact.support],
        provenance=ProvenanceEntry.model_validate(dict(artefact.provenance)),
    )
    document = manifest.model_dump(mode="json", exclude_unset=True)
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return bytes(save(blobs, metadata={"axm": text}))


def read(path: Path) -> Artefact:
    """The artefact in a file. Raises UsageError, with the reason, for anything that is not a whole .axm file."""
    return _artefact(path, *_open_tensors(path))


def read_bytes(data: bytes, where: Path) -> Artefact:
    """The artefact in the bytes of a file; `where` is what errors name. Raises as `read`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not _begins(data[:9]):
        _refuse(where, "it does not begin as one")
    try:
        blobs = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        _refuse(where, str(error), error)
    return _artefact(where, header.get("__metadata__") or {}, blobs)


def _artefact(path: Path, metadata: Mapping[str, str], blobs: Blobs) -> Artefact:
    manifest = _manifest(path, metadata)
    try:
        target = str(manifest.target.get("name", ""))
        stages = tuple(unpack_stage(i, entry, target, blobs) for i, entry in enumerate(manifest.stages))
        if blobs:
            raise ValueError(f"holds data that nothing names: {', '.join(sorted(blobs)[:3])}")
        artefact = Artefact(
            target=manifest.target,
            inputs=tuple(spec_of(entry) for entry in manifest.inputs),
            outputs=tuple(spec_of(entry) for entry in manifest.outputs),
            stages=stages,
            preparation=manifest.preparation,
            task={} if manifest.task is None else manifest.task.model_dump(exclude_unset=True),
            export={} if manifest.export is None else manifest.export.model_dump(exclude_unset=True),
            quantization=manifest.quantization.model_dump(exclude_unset=True),
            support=tuple(row.model_dump(exclude_unset=True) for row in manifest.support),
            provenance=manifest.provenance.model_dump(exclude_unset=True),
        )
        check_artefact(artefact)
    except (KeyError, ValueError, OverflowError) as error:
        _refuse(path, f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error), error)
    except AxError as error:  # the description of the chip or of the input
        _refuse(path, "; ".join((str(error), *error.details[:3])), error)
    return artefact


def refuse_pipeline(path: Path) -> None:
    """Raise UsageError for an .axe file where one model is wanted."""
    if path.suffix.lower() == ".axe":
        raise UsageError(
            "an .axe file is a pipeline, not one model", where=str(path),
            hint="load it in Python with axtool.runtime.op.load", code="not-axm",
        )  # fmt: skip


def is_axm(path: Path) -> bool:
    """Whether a file begins as a safetensors file does: 8 bytes of length, then a JSON object."""
    try:
        if not path.is_file() or is_special(path):
            return False
        with path.open("rb") as file:
            head = file.read(9)
    except OSError:
        return False
    return _begins(head)


def _begins(head: bytes) -> bool:
    return len(head) == 9 and head[8:] == b"{" and 0 < int.from_bytes(head[:8], "little") <= MAX_HEADER_BYTES


def _manifest(path: Path, metadata: Mapping[str, str]) -> Manifest:
    if set(metadata) != {"axm"}:
        _refuse(path, "a safetensors file, but without the one metadata key 'axm'")
    try:
        document = json.loads(metadata["axm"], object_pairs_hook=_once, parse_constant=_finite)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"manifest: {error}", error)
    found = document.get("format") if isinstance(document, dict) else None
    if isinstance(found, str) and found.startswith("axtool.axm/") and found != FORMAT:
        raise UsageError(
            f"is {found}; this axtool reads {FORMAT}",
            where=str(path),
            hint="compile the model again with this version",
            code="axm-version",
        )
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        _refuse(path, f"manifest: {place}: {first['msg']} ({plural(error.error_count(), 'fault')})", error)
    except RecursionError as error:
        _refuse(path, f"manifest: {error}", error)


def _open_tensors(path: Path) -> tuple[dict[str, str], Blobs]:
    """The metadata and the tensors of a safetensors file. Shapes and sizes are checked by its reader."""
    from safetensors import SafetensorError, safe_open

    refuse_special(path)
    if not path.exists():
        raise UsageError("no such file", where=str(path), code="file-not-found")
    if path.is_dir():
        raise UsageError("is a folder; want an .axm file", where=str(path), code="not-axm")
    refuse_pipeline(path)
    if path.suffix.lower() == ".onnx":
        raise UsageError(
            "an .onnx file is not compiled", where=str(path), hint="make an .axm of it with `axtool compile`",
            code="not-axm",
        )  # fmt: skip
    if not is_axm(path):
        _refuse(path, "it does not begin as one")
    try:
        with safe_open(path, framework="np") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in sorted(file.keys())}
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror or error}", where=str(path), code="cannot-read") from error
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        _refuse(path, str(error), error)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; ValueError for a key that occurs twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _finite(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def _refuse(path: Path, reason: str, cause: BaseException | None = None) -> NoReturn:
    raise UsageError(
        f"not an .axm file: {reason}", where=str(path), hint="make one with `axtool compile`", code="not-axm"
    ) from cause
