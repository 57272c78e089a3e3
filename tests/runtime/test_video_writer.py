"""`VideoWriter`: what is written is what is read, at the exact rate; a file is whole or not there."""

from __future__ import annotations

import errno
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from axtool.errors import EnvironmentFault, UsageError
from axtool.runtime import Image, cv
from tests.runtime.videos import NTSC, picture, shade_of, shades


def write(path: Path, count: int = 8, fps: Any = 25, **given: Any) -> Path:
    with cv.VideoWriter(path, fps, **given) as writer:
        for shade in shades(count):
            writer.write(picture(shade), "RGB")
    return path


@pytest.mark.parametrize("suffix", ["mp4", "m4v", "mov", "mkv", "avi"])
@pytest.mark.parametrize("codec", [None, "h264", "mpeg4"])
def test_what_is_written_is_what_is_read(tmp_path: Path, suffix: str, codec: str | None) -> None:
    with cv.create_source(write(tmp_path / f"x.{suffix}", 20, codec=codec)) as source:
        assert (source.fps, source.frame_count) == (25, 20)
        assert [shade_of(frame) for frame in source] == pytest.approx(shades(20), abs=3)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [(NTSC, NTSC), (29.97, NTSC), (23.976, Fraction(24000, 1001)), (30, Fraction(30)), (12.5, Fraction(25, 2)),
     (Fraction(1, 3), Fraction(1, 3)), (1000, Fraction(1000)), (59.94005994, Fraction(60000, 1001))],
)  # fmt: skip
def test_the_rate_of_the_file_is_exact(tmp_path: Path, given: Any, wanted: Fraction) -> None:
    path = write(tmp_path / "x.mp4", 7, given)
    with cv.create_source(path) as source:
        assert source.fps == wanted
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.frames == 7
        assert stream.duration * stream.time_base == 7 / wanted


def test_colours_survive_the_way_through_a_file(tmp_path: Path) -> None:
    colours = np.zeros((64, 64, 3), np.uint8)
    colours[:32, :32], colours[:32, 32:], colours[32:, :32], colours[32:, 32:] = (
        (255, 0, 0), (0, 255, 0), (0, 0, 255), (200, 120, 40),
    )  # fmt: skip
    for name, given, order in (("rgb", colours, "RGB"), ("bgr", colours[..., ::-1], "BGR")):
        with cv.VideoWriter(tmp_path / f"{name}.mp4", 25) as writer:
            writer.write(given, order)
        (frame,) = cv.create_source(tmp_path / f"{name}.mp4")
        np.testing.assert_allclose(frame.to_numpy()[8::16, 8::16].astype(int), colours[8::16, 8::16], atol=6)


def test_images_of_any_order_and_grey_ones_are_frames(tmp_path: Path) -> None:
    with cv.VideoWriter(tmp_path / "x.mp4", 25) as writer:
        writer.write(Image.from_array(picture(90), "BGR"))
        writer.write(picture(90)[..., 0])
        writer.write(np.dstack([picture(90), picture(255)[..., :1]]), "RGBA")
        assert writer.frames == 3
    assert [shade_of(frame) for frame in cv.create_source(tmp_path / "x.mp4")] == pytest.approx([90] * 3, abs=2)


@pytest.mark.parametrize(("width", "height"), [(1, 1), (33, 18), (18, 33), (641, 361)])
def test_odd_sizes_get_a_copy_of_their_last_row_or_column(tmp_path: Path, width: int, height: int) -> None:
    for codec in ("h264", "mpeg4"):
        path = tmp_path / f"{codec}.mp4"
        with cv.VideoWriter(path, 25, codec=codec) as writer:
            writer.write(picture(200, width, height), "RGB")
        (frame,) = cv.create_source(path)
        assert (frame.width, frame.height) == (width + width % 2, height + height % 2)
        np.testing.assert_allclose(frame.to_numpy().astype(int), 200, atol=3)


def test_a_frame_of_another_size_is_fitted_with_black_beside_it(tmp_path: Path) -> None:
    with cv.VideoWriter(tmp_path / "x.mp4", 25) as writer:
        writer.write(picture(200, 64, 64), "RGB")
        writer.write(picture(200, 64, 32), "RGB")
        writer.write(picture(200, 300, 300), "RGB")
    first, flat, large = (frame.to_numpy()[..., 0].astype(int) for frame in cv.create_source(tmp_path / "x.mp4"))
    assert first.shape == flat.shape == large.shape == (64, 64)
    np.testing.assert_allclose(flat[20:44], 200, atol=8)
    np.testing.assert_allclose(flat[[2, -3]], 0, atol=8)
    np.testing.assert_allclose(large, 200, atol=8)


def test_a_size_that_is_given_holds_for_every_frame(tmp_path: Path) -> None:
    with cv.VideoWriter(tmp_path / "x.mp4", 25, (32, 16)) as writer:
        writer.write(picture(200), "RGB")
    (frame,) = cv.create_source(tmp_path / "x.mp4")
    assert (frame.width, frame.height) == (32, 16)


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".avi"])
def test_the_same_frames_are_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    one, two = (write(tmp_path / f"{name}{suffix}", 30).read_bytes() for name in ("a", "b"))
    assert one == two


def test_no_file_has_the_name_before_it_is_whole(tmp_path: Path) -> None:
    writer = cv.VideoWriter(tmp_path / "x.mp4", 25)
    writer.write(picture(9), "RGB")
    assert not (tmp_path / "x.mp4").exists()
    writer.close()
    writer.close()
    assert os.listdir(tmp_path) == ["x.mp4"]
    assert (tmp_path / "x.mp4").stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_an_error_in_the_block_leaves_no_file_and_the_old_one_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "x.mp4").write_bytes(b"the old one")

    def failing() -> None:
        with cv.VideoWriter(tmp_path / "x.mp4", 25, force=True) as writer:
            writer.write(picture(9), "RGB")
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert os.listdir(tmp_path) == ["x.mp4"]
    assert (tmp_path / "x.mp4").read_bytes() == b"the old one"


def test_a_writer_that_is_forgotten_or_discarded_leaves_no_file(tmp_path: Path) -> None:
    writer = cv.VideoWriter(tmp_path / "x.mp4", 25)
    writer.write(picture(9), "RGB")
    writer.discard()
    writer = cv.VideoWriter(tmp_path / "x.mp4", 25)
    writer.write(picture(9), "RGB")
    del writer
    assert os.listdir(tmp_path) == []


def test_a_video_without_a_frame_is_an_error_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no frame was written"), cv.VideoWriter(tmp_path / "x.mp4", 25):
        pass
    assert os.listdir(tmp_path) == []


def test_nothing_is_written_behind_the_end(tmp_path: Path) -> None:
    writer = cv.VideoWriter(tmp_path / "x.mp4", 25)
    writer.write(picture(9), "RGB")
    writer.close()
    with pytest.raises(UsageError, match="is finished"):
        writer.write(picture(9), "RGB")


def test_an_existing_file_is_kept_without_force_also_when_it_comes_meanwhile(tmp_path: Path) -> None:
    writer = cv.VideoWriter(tmp_path / "x.mp4", 25)
    writer.write(picture(9), "RGB")
    (tmp_path / "x.mp4").write_bytes(b"another program's")
    with pytest.raises(UsageError, match="already exists") as caught:
        writer.close()
    assert caught.value.code == "output-exists"
    assert (tmp_path / "x.mp4").read_bytes() == b"another program's"
    assert os.listdir(tmp_path) == ["x.mp4"]
    with pytest.raises(UsageError, match="already exists"):
        cv.VideoWriter(tmp_path / "x.mp4", 25)
    write(tmp_path / "x.mp4", force=True)


def test_an_input_is_never_written_over(tmp_path: Path) -> None:
    path = write(tmp_path / "x.mp4")
    with pytest.raises(UsageError, match="is an input of this command"):
        cv.VideoWriter(path, 25, force=True, inputs=[path])


@pytest.mark.parametrize(
    ("name", "words"),
    [("x.gif", "no suffix of a video"), ("x", "no suffix of a video"), ("missing/x.mp4", "does not exist"),
     ("folder.mp4", "is a folder")],
)  # fmt: skip
def test_a_path_that_cannot_become_a_video_is_refused_at_once(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises(UsageError, match=words):
        cv.VideoWriter(tmp_path / name, 25)


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf"), 1001, True, "25", None])
def test_a_rate_that_is_none_is_refused(tmp_path: Path, fps: Any) -> None:
    with pytest.raises(ValueError, match="fps is"):
        cv.VideoWriter(tmp_path / "x.mp4", fps)


def test_a_size_a_codec_or_a_picture_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a video of 0 x 4 pixels"):
        cv.VideoWriter(tmp_path / "x.mp4", 25, (0, 4))
    with pytest.raises(ValueError, match=r"there is no codec 'h265'; did you mean h264\?"):
        cv.VideoWriter(tmp_path / "x.mp4", 25, codec="h265")
    writer = cv.VideoWriter(tmp_path / "x.mp4", 25)
    with pytest.raises(ValueError, match="the order of 3 channels is not known"):
        writer.write(picture(9))
    with pytest.raises(ValueError, match="a picture is uint8"):
        writer.write(picture(9).astype(np.float32), "RGB")
    writer.discard()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_full_disk_is_an_error_of_the_machine_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    writer = cv.VideoWriter(tmp_path / "x.mp4", 25)
    writer.write(picture(9), "RGB")

    class Full:
        def mux(self, packets: Any) -> None:
            raise OSError(number, os.strerror(number))

        def close(self) -> None:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(writer, "_container", Full())
    with pytest.raises(EnvironmentFault) as caught:  # the encoder holds back some frames
        [writer.write(picture(9), "RGB") for _ in range(100)]
    assert caught.value.code == ("disk-full" if number == errno.ENOSPC else "cannot-write")
    assert os.listdir(tmp_path) == []
