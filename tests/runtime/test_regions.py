"""Parts of the picture: which pixels a box cuts out, and where what is found in them lies in the whole."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from axtool.runtime import BBox, CoordFormat, DetectedObject, Image, OrientedObject, op

HEIGHT, WIDTH = 60, 80
PICTURE = np.random.default_rng(5).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)


def cut(item: Any, crop: op.Operator, picture: Any = PICTURE) -> Any:
    with op.frame_context(picture):
        return crop(item)


def detected(*box: float) -> DetectedObject:
    return DetectedObject(0, 0, BBox(*box), 0.9)


def test_a_normalized_box_cuts_out_its_pixels() -> None:
    found = cut(detected(0.25, 0.5, 0.75, 1.0), op.crop_roi(property="bbox"))
    np.testing.assert_array_equal(found, PICTURE[30:60, 20:60])


def test_a_box_in_pixels_cuts_out_the_same() -> None:
    found = cut(detected(20, 30, 60, 60), op.crop_roi(property="bbox"))
    np.testing.assert_array_equal(found, PICTURE[30:60, 20:60])


def test_the_old_spelling_is_the_same_operator() -> None:
    assert op.croproi is op.crop_roi is op.CropRoi


def test_an_image_gives_an_image_of_the_same_colours() -> None:
    found = cut(detected(0, 0, 0.5, 0.5), op.crop_roi("bbox"), Image.from_array(PICTURE, "BGR"))
    assert (found.color_format, found.width, found.height) == ("BGR", 40, 30)


@pytest.mark.parametrize(
    ("format", "row"),
    [("xyxy", [40, 20, 80, 60]), (CoordFormat.XYWH, [60, 40, 40, 40]), ("ltwh", [40, 20, 40, 40])],
)
def test_columns_of_a_row_are_in_pixels_of_the_model(format: Any, row: list[float]) -> None:
    # the letterbox doubled the picture and moved it down by 20
    crop = op.crop_roi(indices=(1, 2, 3, 4), format=format)
    pipeline = op.seq(op.letterbox(160, 160), lambda _: np.array([9, *row]), crop)
    np.testing.assert_array_equal(pipeline(PICTURE), PICTURE[0:20, 20:40])


def test_what_sticks_out_of_the_picture_is_left_out() -> None:
    found = cut(np.array([-10, -10, 20, 15]), op.crop_roi(indices=range(4)))
    np.testing.assert_array_equal(found, PICTURE[:15, :20])


def test_a_box_thinner_than_a_pixel_still_cuts_one() -> None:
    assert cut(detected(0.999, 0.5, 0.9991, 0.9), op.crop_roi("bbox")).shape == (24, 1, 3)


@pytest.mark.parametrize("box", [(0.5, 0.5, 0.5, 0.9), (0.6, 0.1, 0.5, 0.9), (10, 30, 50, 20), (0, 0, np.nan, 1)])
def test_a_box_without_an_area_is_refused(box: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"has no area: its corners are x0 < x1, y0 < y1"):
        cut(detected(*box), op.crop_roi("bbox"))


def test_a_row_whose_box_is_inside_out_is_refused() -> None:
    with pytest.raises(ValueError, match="has no area"):
        cut(np.array([20, 10, 10, 20]), op.crop_roi(indices=range(4)))


def test_a_box_outside_the_picture_is_refused_with_both() -> None:
    with pytest.raises(ValueError, match=r"the box \(90, 5, 99, 9\) in pixels lies outside the picture of 80 x 60"):
        cut(detected(90, 5, 99, 9), op.crop_roi("bbox"))


@pytest.mark.parametrize("crop", [op.crop_roi("bbox"), op.crop_roi(indices=range(4)), op.crop_rotated_roi()])
def test_without_a_picture_it_is_a_type_error_that_says_how(crop: op.Operator) -> None:
    item: Any = (
        OrientedObject(0, 0, 0.5, 0.5, 0.5, 0.5, 0, 1) if isinstance(crop, op.CropRotatedRoi) else detected(0, 0, 1, 1)
    )
    with pytest.raises(TypeError, match=r"no picture to cut from.*op\.frame_context\(image\)"):
        crop(item)
    with op.frame_context((80, 60)), pytest.raises(TypeError, match="no picture to cut from"):
        crop(item)


def test_an_object_without_that_box_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="DetectedObject has no box 'box'"):
        cut(detected(0, 0, 1, 1), op.crop_roi("box"))


@pytest.mark.parametrize("given", [{}, {"property": "bbox", "indices": (0, 1, 2, 3)}])
def test_a_crop_wants_a_property_or_indices(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"wants property.*or indices"):
        op.crop_roi(**given)


@pytest.mark.parametrize("indices", [(0, 1, 2), (-4, -3, -2, -1)])
def test_columns_that_are_no_box_are_refused(indices: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="a box is four columns counted from 0"):
        op.crop_roi(indices=indices)


def test_a_row_without_those_columns_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a row of 5 has no columns \(2, 3, 4, 5\)"):
        cut(np.arange(5), op.crop_roi(indices=(2, 3, 4, 5)))


def test_a_turned_box_much_larger_than_the_picture_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a box of 8e\+06 x 6 pixels is no part of a picture of 80 x 60"):
        cut(OrientedObject(0, 0, 0.5, 0.5, 1e5, 0.1, 0.5, 0.9), op.crop_rotated_roi())


def test_a_table_is_sent_to_for_each() -> None:
    with pytest.raises(ValueError, match=r"one row, got \(2, 4\); put it into for_each"):
        cut(np.zeros((2, 4)), op.crop_roi(indices=range(4)))


def test_a_turned_box_at_angle_zero_is_the_upright_one() -> None:
    item = OrientedObject(0, 0, 0.5, 0.5, 0.25, 0.5, 0.0, 0.9)
    np.testing.assert_array_equal(cut(item, op.crop_rotated_roi()), PICTURE[15:45, 30:50])


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_quarter_turns_are_exact(quarters: int) -> None:
    # w is along the first side, which a quarter turns from x to y
    w, h = (20, 30) if quarters % 2 == 0 else (30, 20)
    item = OrientedObject(0, 0, 0.5, 0.5, w / WIDTH, h / HEIGHT, quarters * np.pi / 2, 0.9)
    np.testing.assert_array_equal(cut(item, op.crop_rotated_roi()), np.rot90(PICTURE[15:45, 30:50], quarters))


def test_a_turned_rectangle_comes_out_upright_and_whole() -> None:
    image = np.zeros((200, 300), np.uint8)
    corners = np.intp(cv2.boxPoints(((150, 100), (120, 40), 30)))
    cv2.fillPoly(image, [corners], 255)
    item = OrientedObject(0, 0, 0.5, 0.5, 120 / 300, 40 / 200, np.radians(30), 0.9)
    found = cut(item, op.crop_rotated_roi(), image)
    assert found.shape == (40, 120)
    assert (found[2:-2, 2:-2] > 200).all()


def test_a_turned_box_outside_the_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="lies outside the picture of 80 x 60"):
        cut(OrientedObject(0, 0, 3, 3, 0.1, 0.1, 0.5, 0.9), op.crop_rotated_roi())


def test_a_plain_crop_of_a_turned_box_is_the_upright_one_around_it() -> None:
    item = OrientedObject(0, 0, 0.5, 0.5, 40 / WIDTH, 20 / HEIGHT, np.pi / 2, 0.9)
    np.testing.assert_array_equal(cut(item, op.crop_roi("bbox")), PICTURE[10:50, 30:50])
    assert item.bbox.xywh() == pytest.approx((0.5, 0.5, 20 / HEIGHT, 40 / WIDTH))


def test_an_upright_object_is_refused_with_the_operator_for_it() -> None:
    with pytest.raises(TypeError, match="wants an OrientedObject, got DetectedObject; crop_roi takes upright boxes"):
        cut(detected(0, 0, 1, 1), op.crop_rotated_roi())


def second_stage(rows: list[list[float]], wrap: op.Operator, *crop: op.Operator) -> Any:
    """What a model that always finds `rows` of its 100 x 100 pixels gives for each element."""
    back = op.to_image_space(box_format="xywhr" if isinstance(wrap, op.AxObb) else "xyxy")
    return op.for_each("found", *crop, op.resize(100, 100), lambda _: np.array(rows), back, wrap)


def test_what_is_found_in_a_part_is_known_in_the_whole_picture() -> None:
    parts = [detected(0.25, 0.5, 0.75, 1.0), detected(0, 0, 0.5, 0.5)]
    stage = second_stage([[50, 50, 100, 100, 0.9, 0]], op.ax_detection(), op.crop_roi("bbox"))
    result = op.seq(lambda _: parts, stage)(PICTURE)
    (first,), (second,) = result.found
    assert first.bbox == second.bbox == BBox(0.5, 0.5, 1, 1)
    assert first.bbox.frame_pixels(WIDTH, HEIGHT) == (40, 45, 60, 59)
    assert first.bbox.in_frame_of(parts[0].bbox).to_pixels(WIDTH, HEIGHT) == (40, 45, 60, 59)
    assert second.bbox.frame_pixels(WIDTH, HEIGHT) == (20, 15, 40, 30)


def test_a_part_of_a_part_is_known_in_the_whole_picture() -> None:
    inner = op.for_each("found", op.crop_roi("bbox"), lambda _: np.array([[0, 0, 1, 1, 0.9, 0]]), op.ax_detection())
    outer = op.for_each(op.crop_roi("bbox"), lambda _: [detected(0.5, 0.5, 1, 1)], inner)
    result = op.seq(lambda _: [detected(0.5, 0, 1, 1)], outer)(PICTURE)
    (found,) = result.output[0].found[0]
    assert found.bbox.frame_pixels(WIDTH, HEIGHT) == (60, 30, 79, 59)


def test_the_picture_of_the_next_step_is_not_that_of_the_last_element() -> None:
    pipeline = op.seq(lambda _: [detected(0, 0, 0.5, 0.5)], op.for_each(op.crop_roi("bbox")), lambda each: each.input)
    again = op.seq(pipeline, op.for_each(op.crop_roi("bbox")))(PICTURE)
    np.testing.assert_array_equal(again.output[0], PICTURE[:30, :40])


def test_keypoints_and_turned_boxes_are_known_in_the_whole_picture() -> None:
    part = detected(0.5, 0.5, 1, 1)
    pose = op.for_each(op.crop_roi("bbox"), lambda _: np.array([[0, 0, 1, 1, 0.9, 0, 0.5, 0.5, 1]]), op.ax_pose(1))
    (found,) = op.seq(lambda _: [part], pose)(PICTURE).output[0]
    assert (found.keypoints[0].frame_x(WIDTH), found.keypoints[0].frame_y(HEIGHT)) == (60, 45)
    turned = second_stage([[50, 50, 100, 50, 0.9, 0, 0.0]], op.ax_obb(), op.crop_roi("bbox"))
    (box,) = op.seq(lambda _: [part], turned)(PICTURE).found[0]
    assert box.frame_corners(WIDTH, HEIGHT) == [(40, 38), (79, 38), (79, 52), (40, 52)]


def test_what_is_found_in_a_turned_part_is_known_in_the_whole_picture() -> None:
    part = OrientedObject(0, 0, 0.5, 0.5, 40 / WIDTH, 20 / HEIGHT, np.pi / 2, 0.9)
    stage = second_stage([[0, 0, 50, 100, 0.9, 0]], op.ax_detection(), op.crop_rotated_roi())
    (found,) = op.seq(lambda _: [part], stage)(PICTURE).found[0]
    # its first half along the first side, which goes down from y = 10 to y = 50
    np.testing.assert_allclose(found.bbox._frame.scaled(WIDTH, HEIGHT).xyxy(), (30, 10, 50, 30), atol=1e-6)


def test_results_of_the_whole_picture_are_the_same_in_the_frame() -> None:
    (found,) = op.seq(lambda _: np.array([[0, 0, 0.5, 0.5, 0.9, 0]]), op.ax_detection())(PICTURE)
    assert found.bbox.frame_pixels(WIDTH, HEIGHT) == found.bbox.to_pixels(WIDTH, HEIGHT) == (0, 0, 40, 30)


def test_pixels_to_draw_at_are_never_outside_the_picture() -> None:
    assert BBox(-0.5, 0, 1.0, 2.0).to_pixels(80, 60) == (0, 0, 79, 59)
    assert BBox(-np.inf, 0.5, np.inf, 1e300).to_pixels(80, 60) == (0, 30, 79, 59)


def test_a_saved_crop_comes_back(tmp_path: Any) -> None:
    pipeline = op.seq(op.letterbox(160, 160), op.itemgetter(0), op.crop_roi(indices=(0, 1, 2, 3), format="ltwh"))
    pipeline.save_axe(tmp_path / "x.axe")
    assert repr(op.load(tmp_path / "x.axe")) == repr(pipeline).replace("(0, 1, 2, 3)", "[0, 1, 2, 3]")
