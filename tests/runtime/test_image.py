"""Image: pixels that know the order of their channels."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from axtool.runtime import ColorFormat, Image, op

PIXELS = np.random.default_rng(1).integers(0, 256, (4, 5, 3), np.uint8)


def of(color: ColorFormat) -> Image:
    return Image.from_array(PIXELS, "RGB").convert(color)


@pytest.mark.parametrize(("src", "dst"), list(product(ColorFormat, ColorFormat)))
def test_every_format_becomes_every_other(src: ColorFormat, dst: ColorFormat) -> None:
    made = of(src).convert(dst)
    assert made.color_format is dst
    assert made.to_numpy().shape == ((4, 5) if dst is ColorFormat.GRAY else (4, 5, dst.channels))


@pytest.mark.parametrize("color", [ColorFormat.BGR, ColorFormat.RGBA, ColorFormat.BGRA])
def test_colours_come_back(color: ColorFormat) -> None:
    np.testing.assert_array_equal(of(color).convert("rgb").to_numpy(), PIXELS)


def test_a_new_alpha_is_opaque() -> None:
    assert (of(ColorFormat.BGRA).to_numpy()[:, :, 3] == 255).all()


def test_pixels_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Image.from_array(PIXELS, "RGB").to_numpy()[0, 0] = 0


def test_an_array_of_one_channel_is_gray() -> None:
    assert Image.from_array(PIXELS[:, :, :1]).color_format is ColorFormat.GRAY


def test_the_order_of_an_array_must_be_said() -> None:
    with pytest.raises(ValueError, match="say fallback_color_format, 'RGB' or 'BGR'"):
        Image.from_array(PIXELS)
    assert Image.from_array(PIXELS, like=of(ColorFormat.BGR)).color_format is ColorFormat.BGR


def test_a_format_of_another_number_of_channels_is_refused() -> None:
    with pytest.raises(ValueError, match="RGBA has 4 channels, the picture 3"):
        Image.from_array(PIXELS, "RGBA")


def test_a_misspelt_format_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="no colour format 'RBG'"):
        Image.from_array(PIXELS, "RBG")


def test_what_is_no_picture_is_refused() -> None:
    with pytest.raises(TypeError, match="got str"):
        Image.from_any("cat.jpg")
    with pytest.raises(ValueError, match="got float32"):
        Image.from_array(PIXELS.astype(np.float32), "RGB")


def test_an_image_goes_through_transforms_and_keeps_its_format() -> None:
    made = op.seq(op.color_convert("RGB"), op.letterbox(8, 8))(Image.from_array(PIXELS[:, :, ::-1], "BGR", "a.jpg"))
    assert repr(made) == "Image(8x8, RGB, source='a.jpg')"


def test_an_image_and_its_array_give_the_same_tensor() -> None:
    image = Image.from_array(PIXELS, "BGR")
    np.testing.assert_array_equal(
        op.seq(op.color_convert("RGB"), op.to_tensor())(image),
        op.seq(op.color_convert("RGB", "BGR"), op.to_tensor())(PIXELS),
    )
