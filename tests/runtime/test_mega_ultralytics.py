"""`UltralyticsYoloPostamble` against the onnxruntime tail, its backends against its reference, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from axtool.runtime import TensorInfo, mega
from axtool.runtime.mega import byte_functions
from benchmarks.tails import yolo
from tests.runtime.tail_case import Tail, random_buffers

RTOL, ATOL = 1e-5, 1e-6
BOX_RTOL = 1e-6  # of the stride times the bins: a box is a difference of expected bins
KERNEL = mega.UltralyticsYoloPostamble
SIZE = (96, 160)  # height, width: grids of 12x20, 6x10, 3x5

FAMILIES: dict[str, tuple[Callable[[], bytes], dict[str, Any]]] = {
    "detection": (lambda: yolo.yolov8(SIZE, 80), {"num_classes": 80}),
    "one class": (lambda: yolo.yolov8(SIZE, 1), {"num_classes": 1}),
    "pose": (lambda: yolo.yolov8(SIZE, 1, extra="keypoint", channels=51), {"num_classes": 1}),
    "segmentation": (lambda: yolo.yolov8(SIZE, 7, extra="mask", channels=32), {"num_classes": 7}),
    "oriented": (lambda: yolo.yolov8(SIZE, 15, extra="angle", channels=1), {"num_classes": 15}),
    "four levels": (lambda: yolo.yolov8((128, 128), 3, strides=(8, 16, 32, 64)), {"num_classes": 3}),
    "v6, 17 bins": (lambda: yolo.yolov6(SIZE, 20), {"num_classes": 20, "dfl_bins": 17}),
    "v6, distances": (lambda: yolo.yolov6(SIZE, 20, bins=1), {"num_classes": 20, "dfl_bins": 1, "form": "yolov6"}),
    "yolox": (lambda: yolo.yolox(SIZE, 80), {"num_classes": 80, "has_objectness": True}),
    "yolox, raw": (
        lambda: yolo.yolox(SIZE, 80, decoded=False),
        {"num_classes": 80, "has_objectness": True, "form": "yolox-raw"},
    ),
    "yolox, one class": (
        lambda: yolo.yolox(SIZE, 1),
        {"num_classes": 1, "has_objectness": True, "tensor_roles": ["box", "objectness", "class"] * 3},
    ),
}


def size_of(family: str) -> tuple[int, int]:
    return (128, 128) if family == "four levels" else (SIZE[1], SIZE[0])


def values(result: Any) -> list[np.ndarray]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("padded", [True, False], ids=["padded on every axis", "padded to 64 channels"])
def test_every_family_gives_what_its_tail_gives(family: str, padded: bool) -> None:
    build, params = FAMILIES[family]
    rng = np.random.default_rng(7)
    tail = Tail(build())
    infos = tail.infos(rng, padded=padded)
    buffers = random_buffers(infos, rng)
    kernel = KERNEL(infos, *size_of(family), **params)
    got, wanted = values(kernel(*buffers)), tail.run(buffers, infos)
    assert [g.shape for g in got] == [w.shape for w in wanted] == list(kernel.output_shapes)
    assert {g.dtype for g in got} == {np.dtype(np.float32)}
    last = kernel.form != "yolov8"
    box, rest = (np.moveaxis(array[0], -1, 0) if last else array[0] for array in (got[0], wanted[0]))
    np.testing.assert_allclose(box[4:], rest[4:], rtol=RTOL, atol=ATOL)
    np.testing.assert_allclose(box[:4], rest[:4], rtol=RTOL, atol=BOX_RTOL * 64 * kernel.dfl_bins)
    for g, w in zip(got[1:], wanted[1:], strict=True):
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_backend_gives_the_bits_of_the_reference(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build, params = FAMILIES[family]
    rng = np.random.default_rng(8)
    infos = Tail(build()).infos(rng)
    buffers = random_buffers(infos, rng)
    native = byte_functions.native_module()
    names = native.postamble_backends() if native is not None else []
    results = {name: values(KERNEL(infos, *size_of(family), backend=name, **params)(*buffers)) for name in names}
    monkeypatch.setattr(byte_functions, "native_module", lambda: None)
    reference = values(KERNEL(infos, *size_of(family), **params)(*buffers))
    for name, arrays in results.items():
        for got, wanted in zip(arrays, reference, strict=True):
            np.testing.assert_array_equal(got, wanted, err_msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_threads_share_a_frame_and_the_bits_stay(family: str) -> None:
    build, params = FAMILIES[family]
    rng = np.random.default_rng(13)
    infos = Tail(build()).infos(rng)
    buffers = random_buffers(infos, rng)
    one, several = (values(KERNEL(infos, *size_of(family), threads=n, **params)(*buffers)) for n in (1, 3))
    for mine, wanted in zip(several, one, strict=True):
        np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_scales_that_leave_the_range_of_exp_still_agree_with_the_tail(scale: float) -> None:
    rng = np.random.default_rng(9)
    tail = Tail(yolo.yolov8(SIZE, 5))
    infos = tail.infos(rng, scale=scale)
    buffers = random_buffers(infos, rng)
    got, wanted = KERNEL(infos, 160, 96, num_classes=5)(*buffers), tail.run(buffers, infos)[0]
    np.testing.assert_allclose(got, wanted, rtol=RTOL, atol=BOX_RTOL * 32 * 16)


def test_the_order_of_the_outputs_does_not_matter() -> None:
    rng = np.random.default_rng(10)
    infos = Tail(yolo.yolov8(SIZE, 5)).infos(rng)
    buffers = random_buffers(infos, rng)
    wanted = KERNEL(infos, 160, 96, num_classes=5)(*buffers).copy()
    mixed = rng.permutation(len(infos))
    got = KERNEL([infos[i] for i in mixed], 160, 96, num_classes=5)(*(buffers[i] for i in mixed))
    np.testing.assert_array_equal(got, wanted)


def test_an_output_that_is_still_held_is_not_written_again() -> None:
    rng = np.random.default_rng(11)
    infos = Tail(yolo.yolov8(SIZE, 5)).infos(rng)
    kernel = KERNEL(infos, 160, 96, num_classes=5)
    first = kernel(*random_buffers(infos, rng))
    kept = first.copy()
    kernel(*random_buffers(infos, rng))
    np.testing.assert_array_equal(first, kept)


def test_an_output_that_nobody_holds_is_used_again() -> None:
    rng = np.random.default_rng(12)
    infos = Tail(yolo.yolov8(SIZE, 5)).infos(rng)
    kernel, buffers = KERNEL(infos, 160, 96, num_classes=5), random_buffers(infos, rng)
    address = kernel(*buffers).ctypes.data
    assert kernel(*buffers).ctypes.data == address


def info(h: int, w: int, c: int, **changes: Any) -> TensorInfo:
    return TensorInfo((1, h, w, c), **{"scale": 0.1, "name": f"{c}x{h}x{w}", **changes})


TWO = [info(4, 4, 64), info(4, 4, 10)]

REFUSALS: list[tuple[list[TensorInfo], dict[str, Any], str]] = [
    ([], {}, "the model gives no tensor"),
    ([info(4, 4, 64, dtype=np.int32), TWO[1]], {}, "output 0 '64x4x4' (1, 4, 4, 64) is int32, want int8; drop"),
    (
        [TWO[0], info(4, 4, 10, scale=np.full(10, 0.1))],
        {},
        "has 10 scales: needs a per-tensor output quantization; drop the Postamble to run the onnx tail",
    ),
    ([info(4, 4, 45)], {}, "no output has the 64 channels of boxes (4 * dfl_bins); the outputs have 45 channels; "
     "45 is 3 anchors x (5 + 10): a packed head, which AnchoredYoloPostamble reads"),
    ([info(4, 4, 68), TWO[1]], {}, "no output has the 64 channels of boxes"),
    ([TWO[0], info(4, 4, 64)], {"num_classes": 64}, "cannot tell outputs apart: output 0"),
    ([TWO[0], info(2, 2, 10)], {}, "the level of 4x4 has no class"),
    (TWO, {"num_classes": 80}, "no output has 80 channels, one for each of num_classes=80; beside the boxes "
     "the outputs have 10 channels: num_classes=10 would fit"),
    ([*TWO, info(4, 4, 10)], {}, "are both the class of one level"),
    ([*TWO, info(2, 2, 64), info(2, 2, 10), info(4, 4, 7), info(2, 2, 9)], {}, "do not account for output 4"),
    ([info(5, 4, 64), info(5, 4, 10)], {}, "the level of 5x4 does not divide the model's input of 32x32"),
    (TWO, {"tensor_roles": ["box"]}, "tensor_roles has 1 roles, the model 2 outputs"),
    (TWO, {"tensor_roles": ["box", "clas"]}, "there is no role 'clas'; did you mean class or mask?"),
    (TWO, {"tensor_roles": ["class", "box"]}, "is the class: want 10 channels"),
    (TWO, {"backend": "avx3"}, "there is no backend 'avx3'"),
    (TWO, {"form": "yolov9"}, "there is no form 'yolov9'"),
    (TWO, {"form": "yolox"}, "the form 'yolox' wants has_objectness=True"),
    (TWO, {"num_classes": 0}, "num_classes is 0, want a whole number of at least 1"),
    (TWO, {"num_classes": True}, "num_classes is True"),
    ([*TWO, info(4, 4, 8)], {},
     "8 keypoint channels are no multiple of keypoint_dims=3; if they are mask coefficients, the output"),
    ([*TWO, info(4, 4, 32)], {"tensor_roles": ["box", "class", "mask"]},
     "(1, 4, 4, 32) has mask coefficients, but the output of their prototypes is missing"),
    ([*TWO, info(8, 8, 32)], {}, "(1, 8, 8, 32) has prototypes, but no output has mask coefficients"),
    ([*TWO, info(4, 4, 32), info(8, 8, 32), info(9, 9, 32)],
     {"tensor_roles": ["box", "class", "mask", "proto", "proto"]}, "masks come with one output of prototypes, found"),
    ([*TWO, info(4, 4, 32), info(8, 8, 16)], {}, "32 mask coefficients for 16 prototypes"),
]  # fmt: skip


@pytest.mark.parametrize(("infos", "params", "words"), REFUSALS, ids=[words[:40] for *_, words in REFUSALS])
def test_what_it_cannot_do_is_refused_by_name(infos: list[TensorInfo], params: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        KERNEL(infos, 32, 32, **{"num_classes": 10, **params})


def test_the_number_of_classes_must_be_told() -> None:
    with pytest.raises(TypeError, match="num_classes"):
        KERNEL(TWO, 32, 32)  # type: ignore[call-arg]


def test_a_buffer_of_another_shape_is_refused() -> None:
    kernel = KERNEL(TWO, 32, 32, num_classes=10)
    with pytest.raises(ValueError, match=r"tensor 1 is int8 \(1, 4, 4, 11\), want int8 \(1, 4, 4, 10\)"):
        kernel(np.zeros((1, 4, 4, 64), np.int8), np.zeros((1, 4, 4, 11), np.int8))


def test_a_backend_that_this_cpu_does_not_have_is_refused_with_those_it_has() -> None:
    native = byte_functions.native_module()
    if native is None:
        pytest.skip("the native module is not built")
    absent = next(name for name in ("neon", "avx512", "avx2") if name not in native.postamble_backends())
    with pytest.raises(ValueError, match=f"backend '{absent}' does not exist on this CPU; there are auto, scalar"):
        KERNEL(TWO, 32, 32, num_classes=10, backend=absent)
