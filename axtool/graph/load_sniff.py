"""The first bytes of a file  ->  what it is when it is not ONNX, and what to do about it."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass

_EXPORT = "export to ONNX first"


@dataclass(frozen=True, slots=True)
class Foreign:
    """A known format that is not ONNX."""

    what: str
    hint: str
    code: str


# (offset, magic, what, hint)
_MAGIC: tuple[tuple[int, bytes, str, str], ...] = (
    (4, b"TFL3", "this is a TensorFlow Lite model, not ONNX", "convert it with tf2onnx --tflite"),
    (4, b"ORTM", "this is an onnxruntime .ort model, not ONNX", "use the .onnx it was converted from"),
    (0, b"\x89HDF\r\n\x1a\n", "this is an HDF5 file (Keras weights), not ONNX", "export with tf2onnx or keras2onnx"),
    (0, b"\x1f\x8b", "this is a gzip archive, not ONNX", "unpack it first: gunzip"),
    (0, b"\xfd7zXZ\x00", "this is an xz archive, not ONNX", "unpack it first: unxz"),
    (0, b"BZh", "this is a bzip2 archive, not ONNX", "unpack it first: bunzip2"),
    (0, b"\x28\xb5\x2f\xfd", "this is a zstd archive, not ONNX", "unpack it first: unzstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "this is a 7z archive, not ONNX", "unpack it first"),
    (0, b"Rar!\x1a\x07", "this is a RAR archive, not ONNX", "unpack it first"),
    (257, b"ustar", "this is a tar archive, not ONNX", "unpack it first: tar xf"),
    (0, b"GGUF", "this is a GGUF language model, not ONNX", _EXPORT),
    (0, b"RKNN", "this is a Rockchip RKNN model, not ONNX", "use the ONNX model it was built from"),
    (0, b"ptrt", "this is a TensorRT engine, not ONNX", "use the ONNX model it was built from"),
    (0, b"ftrt", "this is a TensorRT engine, not ONNX", "use the ONNX model it was built from"),
    (0, b"7767517", "this is an ncnn .param file, not ONNX", "use the ONNX model it was built from"),
    (0, b"\x93NUMPY", "this is a NumPy array, not ONNX", "the model comes first, data goes to --calib or --data"),
    (0, b"\x89PNG\r\n", "this is a PNG picture, not ONNX", "the model comes first, pictures go to --calib or --data"),
    (0, b"\xff\xd8\xff", "this is a JPEG picture, not ONNX", "the model comes first, pictures go to --calib or --data"),
    (0, b"%PDF", "this is a PDF document, not ONNX", "give the .onnx file"),
    (0, b"\x7fELF", "this is a program or library, not ONNX", "give the .onnx file"),
)
_PICKLE = tuple(bytes((0x80, version)) for version in (2, 3, 4, 5))
# Fields of ModelProto: the graph, and the last one there is.
_GRAPH_FIELD, _LAST_FIELD = 7, 26
# Strings that TensorFlow graphs hold and ONNX graphs do not.
_TENSORFLOW = (b"StatefulPartitionedCall", b"saved_model_main_op", b"\nPlaceholder", b"\x0bPlaceholder", b"tensorflow/")


def foreign_format(data: bytes) -> Foreign | None:
    """The format of a file that is certainly not an ONNX protobuf, or None."""
    if data.startswith(b"version https://git-lfs.github.com/spec/"):
        return Foreign("Git LFS pointer; run git lfs pull", "git lfs install && git lfs pull", "git-lfs-pointer")
    for offset, magic, what, hint in _MAGIC:
        if data[offset : offset + len(magic)] == magic:
            return Foreign(what, hint, "not-onnx")
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip(data)
    if data.startswith(_PICKLE):
        return Foreign("this is a Python pickle (PyTorch checkpoint), not ONNX", _EXPORT, "not-onnx")
    return _safetensors(data) or _text(data)


def tensorflow_graph(data: bytes) -> Foreign | None:
    """TensorFlow's own protobufs. To be asked only of a file that holds no ONNX graph: tf2onnx keeps these names."""
    if any(word in data[: 1 << 20] for word in _TENSORFLOW):
        what = "this is a TensorFlow graph (SavedModel or GraphDef), not ONNX"
        return Foreign(what, "export with tf2onnx", "not-onnx")
    return None


def damage(data: bytes) -> Foreign | None:
    """What is wrong with an ONNX file that cannot be parsed; None when it looks like no ONNX file at all.

    Walks the top-level fields only: the graph is one of them, so a file cut inside it ends before the field does.
    """
    at = 0
    numbers: list[int] = []
    while at < len(data):
        start = at
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if key < 0 or not 1 <= number <= _LAST_FIELD or wire not in (0, 1, 2, 5):
            return None
        length, at = _varint(data, at) if wire in (0, 2) else (0, at + (8 if wire == 1 else 4))
        if length < 0:
            return None
        if wire == 2 and at + length > len(data):
            if not numbers:  # any binary file may begin so; the graph is never the first field
                return None
            cut = f"a field of {length:,} bytes begins at byte {start:,}, but only {len(data) - at:,} follow"
            return Foreign(f"file is truncated: {cut}", "download or copy it again", "truncated-file")
        at += length if wire == 2 else 0
        numbers.append(number)
    if _GRAPH_FIELD in numbers:
        return Foreign("file is damaged: its graph cannot be read", "download or copy it again", "damaged-file")
    return None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, next position); value -1 when the data ends or the number is too long."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return -1, at
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return -1, at


def _zip(data: bytes) -> Foreign:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        names = []
    models = [name for name in names if name.endswith(".onnx")]
    if models:
        return Foreign(f"this is a zip archive that holds {models[0]}", "unpack it first: unzip", "not-onnx")
    if "pipeline.toml" in names:
        return Foreign("this is an .axe pipeline, already compiled", "give the .onnx file", "not-onnx")
    if names and all(name.endswith(".npy") for name in names):
        return Foreign("this is a NumPy .npz archive, not ONNX", "the model comes first, then the data", "not-onnx")
    if any(name.endswith("model.weights.h5") for name in names):
        return Foreign("this is a Keras model (zip), not ONNX", "export with tf2onnx", "not-onnx")
    return Foreign(
        "this is a zip/PyTorch checkpoint; export to ONNX first", "torch.onnx.export(model, example, path)", "not-onnx"
    )


def _safetensors(data: bytes) -> Foreign | None:
    length = int.from_bytes(data[:8], "little")
    if len(data) < 10 or not 2 <= length <= len(data) - 8 or data[8:9] != b"{":
        return None
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError):
        return None
    meta = header.get("__metadata__") if isinstance(header, dict) else None
    if isinstance(meta, dict) and any("axtool" in str(text)[:4096] for text in (*meta, *meta.values())):
        return Foreign("this is an .axm file, already compiled", "use run, info, profile or verify", "not-onnx")
    return Foreign("this is a safetensors file: weights without a graph", _EXPORT, "not-onnx")


def _text(data: bytes) -> Foreign | None:
    head = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    lower = head[:512].lower()
    if lower.startswith((b"<!doctype html", b"<html")):
        return Foreign(
            "this is an HTML page: the download gave a web page", "download the raw file (log in, or /raw/)", "not-onnx"
        )
    if any(byte < 9 or 13 < byte < 32 for byte in data[:4096]):
        return None
    if lower.startswith((b"<?xml", b"<net")):
        return Foreign("this is an XML file (OpenVINO IR?), not ONNX", "use the ONNX it came from", "not-onnx")
    if head.startswith((b"{", b"[")):
        return Foreign("this is a JSON file, not ONNX", "give the binary .onnx file", "not-onnx")
    if head.startswith((b"<", b"ir_version")):
        return Foreign(
            "this is ONNX text, not the binary format", "save it with onnx.save(onnx.parser.parse_model(text), path)",
            "not-onnx",
        )  # fmt: skip
    return Foreign("this is a text file, not ONNX", "give the binary .onnx file", "not-onnx")
