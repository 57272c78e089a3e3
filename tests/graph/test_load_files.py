"""Files that are no ONNX model, each told apart by its content."""

import gzip
import io
import json
import os
import pickle
import struct
import zipfile
from pathlib import Path

import pytest

from tests.graph.load_models import model, node, refusal, save, says

RELU = model([node("Relu", ["x"], ["y"])]).SerializeToString()


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"content")
    return buffer.getvalue()


def safetensors(metadata: dict[str, str]) -> bytes:
    header = json.dumps(
        {"__metadata__": metadata, "w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    ).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n", "git lfs pull"),
        (zipped("archive/data.pkl", "archive/version"), "zip/PyTorch checkpoint; export to ONNX first"),
        (zipped("net.onnx"), "zip archive that holds net.onnx"),
        (zipped("x.npy"), "NumPy .npz"),
        (zipped("pipeline.toml"), ".axe pipeline"),
        (b"PK\x03\x04 cut short", "zip/PyTorch checkpoint"),
        (pickle.dumps({"weight": [1.0]}, protocol=2), "pickle"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(40), "TensorFlow Lite"),
        (b"\x1c\x00\x00\x00ORTM" + bytes(40), ".ort model"),
        (b"\x89HDF\r\n\x1a\n" + bytes(40), "HDF5"),
        (gzip.compress(RELU, mtime=0), "gunzip"),
        (safetensors({}), "safetensors"),
        (safetensors({"axtool": "{}"}), "already compiled"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "HTML page"),
        (b'{"message": "Not Found"}', "JSON"),
        (b"<?xml version='1.0'?><net name='g'/>", "XML"),
        (b'<ir_version: 8, opset_import: ["": 13]> g () => () {}', "ONNX text"),
        (b"just a note\nof two lines\n", "text file"),
        (b"\x93NUMPY\x01\x00v\x00{}", "NumPy array"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), "PNG"),
        (b"\x08\x01\x12\x30\n\x00\x12\x10StatefulPartitionedCall" + bytes(22), "TensorFlow graph"),
        (b"GGUF" + bytes(40), "GGUF"),
    ],
)  # fmt: skip
def test_a_known_format_is_named_and_the_way_out_given(tmp_path: Path, content: bytes, word: str) -> None:
    error = refusal(save(tmp_path, content))
    assert error.exit == 2
    assert error.hint
    assert word in f"{error} {error.hint}"


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    says(refusal(save(tmp_path, b"")), 2, "empty-file", "file is empty", "net.onnx")


def test_a_missing_file_names_its_nearest_neighbour(tmp_path: Path) -> None:
    save(tmp_path, RELU, "network.onnx")
    says(refusal(tmp_path / "netwrk.onnx"), 2, "file-not-found", "network.onnx")


def test_a_folder_tells_which_models_it_holds(tmp_path: Path) -> None:
    save(tmp_path, RELU, "inner.onnx")
    says(refusal(tmp_path), 2, "is-a-directory", "inner.onnx")


def test_a_path_through_a_file_is_not_found(tmp_path: Path) -> None:
    says(refusal(save(tmp_path, RELU) / "more.onnx"), 2, "file-not-found")


def test_a_name_with_a_nul_byte_is_no_path() -> None:
    says(refusal(Path("a\x00b.onnx")), 2, "file-not-found")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_says_permission(tmp_path: Path) -> None:
    path = save(tmp_path, RELU)
    path.chmod(0)
    says(refusal(path), 2, "unreadable", "permission")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_refused_without_being_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    says(refusal(pipe), 2, "not-a-file")


def test_a_cut_model_says_where_it_ends(tmp_path: Path) -> None:
    says(refusal(save(tmp_path, RELU[: len(RELU) - 20])), 2, "truncated-file", "truncated", "follow")


def test_a_model_with_a_broken_graph_is_called_damaged(tmp_path: Path) -> None:
    at = RELU.index(b"Relu") - 2  # the tag of the field that holds the op's name
    says(refusal(save(tmp_path, RELU[:at] + b"\xff" + RELU[at + 1 :])), 2, "damaged-file")


def test_random_bytes_are_no_model(tmp_path: Path) -> None:
    says(refusal(save(tmp_path, bytes(range(255, 0, -1)))), 2, "not-onnx", "not an ONNX model")


def test_a_protobuf_without_a_graph_is_no_model(tmp_path: Path) -> None:
    says(refusal(save(tmp_path, b"\x08\x08")), 2, "not-onnx")


@pytest.mark.parametrize(("head", "code"), [(b"PK\x03\x04", "not-onnx"), (b"\x08\x08\x12\x00", "file-too-large")])
def test_a_file_above_2_gb_is_judged_by_its_first_bytes(tmp_path: Path, head: bytes, code: str) -> None:
    path = save(tmp_path, head)
    os.truncate(path, 2**31 + 1)  # a hole: it takes no room
    says(refusal(path), 2, code)
