"""`Seq.optimized()`: fewer operators, the same bits, and a frame that says the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axtool.runtime import Image, op
from tests.conftest import Tiny

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
PIPELINES = {
    "letterbox": lambda: [op.letterbox(48, 32), op.to_tensor()],
    "colours": lambda: [op.color_convert("RGB", "BGR"), op.letterbox(48, 32, fill_color=(1, 2, 3)), op.to_tensor()],
    "normalize": lambda: [op.color_convert("RGB", "BGR"), op.to_tensor(), op.normalize(*IMAGENET)],
    "bytes": lambda: [op.letterbox(40, 40, anchor="top-left"), op.to_image_tensor(), op.to_dtype()],
    "tensorflow": lambda: [op.to_image_tensor(), op.to_dtype(), op.linear_scaling([127.5], [-1])],
    "half": lambda: [op.to_tensor(), op.to_dtype(np.float16)],
}


def picture(height: int, width: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(height).integers(0, 256, (height, width, channels), np.uint8)


@pytest.mark.parametrize("shape", [(1, 1), (20, 90), (90, 20), (32, 48), (31, 47)])
@pytest.mark.parametrize("name", PIPELINES)
def test_one_operator_gives_the_bits_of_many(name: str, shape: tuple[int, int]) -> None:
    plain, image = op.seq(*PIPELINES[name]()), picture(*shape)
    fast = plain.optimized()
    assert [type(step).__name__ for step in fast.operators] == ["PixelsToTensor"]
    with op.frame_context(image) as first:
        wanted = plain(image)
    with op.frame_context(image) as second:
        got = fast(image)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(first.matrix, second.matrix)
    assert first.model_size == second.model_size


@pytest.mark.parametrize("channels", [1, 4])
def test_gray_and_alpha_give_the_same_bits_too(channels: int) -> None:
    plain, image = op.seq(op.letterbox(20, 30), op.to_tensor()), picture(9, 9, channels)
    np.testing.assert_array_equal(plain.optimized()(image), plain(image))


@pytest.mark.parametrize("color", ["RGB", "BGR", "BGRA", "GRAY"])
def test_an_image_of_any_colours_gives_the_same_bits(color: str) -> None:
    plain = op.seq(op.color_convert("RGB"), op.letterbox(20, 30), op.to_tensor(), op.normalize(*IMAGENET))
    image = Image.from_array(picture(9, 7), "BGR").convert(color)
    np.testing.assert_array_equal(plain.optimized()(image), plain(image))


@pytest.mark.parametrize(
    "steps",
    [
        lambda: [op.letterbox(8, 8, name="kept"), op.to_tensor()],
        lambda: [op.to_tensor(), op.normalize(*IMAGENET, layout="HWC")],
        lambda: [op.to_tensor(), op.contrast_normalize()],
        lambda: [op.resize(size=8), op.to_tensor()],
    ],
)
def test_what_does_not_fuse_stays(steps: Any) -> None:
    plain = op.seq(*steps())
    assert [type(step) for step in plain.optimized().operators] == [type(step) for step in plain.operators]


def test_a_wrong_picture_is_refused_in_the_same_words() -> None:
    plain = op.seq(op.color_convert("RGB", "BGR"), op.to_tensor(), op.normalize([0, 0], [1, 1]))
    for image in (picture(4, 4), picture(4, 4, 4), np.zeros((4, 4, 3)), "cat.jpg"):
        with pytest.raises((TypeError, ValueError)) as wanted:
            plain(image)
        with pytest.raises(wanted.type) as got:
            plain.optimized()(image)
        assert str(got.value) == str(wanted.value)


def test_the_policy_none_changes_nothing_and_others_are_refused() -> None:
    plain = op.seq(op.to_tensor(), op.to_dtype())
    assert len(plain.optimized("none").operators) == 2
    with pytest.raises(ValueError, match="no policy 'fast'; known: auto, none"):
        plain.optimized("fast")


def test_a_loaded_model_quantizes_and_pads_in_one_step(tiny_models: Tiny) -> None:
    plain = op.load(tiny_models / "two.axm")
    fast = plain.optimized()
    assert [type(step).__name__ for step in fast.operators][:2] == ["QuantizeTransposePad", "AxRuntimeModel"]
    assert len(plain.operators) == len(fast.operators) + 2
    image = np.random.default_rng(3).normal(0, 1, (1, 3, 8, 8)).astype(np.float32)
    wanted = [np.array(output) for output in plain(image)]
    for got, want in zip(fast(image), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_model_inside_a_pipeline_takes_the_picture_itself(tiny_models: Tiny) -> None:
    fast = op.seq(op.letterbox(8, 8), op.to_tensor(), op.load(tiny_models / "two.axm")).optimized()
    assert [type(step).__name__ for step in fast.operators] == ["LoadedSeq"]
    assert [type(step).__name__ for step in fast.operators[0].operators][:2] == ["PixelsToBuffer", "AxRuntimeModel"]


def test_a_tensor_that_others_read_too_stays_one(tiny_models: Tiny) -> None:
    model = op.load(tiny_models / "two.axm")
    both = op.seq(op.letterbox(8, 8), op.to_tensor(), op.par(op.seq(model), op.identity())).optimized()
    assert [type(step).__name__ for step in both.operators] == ["PixelsToTensor", "Par"]
    named = op.seq(op.to_tensor(), op.load(tiny_models / "two.axm", name="kept")).optimized()
    assert [type(step).__name__ for step in named.operators] == ["ToTensor", "LoadedSeq"]


FRONTS = {
    "tensor": lambda: [op.to_tensor()],
    "letterbox": lambda: [op.letterbox(8, 8), op.to_tensor()],
    "corner": lambda: [op.letterbox(8, 8, fill_color=(1, 200, 3), anchor="top-left"), op.to_tensor()],
    "colours": lambda: [op.color_convert("RGB", "BGR"), op.letterbox(8, 8, fill_color=(9, 8, 7)), op.to_tensor()],
    "normalize": lambda: [op.color_convert("RGB", "BGR"), op.letterbox(8, 8), op.to_tensor(), op.normalize(*IMAGENET)],
    "bytes": lambda: [op.letterbox(8, 8), op.to_image_tensor(), op.to_dtype(), op.linear_scaling([40.0], [-3])],
    "half": lambda: [op.letterbox(8, 8), op.to_tensor(), op.to_dtype(np.float16)],
}


@pytest.mark.parametrize("shape", [(8, 8), (1, 1), (20, 9), (5, 30), (7, 8)])
@pytest.mark.parametrize("front", FRONTS)
def test_bytes_go_to_the_device_as_the_bits_that_the_steps_would_give(
    tiny_models: Tiny, front: str, shape: tuple[int, int]
) -> None:
    if front == "tensor" and shape != (8, 8):
        return
    plain = op.seq(*FRONTS[front](), op.load(tiny_models / "two.axm"))
    fast, image = plain.optimized(), picture(*shape)
    assert type(fast.operators[0].operators[0]).__name__ == "PixelsToBuffer"
    with op.frame_context(image) as first:
        wanted = [np.array(output) for output in plain(image)]
    with op.frame_context(image) as second:
        got = fast(image)
    for left, right in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(first.matrix, second.matrix)
    before = op.seq(*FRONTS[front](), *op.load(tiny_models / "two.axm").operators[:3])
    np.testing.assert_array_equal(fast.operators[0].operators[0](image), before(image))


@pytest.mark.parametrize("color", ["RGB", "BGR", "BGRA", "GRAY"])
def test_images_of_any_colours_go_to_the_device_the_same(tiny_models: Tiny, color: str) -> None:
    plain = op.seq(op.color_convert("RGB"), op.letterbox(8, 8), op.to_tensor(), op.load(tiny_models / "two.axm"))
    image = Image.from_array(picture(9, 7), "BGR").convert(color)
    wanted = [np.array(output) for output in plain(image)]
    for left, right in zip(plain.optimized()(image), wanted, strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_picture_that_does_not_fit_the_model_is_refused_in_the_same_words(tiny_models: Tiny) -> None:
    plain = op.seq(op.to_tensor(), op.load(tiny_models / "two.axm"))
    for image in (picture(4, 8), picture(8, 8, 4), np.zeros((8, 8, 3)), "cat.jpg"):
        with pytest.raises((TypeError, ValueError)) as wanted:
            plain(image)
        with pytest.raises(wanted.type) as got:
            plain.optimized()(image)
        assert str(got.value) == str(wanted.value)


def test_a_buffer_of_a_picture_that_is_held_is_not_filled_again(tiny_models: Tiny) -> None:
    to_buffer = op.seq(op.to_tensor(), op.load(tiny_models / "two.axm")).optimized().operators[0].operators[0]
    first = to_buffer(picture(8, 8))
    before = first.copy()
    to_buffer(255 - picture(8, 8))
    np.testing.assert_array_equal(first, before)
