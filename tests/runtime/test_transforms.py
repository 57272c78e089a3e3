"""Transforms: sizes, places, colours and values, and what is refused."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from axtool.inputs.prepare import Preparation
from axtool.runtime import geometry, op


def picture(height: int, width: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(height * width).integers(0, 256, (height, width, channels), np.uint8)


def test_resize_stretches_to_a_width_and_a_height() -> None:
    image = picture(20, 30)
    wanted = cv2.resize(image, (8, 12), interpolation=cv2.INTER_LINEAR)
    np.testing.assert_array_equal(op.resize(width=8, height=12)(image), wanted)


@pytest.mark.parametrize(("shape", "wanted"), [((20, 30), (10, 15)), ((30, 20), (15, 10)), ((7, 7), (10, 10))])
def test_resize_scales_the_smaller_edge_to_size(shape: tuple[int, int], wanted: tuple[int, int]) -> None:
    assert op.resize(size=10)(picture(*shape)).shape[:2] == wanted


@pytest.mark.parametrize("given", [{}, {"width": 5}, {"width": 5, "height": 5, "size": 5}, {"height": 5, "size": 5}])
def test_resize_wants_width_and_height_or_size(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"wants width and height, or size \(the smaller edge\): got width="):
        op.resize(**given)


def test_resize_names_the_interpolations_there_are() -> None:
    with pytest.raises(ValueError, match="no interpolation 'bilinaer'; did you mean bilinear"):
        op.resize(size=8, interpolation="bilinaer")


def test_resize_refuses_corner_aligned_pixels() -> None:
    with pytest.raises(ValueError, match="half_pixel_centers=True is required"):
        op.resize(size=8, half_pixel_centers=False)


@pytest.mark.parametrize("shape", [(1, 1), (5, 40), (40, 5), (32, 48), (31, 33), (100, 100)])
@pytest.mark.parametrize("anchor", ["center", "top-left"])
def test_letterbox_and_to_tensor_give_the_bits_of_a_preparation(shape: tuple[int, int], anchor: Any) -> None:
    image = picture(*shape)
    wanted = Preparation(size=(32, 48), resize="letterbox", anchor=anchor, color="RGB").prepare(image)[0]
    got = op.seq(op.letterbox(48, 32, anchor=anchor), op.to_tensor())(image)
    np.testing.assert_array_equal(got, wanted)
    assert got.dtype == np.float32


def test_letterbox_fills_with_grey_114_unless_told() -> None:
    tall = np.zeros((10, 2, 3), np.uint8)
    assert (op.letterbox(10, 10)(tall)[:, 0] == 114).all()
    assert (op.letterbox(10, 10, fill_color=(1, 2, 3))(tall)[:, -1] == (1, 2, 3)).all()


def test_letterbox_fills_a_gray_picture_too() -> None:
    assert op.letterbox(10, 10)(np.zeros((10, 2), np.uint8))[0, 0] == 114


@pytest.mark.parametrize("size", [(0, 5), (5, -1)])
def test_letterbox_refuses_a_size_without_pixels(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="at least 1x1"):
        op.letterbox(*size)


def test_center_crop_takes_the_middle() -> None:
    image = picture(10, 12)
    np.testing.assert_array_equal(op.center_crop((4, 6))(image), image[3:7, 3:9])
    np.testing.assert_array_equal(op.center_crop(4)(image), image[3:7, 4:8])


def test_center_crop_refuses_what_is_larger_than_the_picture() -> None:
    with pytest.raises(ValueError, match="center_crop of 11x4 is larger than the picture of 10x12"):
        op.center_crop((11, 4))(picture(10, 12))


def test_color_convert_of_an_array_needs_to_know_its_order() -> None:
    image = picture(3, 4)
    np.testing.assert_array_equal(op.color_convert("RGB", "BGR")(image), image[:, :, ::-1])
    with pytest.raises(ValueError, match="color_convert to RGB: the order of an array is not known; say src"):
        op.color_convert("RGB")(image)


def test_the_old_spelling_of_color_convert_has_source_first() -> None:
    new = op.colorconvert("bgr", "gray")
    assert (new.src, new.dst) == (op.color_convert("GRAY", src="BGR").src, op.color_convert("GRAY").dst)


def test_color_convert_refuses_a_picture_of_another_number_of_channels() -> None:
    with pytest.raises(ValueError, match="color_convert from BGR wants 3 channels, got 4"):
        op.color_convert("RGB", "BGR")(picture(3, 4, 4))


def test_to_image_tensor_moves_the_channels_to_the_front() -> None:
    image = picture(3, 4)
    np.testing.assert_array_equal(op.to_image_tensor()(image), image.transpose(2, 0, 1))
    assert op.to_image_tensor()(image[:, :, 0]).shape == (1, 3, 4)


def test_to_dtype_scales_bytes_to_one_and_int16_to_minus_one_to_one() -> None:
    assert op.to_dtype(scale=True)(np.array([0, 255], np.uint8)).tolist() == [0, 1]
    assert op.to_dtype(scale=True)(np.array([-32767, 32767], np.int16)).tolist() == [-1, 1]
    assert op.to_dtype()(np.array([7], np.uint8)).dtype == np.float32
    with pytest.raises(ValueError, match="to_dtype scales uint8 and int16, got float64"):
        op.to_dtype(scale=True)(np.zeros(3))


def test_every_byte_scales_to_the_same_bits_by_both_roads() -> None:
    image = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    both = op.to_tensor()(image), op.to_dtype(scale=True)(op.to_image_tensor()(image))
    np.testing.assert_array_equal(*both)


def test_normalize_subtracts_and_divides_by_channel() -> None:
    x = np.ones((3, 2, 2), np.float32)
    got = op.normalize([0.5, 0.25, 0], [0.5, 0.25, 2])(x)
    assert got[:, 0, 0].tolist() == [1, 3, 0.5]
    np.testing.assert_array_equal(
        op.normalize([0.5, 0.25, 0], [0.5, 0.25, 2], layout="HWC")(x.transpose(1, 2, 0)), got.transpose(1, 2, 0)
    )


def test_linear_scaling_divides_and_then_shifts() -> None:
    assert op.linear_scaling([127.5], [-1])(np.full((3, 1, 1), 255, np.float32)).ravel().tolist() == [1, 1, 1]


@pytest.mark.parametrize("made", [lambda: op.normalize([0], [0]), lambda: op.linear_scaling([1, 0])])
def test_a_division_by_zero_is_refused_when_it_is_written(made: Any) -> None:
    with pytest.raises(ValueError, match="of 0 in"):
        made()


def test_values_for_another_number_of_channels_are_refused() -> None:
    with pytest.raises(ValueError, match=r"normalize: 2 values for a tensor \(3, 4, 4\) of layout CHW"):
        op.normalize([0, 0], [1, 1])(np.zeros((3, 4, 4), np.float32))


def test_an_unknown_layout_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no layout 'CWH'; did you mean CHW"):
        op.normalize([0], [1], layout="CWH")


def test_contrast_normalize_spreads_values_over_zero_to_one() -> None:
    assert op.contrast_normalize()(np.array([2.0, 3, 4])).tolist() == [0, 0.5, 1]
    assert op.contrast_normalize()(np.full(3, 7.0)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("make", [lambda: op.resize(size=4), lambda: op.letterbox(4, 4), lambda: op.to_tensor()])
def test_what_is_no_picture_is_refused_by_name(make: Any) -> None:
    with pytest.raises(TypeError, match="wants a picture: an array"):
        make()("cat.jpg")
    with pytest.raises(ValueError, match="wants a picture, uint8"):
        make()(np.zeros((3, 4, 3), np.float32))


def test_a_tensor_with_an_array_interface_is_a_picture() -> None:
    class Tensor:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return picture(4, 4)

    np.testing.assert_array_equal(op.to_tensor()(Tensor()), op.to_tensor()(picture(4, 4)))


def test_a_pil_image_is_a_picture() -> None:
    pil = pytest.importorskip("PIL.Image")
    np.testing.assert_array_equal(op.to_tensor()(pil.fromarray(picture(4, 5))), op.to_tensor()(picture(4, 5)))


POINTS = np.array([[0, 0], [30, 20], [7, 11]], float)


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ([op.resize(width=60, height=10)], POINTS * (2, 0.5)),
        ([op.resize(size=40)], POINTS * 2),
        ([op.center_crop((10, 10))], POINTS - (10, 5)),
        ([op.letterbox(60, 60)], POINTS * 2 + (0, 10)),
        ([op.resize(size=40), op.center_crop(20)], POINTS * 2 - (20, 10)),
        ([op.perspective([[0, 1, 0], [1, 0, 0], [0, 0, 1]], 20, 30)], POINTS[:, ::-1]),
    ],
)
def test_transforms_note_where_the_pixels_went(steps: list[Any], wanted: np.ndarray) -> None:
    image = picture(20, 30)
    with op.frame_context(image) as frame:
        made = op.seq(*steps)(image)
    np.testing.assert_allclose(frame.to_image(wanted), POINTS, atol=1e-9)
    assert frame.model_size == (made.shape[1], made.shape[0])


def test_branches_that_move_pixels_do_not_meet() -> None:
    image = picture(20, 30)
    with op.frame_context(image) as frame:
        op.par(op.identity(), op.resize(width=60, height=40), op.resize(width=3, height=2))(image)
    assert frame.model_size == (60, 40)


def test_a_frame_ends_with_its_block() -> None:
    with op.frame_context((4, 3)):
        assert geometry.current() is not None
    assert geometry.current() is None


def test_a_step_that_needs_the_frame_says_how_to_give_one() -> None:
    with pytest.raises(RuntimeError, match=r"op\.frame_context\(image\)"):
        geometry.need("to_image_space")


def test_a_frame_is_of_a_picture() -> None:
    with pytest.raises(TypeError, match="got str"), op.frame_context("cat.jpg"):
        pass


class Tensor:
    """What looks like a tensor of another library."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, f"torch.{array.dtype}"

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array


def test_a_picture_in_a_tensor_of_another_library_has_a_frame_too() -> None:
    rows = op.seq(op.resize(10, 10), lambda _: np.array([[0, 0, 5, 10, 1, 0]]), op.to_image_space())
    np.testing.assert_allclose(rows(Tensor(picture(20, 40)))[0, :4], [0, 0, 0.5, 1])
    assert geometry.size_of(Tensor(np.zeros((3, 4), np.float32))) is None
