"""A file from outside may hold anything: it is refused with a reason, never a crash and never a huge allocation."""

from __future__ import annotations

import contextlib
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.artefact import axm
from axtool.errors import UsageError
from axtool.report.profile import Request, profile
from axtool.runtime.model import load
from tests.artefact.axm_files import Arrays, Change, Manifest, changed, device, open_file, with_text
from tests.conftest import Tiny


def refused(path: Path, match: str = ".", code: str = "not-axm") -> None:
    """Reading refuses it, in little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=match) as caught:
            axm.read(path)
        assert caught.value.code == code
        assert str(path) in str(caught.value)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def open_and_run(path: Path) -> None:
    """All that a user's commands do with a file: whatever happens, it is a UsageError or a result."""
    with contextlib.suppress(UsageError):
        model = load(path, engine="reference")
        with np.errstate(all="ignore"):
            model.run({spec.name: np.zeros(spec.shape, spec.dtype) for spec in model.inputs})
    with contextlib.suppress(UsageError):
        profile(Request(path))


@pytest.mark.parametrize("seed", range(40))
def test_random_bytes_are_refused(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "a.axm"
    path.write_bytes(random.Random(seed).randbytes(seed * 13))
    refused(path)


@pytest.mark.parametrize("seed", range(20))
def test_a_header_of_random_json_is_refused(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    text = json.dumps(
        {"a": {"dtype": "U8", "shape": [rng.choice([3, 2**60, -1])], "data_offsets": [0, rng.choice([3, 2**62])]}}
    )
    path = tmp_path / "a.axm"
    path.write_bytes(len(text).to_bytes(8, "little") + text.encode() + b"abc")
    refused(path)


def test_every_truncation_is_refused(tiny_models: Tiny, tmp_path: Path) -> None:
    data = (tiny_models / "cls.axm").read_bytes()
    path = tmp_path / "a.axm"
    for size in [*range(0, 40), *range(40, len(data), 97), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(UsageError):
            axm.read(path)


def test_bytes_behind_the_end_are_refused(tiny_models: Tiny, tmp_path: Path) -> None:
    path = tmp_path / "a.axm"
    path.write_bytes((tiny_models / "cls.axm").read_bytes() + b"more")
    refused(path)


@pytest.mark.parametrize("part", range(4))
def test_a_flipped_bit_is_refused_or_gives_a_result(tiny_models: Tiny, tmp_path: Path, part: int) -> None:
    data = bytearray((tiny_models / "cls.axm").read_bytes())
    rng, path = random.Random(part), tmp_path / "a.axm"
    for _ in range(40):
        at, bit = rng.randrange(len(data)), 1 << rng.randrange(8)
        data[at] ^= bit
        path.write_bytes(data)
        open_and_run(path)
        data[at] ^= bit


def set_value(*keys: Any, value: Any) -> Change:
    def change(manifest: Manifest, arrays: Arrays) -> None:
        place: Any = device(manifest) if keys[0] == "device" else manifest
        for key in keys[1:-1] if keys[0] == "device" else keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


def tensor_of(what: str, **values: Any) -> Change:
    """Change the tensor that is the stage's first input or output."""

    def change(manifest: Manifest, arrays: Arrays) -> None:
        stage = device(manifest)
        entry = stage["tensors"][stage[what][0]]
        entry |= {key: value for key, value in values.items() if key in entry}
        entry["format"] |= {key: value for key, value in values.items() if key not in entry}

    return change


def slot_of(index: int, **values: Any) -> Change:
    return lambda manifest, arrays: device(manifest)["slots"][index].update(values)


def array(name: str, change: Any) -> Change:
    def apply(manifest: Manifest, arrays: Arrays) -> None:
        arrays[name] = change(arrays[name])

    return apply


def between(**values: Any) -> Change:
    """Change what the first layer makes, which is neither input nor output of the stage."""

    def change(manifest: Manifest, arrays: Arrays) -> None:
        stage = device(manifest)
        stage["tensors"][stage["layers"][0]["outputs"][0]] |= values

    return change


def without_counts(manifest: Manifest, arrays: Arrays) -> None:
    """The average pool's constants speak of windows that do not occur."""
    stage = device(manifest)
    pool = next(layer for layer in stage["layers"] if layer["op"] == "avg_pool")
    arrays[f"0/constant/{stage['constants'].index(pool['inputs'][1])}"][:, 0] += 1


def constant(layer: str, operand: int, place: tuple[int, ...], value: int) -> Change:
    """Change one number of a constant of the first layer of an op."""

    def apply(manifest: Manifest, arrays: Arrays) -> None:
        stage = device(manifest)
        name = next(row["inputs"][operand] for row in stage["layers"] if row["op"] == layer)
        arrays[f"0/constant/{stage['constants'].index(name)}"][place] = value

    return apply


def crossed(key: str) -> Change:
    """The second layer reads the weights of the first one as its pixels, or makes them."""

    def apply(manifest: Manifest, arrays: Arrays) -> None:
        first, second = device(manifest)["layers"][:2]
        second[key][0] = first["inputs"][1]

    return apply


def drop(name: str) -> Change:
    return lambda manifest, arrays: arrays.pop(name)  # type: ignore[return-value]


def add(manifest: Manifest, arrays: Arrays) -> None:
    arrays["more"] = np.zeros(3, np.uint8)


def command(word: int, value: int) -> Change:
    """Change one integer of the first command."""

    def apply(manifest: Manifest, arrays: Arrays) -> None:
        arrays["0/commands"][word] = value

    return apply


HOSTILE: dict[str, tuple[Change, str]] = {
    "an unknown key": (set_value("surprise", value=1), "surprise"),
    "a missing array": (drop("0/commands"), "0/commands"),
    "a missing constant": (drop("0/constant/0"), "0/constant/0"),
    "an array too many": (add, "more"),
    "a constant of another shape": (array("0/constant/0", lambda a: a[:-1]), "is declared"),
    "a constant of another type": (array("0/constant/0", lambda a: a.astype(np.float64)), "float64"),
    "commands of another type": (array("0/commands", lambda a: a.astype(np.int32)), "int64"),
    "commands of another rank": (array("0/commands", lambda a: a.reshape(1, -1)), "int64"),
    "offsets that go back": (array("0/offsets", lambda a: a[::-1].copy()), "offsets"),
    "a command for no layer": (command(2, 99), "layer 99"),
    "a command for a negative layer": (command(2, -1), "layer -1"),
    "a command of no kind": (command(0, 77), "command row"),
    "a command with many reads": (command(4, 2**40), "reads"),
    "a huge memory": (set_value("device", "sizes", "ext", value=2**47), "slots end at"),
    "a huge chip memory": (set_value("device", "sizes", "ocm", value=2**40), "slots end at"),
    "a memory of a negative size": (set_value("device", "sizes", "ext", value=-1), "sizes"),
    "a memory that is too short": (set_value("device", "sizes", "ext", value=1), "ends outside"),
    "a slot outside": (slot_of(0, offset=2**40), "ends outside"),
    "a slot at a negative offset": (slot_of(0, offset=-64), "offset"),
    "a slot for nothing": (slot_of(0, tensor="nothing"), "nothing"),
    "a slot in no memory": (slot_of(0, memory="lrm"), "memory"),
    "a slot of another size": (slot_of(0, size=1), "want"),
    "a slot for no layer": (slot_of(0, first=9, last=9), "lives for no layer"),
    "a NaN scale": (tensor_of("inputs", scale=[float("nan")]), "NaN"),
    "an infinite scale": (tensor_of("inputs", scale=[float("inf")]), "Infinity"),
    "a scale of zero": (tensor_of("inputs", scale=[0.0]), "scale"),
    "no scale": (tensor_of("inputs", scale=[]), "scale"),
    "two scales": (tensor_of("inputs", scale=[1.0, 1.0]), "one scale"),
    "a zero point outside int8": (tensor_of("outputs", zero_point=[300]), "zero point"),
    "scores in int32, which lie as labels do": (tensor_of("outputs", kind="int32"), "outside and"),
    "int16 in the bytes of int8": (tensor_of("outputs", kind="int16", zero_point=[0]), "outside"),
    "an op of int16 without the bytes of its numbers": (
        set_value("device", "layers", 0, "op", value="wide_conv"), "missing"),
    "a tensor with a huge dimension": (tensor_of("inputs", shape=[1, 2**30, 2**15, 3]), "elements"),
    "a tensor of rank 2": (tensor_of("inputs", shape=[1, 3]), "stored as"),
    "a tensor of another size outside": (tensor_of("inputs", onnx_shape=[1, 3, 9, 9]), "outside"),
    "a tensor inside of another size outside": (between(onnx_shape=[1, 2, 3]), "outside"),
    "a tensor of five axes by channels": (between(onnx_shape=[1, 8, 1, 8, 8], layout="channel_first"), "5 axes"),
    "a window that the constants do not count": (without_counts, "no constant for windows of"),
    "a negative shift of a channel": (constant("conv", 2, (37,), -1), "no scale"),
    "a shift of a channel beyond 64 bits": (constant("conv", 2, (32,), 63), "no scale"),
    "a negative scale of a channel": (constant("conv", 2, (16,), -1), "no scale"),
    "a shift of a mean that is none": (constant("avg_pool", 1, (0, 2), -(2**31)), "no scale"),
    "a negative scale of a mean": (constant("avg_pool", 1, (0, 1), -1), "no scale"),
    "a layer that reads weights as pixels": (crossed("inputs"), "no pixels"),
    "a layer that makes weights": (crossed("outputs"), "makes the constant"),
    "a negative dimension": (tensor_of("inputs", shape=[1, -1, 16, 3]), "shape"),
    "an op that does not exist": (set_value("device", "layers", 0, "op", value="launch"), "launch"),
    "a layer without output": (set_value("device", "layers", 0, "outputs", value=[]), "one output"),
    "a layer without input": (set_value("device", "layers", 0, "inputs", value=[]), "inputs"),
    "a layer that reads nothing known": (set_value("device", "layers", 0, "inputs", value=["q"]), "'q'"),
    "a layer without attributes": (set_value("device", "layers", 0, "attrs", value={}), "missing"),
    "an attribute beyond int64": (set_value("device", "layers", 0, "attrs", "group", value=2**70), "attrs"),
    "an attribute of zero": (set_value("device", "layers", 0, "attrs", "group", value=0), "group"),
    "an attribute that is text": (set_value("device", "layers", 0, "attrs", "group", value="1"), "attrs"),
    "an input of another shape": (set_value("inputs", 0, "shape", value=[1, 3, 9, 9]), "shape"),
    "an input of no type": (set_value("inputs", 0, "dtype", value="float33"), "float33"),
    "an output that nothing makes": (set_value("outputs", 0, "name", value="other"), "other"),
    "an output that is named twice": (lambda m, a: m["outputs"].append(m["outputs"][0]), "twice"),
    "a stage of no kind": (set_value("stages", 0, "kind", value="cloud"), "kind"),
    "no chip": (set_value("target", value={}), "target"),
    "a chip with a negative clock": (set_value("target", "clock_hz", value=-1), "clock"),
    "a task that is none": (set_value("task", value={"kind": "detection", "labels": [1]}), "task"),
    "support without a kind": (set_value("support", value=[{"node": "x"}]), "support"),
    "provenance that is no text": (set_value("provenance", value={"sha256": 3}), "provenance"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_file_is_refused_with_the_reason(tiny_models: Tiny, tmp_path: Path, name: str) -> None:
    change, reason = HOSTILE[name]
    refused(changed(tiny_models / "cls.axm", tmp_path / "a.axm", change), reason)


@pytest.mark.parametrize("version", ["axtool.axm/0", "axtool.axm/2"])
def test_another_version_is_refused_by_its_number(tiny_models: Tiny, tmp_path: Path, version: str) -> None:
    path = changed(tiny_models / "cls.axm", tmp_path / "a.axm", set_value("format", value=version))
    refused(path, version, "axm-version")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "manifest"),
        ('{"a":' * 100_000, "manifest"),
        ("{", "manifest"),
        ("[]", "manifest"),
        ("null", "manifest"),
        ('{"format": 1, "format": 1}', "twice"),
        ('{"format": NaN}', "NaN"),
        ('{"format": ' + "9" * 5000 + "}", "manifest"),
    ],
)
def test_a_manifest_that_is_not_one_is_refused(tiny_models: Tiny, tmp_path: Path, text: str, reason: str) -> None:
    refused(with_text(tiny_models / "cls.axm", tmp_path / "a.axm", text), reason)


def test_a_key_that_occurs_twice_is_refused(tiny_models: Tiny, tmp_path: Path) -> None:
    text = json.dumps(open_file(tiny_models / "cls.axm")[0])
    text = text.replace('"sizes": {', '"sizes": {"ext": 1, ', 1)
    refused(with_text(tiny_models / "cls.axm", tmp_path / "a.axm", text), "twice")


@pytest.mark.parametrize("word", range(6, 32))
@pytest.mark.parametrize("value", [-1, 2**31, 2**62, -(2**62)])
def test_a_command_with_an_address_outside_runs_nothing(
    tiny_models: Tiny, tmp_path: Path, word: int, value: int
) -> None:
    path = changed(tiny_models / "cls.axm", tmp_path / "a.axm", command(word, value))
    open_and_run(path)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_view_outside_its_memory_is_refused_by_the_engine(tiny_models: Tiny, tmp_path: Path, engine: str) -> None:
    path = changed(tiny_models / "cls.axm", tmp_path / "a.axm", command(13, 2**40))
    with pytest.raises(UsageError, match=r"the plan is not legal: .*command 0"):
        load(path, engine=engine)


def test_a_view_outside_its_memory_is_refused_by_profile(tiny_models: Tiny, tmp_path: Path) -> None:
    path = changed(tiny_models / "cls.axm", tmp_path / "a.axm", command(13, 2**40))
    with pytest.raises(UsageError, match="the plan is not legal"):
        profile(Request(path))


def test_an_engine_that_refuses_the_numbers_is_a_fault_of_the_file(tiny_models: Tiny) -> None:
    model = load(tiny_models / "cls.axm", engine="reference")
    stage = model.devices[0]

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise ValueError("no constant for windows of 7 cells")

    stage.engine.run = refuse  # type: ignore[method-assign]
    feeds = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in model.inputs}
    for run in (model.run, model.run_watched):
        with pytest.raises(UsageError, match="cannot be run: no constant for windows of 7 cells") as caught:
            run(feeds)
        assert caught.value.code == "not-axm"


def test_a_host_stage_that_is_no_model_is_refused(tiny_models: Tiny, tmp_path: Path) -> None:
    def damage(manifest: Manifest, arrays: Arrays) -> None:
        arrays["1/onnx"][:40] = 255

    path = changed(tiny_models / "two.axm", tmp_path / "a.axm", damage)
    with pytest.raises(UsageError, match="host stage") as caught:
        load(path)
    assert caught.value.code == "bad-host-stage"


def test_a_host_stage_with_other_names_is_refused(tiny_models: Tiny, tmp_path: Path) -> None:
    def rename(manifest: Manifest, arrays: Arrays) -> None:
        manifest["stages"][1]["outputs"] = ["other"]
        manifest["outputs"] = [{"name": "other", "shape": [1], "dtype": "float32"}]

    path = changed(tiny_models / "two.axm", tmp_path / "a.axm", rename)
    with pytest.raises(UsageError, match="'other'"):
        load(path)


def test_a_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    refused(tmp_path, "folder")
    refused(tmp_path / "none.axm", "no such file", "file-not-found")


def test_an_onnx_file_is_told_apart(tiny_models: Tiny) -> None:
    refused(tiny_models / "cls.onnx", "not compiled")


def test_a_constant_that_reaches_into_the_next_is_refused(tiny_models: Tiny, tmp_path: Path) -> None:
    def reach(manifest: Manifest, arrays: Arrays) -> None:
        slots = [slot for slot in device(manifest)["slots"] if slot["memory"] == "ext"]
        first, following = sorted(slots, key=lambda slot: slot["offset"])[:2]
        first["offset"] = following["offset"]

    refused(changed(tiny_models / "cls.axm", tmp_path / "a.axm", reach), "share bytes")
