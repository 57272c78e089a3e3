"""Files from outside and results: read as plain values, written whole or not at all."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import numpy as np
import pytest

from axtool.config import package_dir, read_yaml, refuse_overwrite, refuse_special, write_whole
from axtool.errors import EnvironmentFault, UsageError
from axtool.inputs.arrays import save_arrays


def test_a_new_file_has_the_bytes_and_the_usual_permissions(tmp_path: Path) -> None:
    path, plain = tmp_path / "a", tmp_path / "b"
    write_whole(path, b"data")
    plain.write_bytes(b"")
    assert path.read_bytes() == b"data"
    assert path.stat().st_mode == plain.stat().st_mode
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("step", ["os.replace", "os.chmod", "os.fdopen"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(step, fail)
    with pytest.raises(EnvironmentFault, match="No space") as caught:
        write_whole(path, b"new", force=True)
    monkeypatch.undo()
    assert caught.value.code == "disk-full"
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a", b"old")]


def test_an_input_is_not_replaced_by_whatever_name(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    link = tmp_path / "link"
    os.symlink(path, link)
    for name in (path, tmp_path / "." / "a", link):
        with pytest.raises(UsageError, match="is an input"):
            refuse_overwrite(name, force=True, inputs=[path])


def special(folder: Path, kind: str) -> Path:
    """A pipe, a socket or a device of our own."""
    path = folder / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))
    else:
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root makes devices")
    return path


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_what_is_no_file_is_neither_replaced_nor_read(tmp_path: Path, kind: str) -> None:
    path = special(tmp_path, kind)
    link = tmp_path / "link"
    os.symlink(path, link)
    before = path.lstat()
    for name in (path, link):
        with pytest.raises(UsageError, match="want a file name"):
            write_whole(name, b"data", force=True)
        with pytest.raises(UsageError, match="want a file name"):
            save_arrays(name, {"a": np.zeros(1)}, force=True)
        with pytest.raises(UsageError, match="is a pipe, a socket or a device"):
            refuse_special(name)
        with pytest.raises(UsageError, match="is a pipe, a socket or a device"):
            read_yaml(name)
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["link", kind])


def test_a_link_stays_and_the_file_that_it_names_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "a").write_bytes(b"old")
    link = tmp_path / "link"
    os.symlink(folder / "a", link)
    with pytest.raises(UsageError, match="already exists"):
        write_whole(link, b"new")
    write_whole(link, b"new", force=True)
    assert link.is_symlink()
    assert [(p.name, p.read_bytes()) for p in folder.iterdir()] == [("a", b"new")]


def test_a_link_to_nowhere_is_told_with_the_folder_that_is_missing(tmp_path: Path) -> None:
    link = tmp_path / "link"
    os.symlink(tmp_path / "no" / "a", link)
    with pytest.raises(UsageError, match="no does not exist"):
        write_whole(link, b"new", force=True)


def test_yaml_makes_plain_values_only(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: !!python/name:os.system\n")
    with pytest.raises(UsageError, match="not valid YAML"):
        read_yaml(path)
    path.write_text("a: [1, 2]\n")
    assert read_yaml(path) == {"a": [1, 2]}


@pytest.mark.parametrize(
    "data",
    [
        b"- 1",
        b"",
        b"\xff\xfe\x00",
        b"a: b: c",
        b"a: &x [*x]\nb: {",
        b"a: " + b"[" * 3000 + b"]" * 3000,
        b"a: 2026-13-99",
        b"a: !!bool x",
        b"a: !!int ''",
    ],
)
def test_what_is_no_mapping_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read_yaml(path)
    assert caught.value.code == "bad-yaml"


@pytest.mark.parametrize("name", ["configs", "zoo"])
def test_the_package_finds_its_own_files(name: str) -> None:
    assert any(package_dir(name).rglob("*.yaml"))


@pytest.mark.parametrize("text", ["a: &a\n  b: *a\n", "a: &a\n- 1\n- [2, *a]\n"])
def test_yaml_that_holds_itself_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match="an alias names what it is in"):
        read_yaml(path)
    path.write_text("a: &a [1]\nb: [*a, *a]\n")
    assert read_yaml(path) == {"a": [1], "b": [[1], [1]]}
