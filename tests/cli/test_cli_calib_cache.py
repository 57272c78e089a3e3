"""`--calib-cache`: the same bytes with and without, no float pass the second time, and no harm from any other file."""

from __future__ import annotations

import json
import zlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axtool.quant.calib_cache as calib_cache
from axtool.quant.calib_cache import MAGIC, open_cache
from axtool.quant.observe import Seen
from axtool.quant.seen_file import _PACKED
from tests import tiny
from tests.conftest import Tiny
from tests.tiny import Ran, axtool

HEAD = len(MAGIC) + 64


@pytest.fixture
def onnx(tiny_models: Tiny) -> Path:
    return tiny_models / "cls.onnx"


def compiled(onnx: Path, tiny_models: Tiny, *words: object, out: str = "m.axm") -> Ran:
    ran = axtool("compile", onnx, "--calib", tiny_models / "data.npz", "-o", out, "--force", *words)
    assert ran.code == 0, ran.err
    return ran


def ran_the_float_model(ran: Ran) -> bool:
    return "calibrating: " in ran.err


def files(work: Path) -> list[Path]:
    return sorted((work / "cache").iterdir())


@pytest.mark.parametrize("words", [(), ("-O", "0"), ("-O", "2"), ("--method", "minmax"), ("--recipe", "symmetric")])
def test_the_file_has_the_same_bytes_with_and_without_a_cache(
    onnx: Path, tiny_models: Tiny, work: Path, words: tuple[str, ...]
) -> None:
    plain = compiled(onnx, tiny_models, *words, out="plain.axm")
    first = compiled(onnx, tiny_models, *words, "--calib-cache", "cache", out="first.axm")
    second = compiled(onnx, tiny_models, *words, "--calib-cache", "cache", out="second.axm")
    assert len({(work / name).read_bytes() for name in ("plain.axm", "first.axm", "second.axm")}) == 1
    assert [ran_the_float_model(ran) for ran in (plain, first, second)] == [True, True, False]
    warnings = [[line for line in ran.err.splitlines() if line.startswith("warning")] for ran in (plain, first, second)]
    assert warnings[0] == warnings[1] == warnings[2]


@pytest.mark.parametrize(
    "words", [("-O", "0"), ("--method", "minmax"), ("--method", "entropy"), ("-t", "qc-u-1d5-8mb")]
)
def test_other_recipes_and_chips_use_the_same_pass(
    onnx: Path, tiny_models: Tiny, work: Path, words: tuple[str, ...]
) -> None:
    compiled(onnx, tiny_models, "--calib-cache", "cache")
    assert not ran_the_float_model(compiled(onnx, tiny_models, *words, "--calib-cache", "cache", out="cached.axm"))
    compiled(onnx, tiny_models, *words, out="plain.axm")
    assert (work / "cached.axm").read_bytes() == (work / "plain.axm").read_bytes()
    assert len(files(work)) == 1


def test_a_host_stage_before_and_behind_the_device_is_cached_too(work: Path) -> None:
    tiny.save(work / "two.onnx", tiny.TWO_STAGES, tiny.TWO_STAGES_WEIGHTS)
    words = ("--calib", "random:12", "--input-shape", "image:1,3,8,8", "--calib-cache", "cache", "--force")
    first = axtool("compile", "two.onnx", *words, "-o", "a.axm")
    second = axtool("compile", "two.onnx", *words, "-o", "b.axm", "-j", "2")
    assert [ran_the_float_model(first), ran_the_float_model(second)] == [True, False]
    assert (work / "a.axm").read_bytes() == (work / "b.axm").read_bytes()


def test_what_two_processes_saw_is_what_one_would_have(onnx: Path, tiny_models: Tiny, work: Path) -> None:
    compiled(onnx, tiny_models, "--calib-cache", "one.cache")
    compiled(onnx, tiny_models, "--calib-cache", "two.cache", "-j", "2")
    compiled(onnx, tiny_models, "--calib-cache", "two.cache", out="b.axm")
    assert (work / "m.axm").read_bytes() == (work / "b.axm").read_bytes()


def test_a_name_with_an_ending_is_a_file_and_holds_the_last_pass(onnx: Path, tiny_models: Tiny, work: Path) -> None:
    cache = ("--calib-cache", "calib.cache")
    compiled(onnx, tiny_models, *cache)
    assert not ran_the_float_model(compiled(onnx, tiny_models, *cache))
    other = compiled(onnx, tiny_models, *cache, "--limit", "9")
    assert ran_the_float_model(other)
    assert "warning: calib.cache is of another model, other samples, options or versions: calibrating anew" in other.err
    assert not ran_the_float_model(compiled(onnx, tiny_models, *cache, "--limit", "9"))


@pytest.mark.parametrize("name", ["cache/", "cache"])
def test_a_folder_is_made(onnx: Path, tiny_models: Tiny, work: Path, name: str) -> None:
    compiled(onnx, tiny_models, "--calib-cache", name)
    assert [path.suffix for path in files(work)] == [".axcal"]


def test_other_samples_are_another_pass(onnx: Path, tiny_models: Tiny, work: Path) -> None:
    compiled(onnx, tiny_models, "--calib-cache", "cache")
    data = np.load(tiny_models / "data.npz")["x"]
    data[5, 1, 2, 3] = np.nextafter(data[5, 1, 2, 3], np.float32(9))
    np.savez(work / "d.npz", x=data)
    ran = axtool("compile", onnx, "--calib", "d.npz", "--calib-cache", "cache", "-o", "b.axm")
    assert (ran_the_float_model(ran), len(files(work))) == (True, 2)


def test_other_weights_are_another_pass(onnx: Path, tiny_models: Tiny, work: Path) -> None:
    compiled(onnx, tiny_models, "--calib-cache", "cache")
    other = tiny.save(work / "cls.onnx", tiny.CLASSIFIER, {**tiny.CLASSIFIER_WEIGHTS, "b2": np.ones(10)})
    assert ran_the_float_model(compiled(other, tiny_models, "--calib-cache", "cache", out="b.axm"))


def test_the_order_of_the_samples_is_part_of_the_key(onnx: Path, tiny_models: Tiny, work: Path) -> None:
    compiled(onnx, tiny_models, "--calib-cache", "cache")
    np.savez(work / "d.npz", x=np.load(tiny_models / "data.npz")["x"][::-1])
    assert ran_the_float_model(axtool("compile", onnx, "--calib", "d.npz", "--calib-cache", "cache", "-o", "b.axm"))


def test_another_preparation_of_the_same_pictures_is_another_pass(tiny_models: Tiny, onnx: Path, work: Path) -> None:
    words = ("--calib", tiny_models / "picture.png", "--calib-cache", "cache", "--force")
    for scale in ("1/255", "1/128"):
        assert ran_the_float_model(axtool("compile", onnx, *words, "--scale", scale, "-v"))


def test_another_version_calibrates_anew(
    onnx: Path, tiny_models: Tiny, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(onnx, tiny_models, "--calib-cache", "calib.cache")
    monkeypatch.setattr(calib_cache, "__version__", "99")
    assert ran_the_float_model(compiled(onnx, tiny_models, "--calib-cache", "calib.cache"))


def _damaged(data: bytes, kind: str) -> bytes:
    flipped = bytearray(data)
    flipped[-20] ^= 4
    body = data[HEAD:]

    def checked(new: bytes) -> bytes:
        return data[: len(MAGIC) + 32] + calib_cache._digest(new) + new

    header = json.loads(zlib.decompress(body)[8 : 8 + int.from_bytes(zlib.decompress(body)[:8], "little")])
    names = json.loads(header["__metadata__"]["seen"])

    def renamed(change: Any) -> bytes:
        from safetensors.numpy import load, save

        change(names)
        return checked(zlib.compress(save(load(zlib.decompress(body)), metadata={"seen": json.dumps(names)})))

    return {
        "a bit is flipped": lambda: bytes(flipped),
        "the end is missing": lambda: data[:-100],
        "all but the head is missing": lambda: data[:HEAD],
        "the head is cut": lambda: data[: len(MAGIC) + 5],
        "noise in a right frame": lambda: checked(b"no zlib at all"),
        "no safetensors": lambda: checked(zlib.compress(b"x" * 100)),
        "a bomb": lambda: checked(zlib.compress(b"\0" * (1 << 24))[:-8]),
        "more than there should be": lambda: checked(body + b"x"),
        "one part": lambda: renamed(lambda n: n.pop()),
        "no names": lambda: renamed(lambda n: n.__setitem__(0, None)),
        "other tensors": lambda: renamed(lambda n: n[0]["observers"].__setitem__(0, "zz")),
        "fewer tensors": lambda: renamed(lambda n: n[0]["observers"].pop()),
        "means of another tensor": lambda: renamed(lambda n: n[0]["means"].__setitem__(0, "zz")),
        "an output of another name": lambda: renamed(lambda n: n[1]["kept"].__setitem__(0, [0, "zz"])),
        "facts that are none": lambda: renamed(lambda n: n[0]["facts"].__setitem__("digests", [1, 2])),
        "facts of no input": lambda: renamed(lambda n: n[0]["facts"].__setitem__("inputs", [])),
    }[kind]()


KINDS = (
    "a bit is flipped", "the end is missing", "all but the head is missing", "the head is cut",
    "noise in a right frame", "no safetensors", "a bomb", "more than there should be", "one part", "no names",
    "other tensors", "fewer tensors", "means of another tensor", "an output of another name",
    "facts that are none", "facts of no input",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_said_to_be_and_replaced(onnx: Path, tiny_models: Tiny, work: Path, kind: str) -> None:
    compiled(onnx, tiny_models, "--calib-cache", "c.axcal", out="a.axm")
    good = (work / "c.axcal").read_bytes()
    (work / "c.axcal").write_bytes(_damaged(good, kind))
    ran = compiled(onnx, tiny_models, "--calib-cache", "c.axcal")
    assert "warning: c.axcal " in ran.err
    assert ran_the_float_model(ran)
    assert (work / "m.axm").read_bytes() == (work / "a.axm").read_bytes()
    assert (work / "c.axcal").read_bytes() == good


@pytest.mark.parametrize("content", [b"", b"a text of mine", b"PK\x03\x04"])
def test_a_file_that_is_something_else_is_refused_and_kept(
    onnx: Path, tiny_models: Tiny, work: Path, content: bytes
) -> None:
    (work / "mine.txt").write_bytes(content)
    ran = axtool("compile", onnx, "--calib", tiny_models / "data.npz", "--calib-cache", "mine.txt", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "not-calib-cache")
    assert (work / "mine.txt").read_bytes() == content


def test_a_place_that_cannot_be_is_refused_before_any_work(onnx: Path, tiny_models: Tiny, work: Path) -> None:
    ran = axtool("compile", onnx, "--calib", tiny_models / "data.npz", "--calib-cache", "no/where/c.axcal", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "no-such-folder")


def test_a_cache_that_cannot_be_written_does_no_harm(
    onnx: Path, tiny_models: Tiny, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise calib_cache.EnvironmentFault("cannot write: No space left on device")

    monkeypatch.setattr(calib_cache, "write_whole", full)
    ran = compiled(onnx, tiny_models, "--calib-cache", "c.axcal")
    assert "warning: the calibration is not kept in c.axcal" in ran.err
    assert not (work / "c.axcal").exists()


def test_the_cache_is_no_output_file(onnx: Path, tiny_models: Tiny, work: Path) -> None:
    words = ("--calib", tiny_models / "data.npz", "--calib-cache", "m.axm", "-o", "m.axm")
    ran = axtool("compile", onnx, *words, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "output-is-input")


def test_a_pass_of_which_no_sample_is_held_back_is_kept_too(onnx: Path, tiny_models: Tiny, work: Path) -> None:
    words = ("--limit", "3", "--calib-cache", "cache")
    compiled(onnx, tiny_models, *words, out="a.axm")
    assert not ran_the_float_model(compiled(onnx, tiny_models, *words))
    assert (work / "m.axm").read_bytes() == (work / "a.axm").read_bytes()


def test_an_output_without_axes_survives(work: Path) -> None:
    graph = """(float[1,4] x) => (float[1,3] y, float s) {
      y = Gemm(x, w)
      s = ReduceSum <keepdims=0> (y)
    }"""
    tiny.save(work / "m.onnx", graph, {"w": (4, 3)})
    for out in ("a.axm", "b.axm"):
        ran = axtool("compile", "m.onnx", "--calib", "random:16", "--calib-cache", "cache", "-o", out)
        assert ran.code == 0, ran.err
    assert (work / "a.axm").read_bytes() == (work / "b.axm").read_bytes()


def test_no_part_of_what_is_seen_is_left_out_of_the_file() -> None:
    assert {field.name for field in fields(Seen)} == set(_PACKED)


def test_without_data_nothing_is_written(onnx: Path, tiny_models: Tiny, work: Path) -> None:
    ran = axtool("compile", onnx, "--ranges", tiny_models / "ranges.json", "--calib-cache", "c.axcal")
    assert (ran.code, (work / "c.axcal").exists()) == (0, False)


def test_a_device_is_no_place_for_it(work: Path) -> None:
    with pytest.raises(calib_cache.UsageError, match="is a pipe, a socket or a device"):
        open_cache("/dev/null")


def test_an_empty_name_is_no_folder(onnx: Path, tiny_models: Tiny, work: Path) -> None:
    """As a path it would be the folder around."""
    ran = axtool("compile", onnx, "--calib", tiny_models / "data.npz", "-o", "m.axm", "--calib-cache", "", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "bad-option")
    assert not list(work.iterdir())
