"""A path  ->  the parsed ModelProto, its bytes counted and hashed; or an error that says what the file is instead."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from axtool.config import refuse_special
from axtool.errors import EnvironmentFault, UsageError
from axtool.graph.load_sniff import damage, foreign_format, tensorflow_graph

if TYPE_CHECKING:
    import onnx

MAX_PROTO_BYTES = 2**31 - 1  # protobuf's own limit; larger models keep their weights in external files


@dataclass(frozen=True)
class Source:
    """The file as read: weights in external files are not in `proto` yet."""

    path: Path
    proto: onnx.ModelProto
    sha256: str
    size_bytes: int


def read_proto(path: Path) -> Source:
    """Read and parse the file. Raises UsageError or EnvironmentFault; never reads anything but a regular file."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    data = _read(path)
    if not data:
        raise UsageError("file is empty", where=str(path), hint="download or export it again", code="empty-file")
    foreign = foreign_format(data)
    if foreign is not None:
        raise UsageError(foreign.what, where=str(path), hint=foreign.hint, code=foreign.code)
    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError:
        raise _not_a_model(path, data) from None
    if not proto.HasField("graph"):
        raise _not_a_model(path, data)
    return Source(path, proto, hashlib.sha256(data).hexdigest(), len(data))


def _read(path: Path) -> bytes:
    refuse_special(path)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            inside = sorted(p.name for p in path.glob("*.onnx"))[:4]
            hint = f"it holds {', '.join(inside)}" if inside else "give the .onnx file itself"
            if (path / "saved_model.pb").exists():
                hint = "this is a TensorFlow SavedModel; export it with tf2onnx"
            raise UsageError("is a directory, not a model file", where=str(path), hint=hint, code="is-a-directory")
        if status.st_size > MAX_PROTO_BYTES:
            raise _too_large(path, status.st_size)
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError("file not found", where=str(path), hint=_siblings(path), code="file-not-found") from None
    except NotADirectoryError:
        raise UsageError(
            "file not found: a part of the path is not a folder", where=str(path), code="file-not-found"
        ) from None
    except PermissionError:
        raise UsageError(
            "no permission to read the file", where=str(path), hint="check its mode and owner", code="unreadable"
        ) from None
    except ValueError:  # a NUL byte in the path
        raise UsageError("not a path", where=repr(str(path)), code="file-not-found") from None
    except OSError as error:
        raise EnvironmentFault(
            f"cannot read the file: {error.strerror or error}", where=str(path), code="unreadable"
        ) from None


def _too_large(path: Path, size: int) -> UsageError:
    """No single ONNX file can be so large: most are another format, which the first bytes tell."""
    with path.open("rb") as file:
        foreign = foreign_format(file.read(1 << 16))
    if foreign is not None:
        return UsageError(foreign.what, where=str(path), hint=foreign.hint, code=foreign.code)
    return UsageError(
        f"one ONNX file cannot be larger than 2 GB, this has {size:,} bytes",
        where=str(path),
        hint="save the weights as external data",
        code="file-too-large",
    )


def _siblings(path: Path) -> str:
    from difflib import get_close_matches

    try:
        names = [p.name for p in path.parent.iterdir()]
    except OSError:
        return f"the folder {path.parent} does not exist" if path.parent != Path() else ""
    close = get_close_matches(path.name, names, n=3, cutoff=0.6)
    return "did you mean " + " or ".join(close) + "?" if close else ""


def _not_a_model(path: Path, data: bytes) -> UsageError:
    """Truncated, damaged, or never a model: none of them parses."""
    foreign = tensorflow_graph(data) or damage(data)
    if foreign is not None:
        return UsageError(foreign.what, where=str(path), hint=foreign.hint, code=foreign.code)
    return UsageError(
        "not an ONNX model",
        where=str(path),
        hint="the content is no ONNX protobuf: download it again, or export to ONNX",
        code="not-onnx",
    )
