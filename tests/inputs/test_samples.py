import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.inputs.feeds import read_feeds
from axtool.inputs.prepare import Preparation
from axtool.inputs.samples import InputSpec, open_samples

CALIB = Path(__file__).parents[3] / "shared" / "cases" / "calib"
X = InputSpec("x", (1, 3, 8, 8))
TOKENS = (InputSpec("ids", (1, 5), "int64"), InputSpec("mask", (1, 5), "int64"))


def stack(count=4, dtype=np.float32, shape=(3, 8, 8)):
    return np.random.default_rng(0).normal(0, 50, (count, *shape)).astype(dtype)


def picture(path, height=10, width=6, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    assert cv2.imwrite(str(path), pixels)
    return pixels[:, :, ::-1]


def codes(samples):
    return [notice.code for notice in samples.notices]


def refusal(*args, **options):
    with pytest.raises(UsageError) as caught:
        list(open_samples(*args, **options))
    assert caught.value.exit == 2
    return caught.value


@pytest.fixture
def save(tmp_path):
    def write(name="f.npz", **arrays):
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    return write


def test_stacked_samples_are_split(save):
    x = stack()
    samples = open_samples(save(x=x), [X])
    assert len(samples) == 4
    for index, feed in enumerate(samples):
        np.testing.assert_array_equal(feed["x"], x[index : index + 1])


def test_samples_can_be_read_again_and_again(save):
    samples = open_samples(save(x=stack()), [X])
    first, second = list(samples), list(samples)
    np.testing.assert_array_equal(first[3]["x"], second[3]["x"])


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 3, 8, 8), (4, 1, 3, 8, 8)])
def test_a_sample_may_lack_its_batch_axis_or_bring_its_own(save, shape):
    feeds = list(open_samples(save(x=np.ones(shape, np.float32)), [X]))
    assert {feed["x"].shape for feed in feeds} == {(1, 3, 8, 8)}


def test_a_model_of_batch_two_takes_two_rows_at_a_time(save):
    x = stack()
    samples = open_samples(save(x=x), [InputSpec("x", (2, 3, 8, 8))])
    np.testing.assert_array_equal(np.concatenate([feed["x"] for feed in samples]), x)
    assert refusal(save(x=stack(3)), [InputSpec("x", (2, 3, 8, 8))]).code == "wrong-shape"


def test_uint8_for_a_float_input_is_refused_with_a_hint(save):
    error = refusal(save(x=stack(dtype=np.uint8)), [X])
    assert error.code == "uint8-for-float"
    assert "--mean" in error.hint
    assert "--preprocess" in error.hint


def test_uint8_in_the_models_shape_is_normalised_when_it_is_said_how(save):
    x = stack(dtype=np.uint8)
    samples = open_samples(save(x=x), [X], Preparation(scale=0.5, mean=(1, 2, 3)))
    expected = x[:1] * np.float32(0.5) - np.reshape([1, 2, 3], (3, 1, 1))
    np.testing.assert_allclose(next(iter(samples))["x"], expected)
    assert codes(samples) == ["normalised"]


def test_uint8_images_are_prepared_when_it_is_said_how(save):
    images = np.full((4, 20, 30, 3), 255, np.uint8)
    samples = open_samples(save(x=images), [X], Preparation(scale=1 / 255))
    assert [feed["x"].shape for feed in samples] == [(1, 3, 8, 8)] * 4


def test_float64_is_cast_with_a_note(save):
    samples = open_samples(save(x=stack(dtype=np.float64)), [X])
    assert codes(samples) == ["cast"]
    assert next(iter(samples))["x"].dtype == np.float32


def test_integers_for_a_float_input_are_refused(save):
    assert refusal(save(x=stack(dtype=np.int64)), [X]).code == "wrong-dtype"


def test_text_feeds_a_text_input_and_numbers_do_not(tmp_path):
    words = InputSpec("words", (2,), "object")
    np.save(tmp_path / "t.npy", np.array(["ab", "c"]))
    (feed,) = open_samples(tmp_path / "t.npy", [words])
    assert (feed["words"].dtype, feed["words"].tolist()) == (np.dtype(object), ["ab", "c"])
    np.save(tmp_path / "n.npy", np.zeros(2))
    with pytest.raises(UsageError, match="expected text got float64") as caught:
        open_samples(tmp_path / "n.npy", [words])
    assert "array of text" in caught.value.hint


def test_the_only_array_feeds_the_only_input_with_a_note(save):
    assert codes(open_samples(save(image=stack()), [X])) == ["renamed"]


def test_wrong_names_list_both_sets(save):
    error = refusal(save(idz=np.ones((2, 5), np.int64), mask=np.ones((2, 5), np.int64)), TOKENS)
    assert "holds idz, mask; the inputs are ids, mask" in str(error)
    assert "idz" in error.hint


def test_an_array_that_no_input_takes_is_refused_in_a_run(save):
    with pytest.raises(UsageError, match="no input takes gain") as caught:
        read_feeds([str(save(x=stack(1), gain=np.zeros(4)))], [X])
    assert caught.value.exit == 2


def test_other_arrays_are_ignored_with_a_warning(save):
    assert codes(open_samples(save(x=stack(), labels=np.zeros(4)), [X])) == ["ignored-arrays"]


def test_zero_samples_are_no_calibration_samples(save):
    assert "no calibration samples" in str(refusal(save(x=stack(0)), [X]))


def test_another_size_is_told_as_height_and_width(save):
    error = refusal(save(x=stack(shape=(3, 9, 8))), [X])
    assert "expected 8x8 got 9x8" in str(error)
    assert "--resize" in error.hint


def test_channels_on_the_other_side_are_told(save):
    assert "another axis" in refusal(save(x=stack(shape=(8, 8, 3))), [X]).hint


def test_nan_is_refused_with_name_sample_and_count(save):
    x = stack()
    x[2, 0, 0, :3] = np.nan
    assert "'x', sample 2: 3 NaN of 192 values" in str(refusal(save(x=x), [X]))


def test_a_mask_of_minus_infinity_is_an_input(save):
    mask = np.array([[0, -np.inf]], np.float32)
    assert len(list(open_samples(save(m=mask), [InputSpec("m", (1, 2))]))) == 1


def test_token_inputs_are_fed_together(save):
    ids = np.arange(15).reshape(3, 5)
    feeds = list(open_samples(save(ids=ids, mask=np.ones((3, 5), np.int32)), TOKENS))
    assert [feed["ids"].tolist() for feed in feeds] == [[row] for row in ids.tolist()]
    assert feeds[0]["mask"].dtype == np.int64


def test_integers_that_do_not_fit_are_refused(save):
    ids = np.full((1, 5), 2**40)
    assert refusal(save(ids=ids), [InputSpec("ids", (1, 5), "int32")]).code == "wrong-dtype"


def test_inputs_with_different_counts_are_refused(save):
    error = refusal(save(ids=np.ones((3, 5), int), mask=np.ones((2, 5), int)), TOKENS)
    assert "'ids' has 3, 'mask' has 2" in str(error)


def test_a_single_sample_is_repeated_with_a_note(save):
    samples = open_samples(save(ids=np.ones((3, 5), int), mask=np.ones((1, 5), int)), TOKENS)
    assert codes(samples) == ["repeated"]
    assert len(list(samples)) == 3


def test_names_that_cannot_be_members_are_read_from_the_list(save):
    samples = open_samples(save(input_names=["a/b:0"], input_0=stack()), [InputSpec("a/b:0", (1, 3, 8, 8))])
    assert len(samples) == 4


def test_an_npy_feeds_the_only_input(tmp_path):
    np.save(tmp_path / "x.npy", stack())
    assert len(open_samples(tmp_path / "x.npy", [X])) == 4
    assert refusal(tmp_path / "x.npy", TOKENS).code == "wrong-input-name"


def test_a_folder_is_read_deep_in_order_and_tells_what_it_skips(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("b/2.png", "a.jpg", "b/1.bmp"):
        picture(tmp_path / name)
    (tmp_path / "readme.txt").write_text("hello")
    (tmp_path / ".hidden.png").write_bytes(b"")
    samples = open_samples(tmp_path, [X], Preparation(scale=1))
    assert samples.names == ("a.jpg", "b/1.bmp", "b/2.png")
    assert codes(samples) == ["skipped-files"]
    assert "1 file is no image and is skipped: " in str(samples.notices[0])
    assert "readme.txt" in str(samples.notices[0])
    assert [feed["x"].shape for feed in samples] == [(1, 3, 8, 8)] * 3


def test_images_that_cannot_be_decoded_are_listed_and_skipped(tmp_path):
    for name in ("a.png", "b.jpg", "c.png"):
        picture(tmp_path / name, 100, 100)
    (tmp_path / "b.jpg").write_bytes((tmp_path / "b.jpg").read_bytes()[:2000])
    (tmp_path / "c.png").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    samples = open_samples(tmp_path, [X], Preparation(scale=1))
    assert samples.names == ("a.png",)
    assert "2 of 3 images cannot be decoded and are skipped" in str(samples.notices[0])
    assert "b.jpg: the JPEG data are cut short" in str(samples.notices[0])
    assert "c.png: cannot be decoded" in str(samples.notices[0])


def test_a_folder_without_one_good_image_is_refused_with_every_reason(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    error = refusal(tmp_path, [X])
    assert "no calibration samples" in str(error)
    assert error.details == (f"{tmp_path / 'a.png'}: the file is empty",)


def test_an_empty_folder_has_no_calibration_samples(tmp_path):
    assert refusal(tmp_path, [X]).code == "no-samples"


def test_a_folder_of_arrays_is_a_source_for_each(tmp_path):
    for index in range(2):
        np.save(tmp_path / f"{index}.npy", stack(3))
    assert len(list(open_samples(tmp_path, [X]))) == 6


def test_a_limit_takes_samples_evenly_spread(tmp_path):
    for index in range(9):
        picture(tmp_path / f"{index}.png")
    samples = open_samples(tmp_path, [X], limit=3)
    assert samples.names == ("0.png", "3.png", "6.png")


def test_selections_of_all_indices_hold_each_sample_once(tmp_path):
    np.save(tmp_path / "1.npy", stack(5))
    np.save(tmp_path / "2.npy", stack(2) + 1)
    samples = open_samples([tmp_path / "1.npy", tmp_path / "2.npy"], [X])
    whole = [feed["x"].tobytes() for feed in samples]
    parts = [feed["x"].tobytes() for part in range(3) for feed in samples.select(range(part, 7, 3))]
    assert sorted(parts) == sorted(whole)


def test_a_photo_lies_upright_as_its_exif_says(tmp_path):
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:, :4] = 255  # bright on the left; turned clockwise it is bright on top
    data = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, 100])[1].tobytes()
    tiff = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"  # orientation 6
    exif = b"Exif\0\0" + tiff
    (tmp_path / "p.jpg").write_bytes(data[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + data[2:])
    (feed,) = open_samples(tmp_path / "p.jpg", [X])
    assert feed["x"][0, 0, 0].min() > 0.9
    assert feed["x"][0, 0, -1].max() < 0.1


def test_a_bad_colour_profile_says_nothing_on_stderr(tmp_path, capfd):
    picture(tmp_path / "plain.png")
    data = (tmp_path / "plain.png").read_bytes()
    profile = b"\0\0\0\x0aiCCPbad\0\0abcde" + zlib.crc32(b"iCCPbad\0\0abcde").to_bytes(4, "big")
    header_end = 8 + 25
    (tmp_path / "p.png").write_bytes(data[:header_end] + profile + data[header_end:])
    (with_profile,) = open_samples(tmp_path / "p.png", [X])
    (plain,) = open_samples(tmp_path / "plain.png", [X])
    np.testing.assert_array_equal(with_profile["x"], plain["x"])
    assert capfd.readouterr().err == ""


def test_one_image_is_one_sample_and_a_broken_one_is_refused(tmp_path):
    picture(tmp_path / "a.png")
    assert len(open_samples(tmp_path / "a.png", [X])) == 1
    (tmp_path / "b.png").write_text("not an image")
    assert refusal(tmp_path / "b.png", [X]).code == "not-an-image"


def test_images_cannot_feed_several_inputs_or_tokens(tmp_path):
    picture(tmp_path / "a.png")
    assert refusal(tmp_path / "a.png", TOKENS).code == "wrong-input-count"
    assert refusal(tmp_path / "a.png", TOKENS[:1]).code == "not-an-image-input"


def test_random_samples_are_seeded_and_warned_of():
    samples = open_samples("random:3", [X, *TOKENS])
    assert codes(samples) == ["random-samples"]
    first, again = list(samples), list(open_samples("random:3", [X, *TOKENS]))
    assert [f["x"].tobytes() for f in first] == [f["x"].tobytes() for f in again]
    assert len({f["x"].tobytes() for f in first}) == 3
    assert set(np.unique(first[0]["ids"])) <= {0, 1}


@pytest.mark.parametrize(
    "text", ["random:0", "random:x", "random:-1", "random", "random:" + "9" * 20, "random:" + "9" * 5000, ""]
)
def test_random_needs_a_number(text):
    refusal(text, [X])


def test_nothing_is_never_taken_for_random():
    assert "random:32" in refusal([], [X]).hint


def test_a_missing_folder_is_named():
    assert refusal("no/such", [X]).code == "file-not-found"


def test_the_complete_preparation_is_told_for_later_runs(tmp_path):
    picture(tmp_path / "a.png")
    samples = open_samples(tmp_path, [X], Preparation(resize="letterbox"))
    assert samples.preparation == Preparation(resize="letterbox", size=(8, 8), layout="NCHW", color="RGB")
    assert open_samples("random:1", [X]).preparation is None


def test_a_run_reads_named_arrays_members_and_pictures(tmp_path, save):
    np.save(tmp_path / "x.npy", stack(1))
    tokens = save("t.npz", ids=np.ones((1, 5), int), mask=np.zeros((1, 5), int))
    feeds = read_feeds([str(tokens), f"x={tmp_path / 'x.npy'}"], [X, *TOKENS])
    assert {name: value.shape for name, value in feeds.items()} == {"x": (1, 3, 8, 8), "ids": (1, 5), "mask": (1, 5)}
    picture(tmp_path / "p.png")
    assert read_feeds([f"x={tmp_path / 'p.png'}", str(tokens)], [X, *TOKENS], Preparation(scale=1))["x"].max() > 1


@pytest.mark.parametrize(
    ("items", "code"),
    [
        ([], "missing-input"),
        (["y={x}"], "wrong-input-name"),
        (["x={x}", "x={x}"], "wrong-input-count"),
        (["{x}", "{x}"], "wrong-input-count"),
        (["{four}"], "wrong-count"),
        (["none.npy"], "file-not-found"),
    ],
)
def test_feeds_that_do_not_add_up_are_refused(tmp_path, items, code):
    np.save(tmp_path / "x.npy", stack(1))
    np.save(tmp_path / "four.npy", stack(4))
    files = {"x": tmp_path / "x.npy", "four": tmp_path / "four.npy"}
    with pytest.raises(UsageError) as caught:
        read_feeds([item.format(**files) for item in items], [X])
    assert caught.value.code == code


def test_an_open_batch_takes_the_array_as_it_is(tmp_path):
    np.save(tmp_path / "x.npy", stack(4))
    assert read_feeds([str(tmp_path / "x.npy")], [InputSpec("x", (None, 3, 8, 8))])["x"].shape == (4, 3, 8, 8)


@pytest.mark.skipif(not CALIB.is_dir(), reason="the case collection is not here")
@pytest.mark.parametrize(
    ("file", "outcome"),
    [
        ("c01_ok.npz", []),
        ("c03_uint8.npz", "--mean"),
        ("c04_float64.npz", ["cast"]),
        ("c05_wrong_name.npz", ["renamed"]),
        ("c07_empty.npz", "no calibration samples"),
        ("c08_object_pickle.npy", "pickled"),
        ("c09_wrong_size.npz", "expected 8x8 got 9x8"),
        ("c12_truncated.npz", "not a readable npz"),
        ("c13_outlier.npz", []),
    ],
)
def test_the_calibration_cases_end_as_they_should(file, outcome):
    if isinstance(outcome, list):
        samples = open_samples(CALIB / file, [X])
        assert (len(list(samples)), codes(samples)) == (4, outcome)
    else:
        error = refusal(CALIB / file, [X])
        assert outcome in f"{error} {error.hint}"
