"""`op.load` of files and names that somebody else wrote: each fault is told with its file, nothing hangs or escapes."""

from __future__ import annotations

import io
import os
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axtool.errors import AxError, UsageError
from axtool.runtime import Postamble, op
from tests.conftest import Tiny

LOAD = 'format = 1\npipeline = {operator = "seq", steps = [{operator = "load", model = "model0.axm"%s}]}\n'


def saved(path: Path, model: bytes, more: str = "") -> Path:
    """An .axe with one model and what stands beside it."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pipeline.toml", LOAD % more)
        archive.writestr("model0.axm", model)
    return path


@pytest.fixture
def whole(tiny_models: Tiny, tmp_path: Path) -> Path:
    return saved(tmp_path / "whole.axe", (tiny_models / "two.axm").read_bytes())


def test_the_file_of_these_tests_loads(whole: Path) -> None:
    assert isinstance(op.load(whole), op.Seq)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("suffix", [".axe", ".axm"])
@pytest.mark.parametrize("make", [fifo, zeros, loop, Path.mkdir], ids=["pipe", "device", "link to itself", "folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, suffix: str, make: Callable[[Path], None]) -> None:
    make(tmp_path / f"x{suffix}")
    with pytest.raises(UsageError, match=r"x\.ax"):
        op.load(tmp_path / f"x{suffix}")


@pytest.mark.parametrize(
    "name", ["a" * 5000 + ".axe", "a\0b.axe", "gone.axe", "a" * 5000 + ".axm", "a\0b.axm", "gone.axm"]
)
def test_a_name_that_no_file_has_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        op.load(name)


def central(data: bytearray) -> int:
    """Where the entry of the last member begins."""
    return data.rindex(b"PK\x01\x02")


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (6, struct.pack("<H", 99)),  # a version of zip that is to come
        (8, struct.pack("<H", 0x20)),  # a patch
        (8, struct.pack("<H", 0x41)),  # encrypted
        (10, struct.pack("<H", 14)),  # compressed in another way
        (20, struct.pack("<I", 7)),  # shorter than it is
        (24, struct.pack("<I", 0xF0000000)),  # larger than a model may be
        (42, struct.pack("<I", 0x7FFFFFF0)),  # beyond the end
    ],
)
def test_what_a_zip_says_of_a_member_is_not_believed(whole: Path, offset: int, value: bytes) -> None:
    data = bytearray(whole.read_bytes())
    at = central(data) + offset
    data[at : at + len(value)] = value
    whole.write_bytes(data)
    with pytest.raises(UsageError, match=r"whole\.axe"):
        op.load(whole)


def test_a_member_that_unpacks_to_more_than_a_model_is_refused_unread(whole: Path) -> None:
    data = bytearray(whole.read_bytes())
    at = central(data) + 24
    data[at : at + 4] = struct.pack("<I", (1 << 30) + 1)
    whole.write_bytes(data)
    with pytest.raises(UsageError, match=r"model0\.axm is larger than 1,073,741,824 bytes"):
        op.load(whole)


def test_bytes_that_were_changed_are_refused_or_harmless(whole: Path) -> None:
    good, dice = whole.read_bytes(), random.Random(1)
    directory = good.index(b"PK\x01\x02")
    for _ in range(150):
        data = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            data[
                dice.choice([dice.randrange(len(data)), dice.randrange(400), dice.randrange(directory, len(data))])
            ] = dice.randrange(256)
        whole.write_bytes(data[: dice.choice([len(data), dice.randrange(len(data))])])
        try:
            assert isinstance(op.load(whole), op.Seq)
        except AxError as error:
            assert "whole.axe" in str(error)  # noqa: PT017 - most of them raise, which ones is not known
            assert len(str(error)) < 1000  # noqa: PT017


EVIL = {
    "no_python": ("def (", "SyntaxError: invalid syntax"),
    "leaves": ("raise SystemExit(0)", "SystemExit: 0"),
    "raises": ("1 / 0", "ZeroDivisionError: division by zero"),
    "imports_nothing": ("import no_such_module_at_all", "No module named 'no_such_module_at_all'; looked in"),
    "makes_names": ("def __getattr__(name): raise KeyError(name)", "'Tail' cannot be read: KeyError: 'Tail'"),
    "other_name": ("class Tails: pass", "has no class 'Tail'; did you mean Tails?"),
}


@pytest.mark.parametrize("module", EVIL)
def test_a_kernel_whose_module_cannot_be_used_is_an_import_error_with_the_file(
    tiny_models: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    text, said = EVIL[module]
    (tmp_path / f"evil_{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    more = f', postamble = {{kernel = "evil_{module}:Tail"}}'
    path = saved(tmp_path / "x.axe", (tiny_models / "two.axm").read_bytes(), more)
    with pytest.raises(ImportError) as error:
        op.load(path)
    assert said in str(error.value)
    assert str(error.value).startswith(f"{path}: kernel 'evil_{module}:Tail'")


@pytest.mark.parametrize("name", ["", ":", "a:b:c", ".rel:X", "a..b:X", "a b:X", "/etc/passwd:X", "a\0:X", "a" * 10**5])
def test_what_is_no_name_of_a_kernel_is_imported_by_nobody(name: str) -> None:
    with pytest.raises(ValueError, match="want the name of a built-in kernel, or 'module:ClassName'") as error:
        Postamble(fused_kernel=name)
    assert len(str(error.value)) < 200


class Odd(op.Operator):
    """A kernel that fails while it is made, in the way that `fault` says."""

    def __init__(self, infos: Any, model_width: int, model_height: int, *, fault: str, name: str = "") -> None:
        if fault == "decode":
            b"\xff".decode()
        elif fault == "key":
            raise KeyError("anchors")
        elif fault == "type":
            raise TypeError("infos")
        self.output_shapes: Any = 3 if fault == "number" else ((1, 4, 64), None)
        super().__init__(name=name)


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("decode", ValueError, "Odd: 'utf-8' codec can't decode byte 0xff"),
        ("key", RuntimeError, "Odd fails while it is made: KeyError: 'anchors'"),
        ("type", TypeError, "Odd: infos"),
        ("number", ValueError, "Odd: output_shapes is 3, want a shape for each output"),
        ("none", ValueError, "want a shape for each output"),
    ],
)
def test_a_kernel_that_fails_while_it_is_made_names_file_and_kernel(
    tiny_models: Tiny, fault: str, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind) as error:
        op.load(tiny_models / "two.axm", using_postamble=Postamble(kernel=f"{__name__}:Odd", fault=fault))
    assert said in str(error.value)
    assert "two.axm: Odd" in str(error.value)


class OfBothSlots(op.Operator):
    """Says a slot that is none."""

    postamble_slot = "both"


def test_a_slot_that_is_none_is_told_so() -> None:
    with pytest.raises(ValueError, match="postamble_slot is 'both', want 'kernel' or 'fused_kernel'"):
        Postamble(kernel=f"{__name__}:OfBothSlots").kernel_class()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"using_postamble": "UltralyticsYoloPostamble"}, "using_postamble is a str, want a Postamble"),
        ({"using_postamble": {}}, "using_postamble is a dict, want a Postamble"),
        ({"threads": "2"}, "threads is a str, want a whole number"),
        ({"name": 3}, "name is a int, want a text"),
    ],
)
def test_arguments_of_another_type_are_refused_by_name(tiny_models: Tiny, given: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        op.load(tiny_models / "two.axm", **given)


def test_a_bomb_of_a_description_is_not_unpacked(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pipeline.toml", "a" * (1 << 25))
    (tmp_path / "bomb.axe").write_bytes(buffer.getvalue())
    with pytest.raises(UsageError, match=r"pipeline\.toml is larger than 1,048,576 bytes"):
        op.load(tmp_path / "bomb.axe")
