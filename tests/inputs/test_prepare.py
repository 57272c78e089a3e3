import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.errors import UsageError
from axtool.inputs.prepare import Preparation
from axtool.inputs.spec import InputSpec

NCHW = InputSpec("x", (1, 3, 8, 12))


def picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def marked(height, width):
    """Black, with one bright pixel block in the middle of each quarter."""
    image = np.zeros((height, width, 3), np.uint8)
    image[height // 2 :, width // 2 :] = 255
    return image


def test_pixels_become_scale_mean_and_std_in_the_models_channel_order():
    preparation = Preparation(scale=1 / 255, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7)).resolve(NCHW)
    image = picture(8, 12)
    expected = ((image / 255 - (0.1, 0.2, 0.3)) / (0.5, 0.6, 0.7)).transpose(2, 0, 1)[None]
    result = preparation.prepare(image)
    assert (result.dtype, result.shape) == (np.float32, (1, 3, 8, 12))
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


def test_without_a_word_pixels_are_scaled_to_0_1():
    assert Preparation().resolve(NCHW).prepare(np.full((8, 12, 3), 255, np.uint8)).max() == 1


def test_a_mean_in_pixel_units_means_that_pixels_are_not_scaled():
    preparation = Preparation(mean=(127,), std=(128,)).resolve(NCHW)
    assert preparation.prepare(np.full((8, 12, 3), 255, np.uint8)).max() == 1


def test_bgr_turns_the_channels_around():
    image = picture(8, 12)
    rgb, bgr = (Preparation(color=color).resolve(NCHW).prepare(image) for color in ("RGB", "BGR"))
    np.testing.assert_array_equal(bgr, rgb[:, ::-1])


def test_gray_has_one_channel_and_is_what_an_input_of_one_channel_gets():
    preparation = Preparation().resolve(InputSpec("x", (1, 1, 8, 12)))
    assert preparation.color == "GRAY"
    assert preparation.prepare(picture(8, 12)).shape == (1, 1, 8, 12)


def test_layouts_differ_by_a_transpose():
    image = picture(8, 12)
    last = Preparation().resolve(InputSpec("x", (1, 8, 12, 3)))
    assert last.layout == "NHWC"
    np.testing.assert_array_equal(last.prepare(image), Preparation().resolve(NCHW).prepare(image).transpose(0, 2, 3, 1))


def test_an_input_of_uint8_gets_the_pixels_themselves():
    image = picture(8, 12)
    preparation = Preparation().resolve(InputSpec("x", (1, 8, 12, 3), "uint8"))
    np.testing.assert_array_equal(preparation.prepare(image), image[None])


def test_an_input_of_float16_gets_float16():
    assert Preparation().resolve(InputSpec("x", (1, 3, 8, 12), "float16")).prepare(picture(8, 12)).dtype == np.float16


def test_fit_stretches_to_the_whole_input():
    result = Preparation(resize="fit").resolve(NCHW).prepare(marked(40, 20))
    assert result[0, 0, -1, -1] == 1
    assert result[0, 0, 0, 0] == 0


def test_letterbox_keeps_the_shape_and_fills_the_rest():
    preparation = Preparation(resize="letterbox", fill=(51.0,)).resolve(NCHW)
    result = preparation.prepare(np.full((10, 10, 3), 255, np.uint8))[0, 0]
    np.testing.assert_allclose(result[:, :2], 0.2, rtol=1e-6)
    np.testing.assert_allclose(result[:, 2:10], 1)
    np.testing.assert_allclose(result[:, 10:], 0.2, rtol=1e-6)


def test_a_letterbox_at_the_top_left_begins_at_the_first_pixel():
    preparation = Preparation(resize="letterbox", anchor="top-left", fill=(0.0,)).resolve(NCHW)
    result = preparation.prepare(np.full((10, 10, 3), 255, np.uint8))[0, 0]
    assert (result[0, 0], result[0, 7], result[0, 8]) == (1, 1, 0)


def test_crop_takes_the_middle():
    image = np.zeros((16, 16, 3), np.uint8)
    image[4:12, 4:12] = 255
    preparation = Preparation(resize="crop", crop=0.5).resolve(InputSpec("x", (1, 3, 8, 8)))
    np.testing.assert_array_equal(preparation.prepare(image), 1)


def test_none_refuses_another_size_and_says_what_to_do():
    with pytest.raises(UsageError, match="expected 8x12 got 9x12") as caught:
        Preparation(resize="none").resolve(NCHW).prepare(picture(9, 12))
    assert (caught.value.code, caught.value.exit) == ("wrong-size", 2)
    assert "--resize" in caught.value.hint


@given(
    st.sampled_from(["fit", "letterbox", "crop"]),
    *(st.integers(1, 700) for _ in range(4)),
    st.floats(0.3, 1),
)
def test_a_placement_leads_there_and_back(resize, height, width, model_h, model_w, crop):
    placement = Preparation(size=(model_h, model_w), resize=resize, crop=crop, layout="NCHW").place(height, width)
    points = np.array([[0, 0], [width, height], [width / 3, height / 7]])
    np.testing.assert_allclose(placement.to_image(placement.to_model(points)), points, atol=1e-6)


@given(*(st.integers(1, 300) for _ in range(4)))
def test_a_letterbox_lies_inside_the_input_and_a_crop_covers_it(height, width, model_h, model_w):
    corners = np.array([[0, 0], [width, height]])
    inside = Preparation(size=(model_h, model_w), resize="letterbox").place(height, width).to_model(corners)
    cover = Preparation(size=(model_h, model_w), resize="crop").place(height, width).to_model(corners)
    limit = np.array([model_w, model_h])
    assert np.all(inside[0] >= -1e-6)
    assert np.all(inside[1] <= limit + 1e-6)
    assert np.all(cover[0] <= 1e-6)
    assert np.all(cover[1] >= limit - 1e-6)


@pytest.mark.parametrize("resize", ["fit", "letterbox", "crop"])
def test_an_edge_of_the_image_is_drawn_where_its_placement_says(resize):
    preparation = Preparation(resize=resize, size=(64, 96), fill=(0.0,), color="RGB", layout="NCHW")
    image = np.zeros((100, 80, 3), np.uint8)
    image[50:, :] = 255  # the edge is at y = 50
    column = preparation.prepare(image)[0, 0, :, 48]
    edge = preparation.place(100, 80).to_model(np.array([[40.0, 50.0]]))[0, 1]
    assert abs(np.argmax(column > 0.5) - edge) <= 1


def test_a_preparation_survives_its_dictionary():
    preparation = Preparation(
        size=(8, 12), resize="letterbox", mean=(1, 2, 3), std=(4, 5, 6), color="BGR", layout="NHWC"
    )
    assert Preparation.from_dict(preparation.to_dict()) == preparation


def test_single_numbers_are_accepted_from_a_file():
    read = Preparation.from_dict({"size": 224, "mean": 127, "std": 128, "fill": 0})
    assert (read.size, read.mean, read.fill) == ((224, 224), (127.0,), (0.0,))


def test_an_unknown_key_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="'resise'") as caught:
        Preparation.from_dict({"resise": "fit"})
    assert "resize" in caught.value.hint


@pytest.mark.parametrize(
    "values",
    [
        {"resize": "zoom"},
        {"color": "CMYK"},
        {"std": [0]},
        {"mean": [1, 2]},
        {"mean": ["a"]},
        {"size": [0, 4]},
        {"crop": 0},
        {"scale": float("nan")},
        {"dtype": "int64"},
        {"size": "large"},
    ],
)
def test_values_that_say_nothing_are_refused(values):
    with pytest.raises(UsageError):
        Preparation.from_dict(values)


@pytest.mark.parametrize("shape", [(1, 10), (1, 4, 8, 8), (2, 3, 8, 8), (1, 3, 8, 8, 8)])
def test_an_input_that_is_no_image_is_refused(shape):
    with pytest.raises(UsageError):
        Preparation().resolve(InputSpec("x", shape))


def test_a_size_that_the_model_does_not_have_is_refused():
    with pytest.raises(UsageError, match="expected 8x12, preparation says 9x9"):
        Preparation(size=(9, 9)).resolve(NCHW)


def test_an_open_size_is_taken_from_the_preparation():
    open_spec = InputSpec("x", (None, 3, None, None))
    assert Preparation(size=(9, 9)).resolve(open_spec).prepare(picture(20, 30)).shape == (1, 3, 9, 9)
    with pytest.raises(UsageError, match="leaves height and width open"):
        Preparation().resolve(open_spec)


@pytest.mark.parametrize("array", [np.zeros((4, 4, 3)), np.zeros((4, 4, 2), np.uint8), np.zeros((0, 4, 3), np.uint8)])
def test_arrays_that_are_no_images_are_refused(array):
    with pytest.raises(UsageError):
        Preparation().resolve(NCHW).prepare(array)


@pytest.mark.parametrize("channels", [(), (1,), (4,)])
def test_gray_and_transparent_arrays_are_images_too(channels):
    image = np.full((8, 12, *channels), 51, np.uint8)
    np.testing.assert_allclose(Preparation().resolve(NCHW).prepare(image), 0.2, rtol=1e-6)
