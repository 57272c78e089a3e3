"""Sources: every kind of file with the right frames, or an error that says what, where and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.runtime import Image, cv, op
from tests.runtime.videos import NTSC, encode, picture, shade_of, shades, threads

BACKENDS = ("ffmpeg", "opencv")


def read(path: Path | str, backend: str = "ffmpeg") -> list[int]:
    """The shades of all frames."""
    with cv.create_source(path, backend=backend) as source:  # type: ignore[arg-type]
        return [shade_of(frame) for frame in source]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    (made / "deeper").mkdir(parents=True)
    for name, shade in (("b.png", 90), ("a.png", 10), ("deeper/c.jpg", 200), (".hidden.png", 1), ("notes.txt", 0)):
        if name.endswith(".txt"):
            (made / name).write_text("no picture")
        else:
            cv2.imwrite(str(made / name), picture(shade))
    return made


def test_a_folder_gives_its_pictures_by_path_and_nothing_else(folder: Path) -> None:
    assert read(folder) == [10, 90, 200]
    with cv.create_source(folder) as source:
        assert (source.frame_count, source.fps, source.live) == (3, None, False)


def test_a_picture_is_a_source_of_one_frame(folder: Path) -> None:
    assert read(folder / "b.png") == read(str(folder / "b.png")) == [90]


def test_every_frame_is_an_image_in_rgb_that_knows_its_source(folder: Path, tmp_path: Path) -> None:
    red = np.zeros((48, 64, 3), np.uint8)
    red[..., 0] = 255
    cv2.imwrite(str(tmp_path / "red.png"), red[..., ::-1])
    encode(tmp_path / "red.mp4", [red])
    for name, backend in (("red.png", "ffmpeg"), ("red.mp4", "ffmpeg"), ("red.mp4", "opencv")):
        (frame,) = cv.create_source(tmp_path / name, backend=backend)  # type: ignore[arg-type]
        assert isinstance(frame, Image)
        assert (frame.color_format, frame.source) == ("RGB", str(tmp_path / name))
        np.testing.assert_allclose(frame.to_numpy()[20, 20], (255, 0, 0), atol=4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts", "avi"])
def test_a_video_gives_every_frame_in_order_at_its_exact_rate(tmp_path: Path, suffix: str, backend: str) -> None:
    wanted = shades(20)  # ten apart
    path = encode(tmp_path / f"x.{suffix}", [picture(shade) for shade in wanted], codec="mpeg4")
    with cv.create_source(path, backend=backend) as source:  # type: ignore[arg-type]
        assert source.fps == NTSC
        assert source.frame_count == 20
        assert [shade_of(frame) for frame in source] == pytest.approx(wanted, abs=4)


def test_an_iterable_is_a_source_of_what_it_gives() -> None:
    given = [object(), object()]
    assert list(cv.create_source(given)) == given
    assert cv.create_source(given).frame_count == 2


def test_a_stream_reads_folders_pictures_and_videos(folder: Path, tmp_path: Path) -> None:
    wanted = shades(5)
    encode(tmp_path / "x.mp4", [picture(shade) for shade in wanted])
    shade = op.seq(shade_of)
    assert [result for _, result in shade.stream(folder)] == [10, 90, 200]
    assert [result for _, result in shade.stream(str(folder / "a.png"))] == [10]
    assert [result for _, result in shade.stream(tmp_path / "x.mp4")] == pytest.approx(wanted, abs=4)


def test_a_stream_gives_the_very_frames_of_a_list() -> None:
    given = [picture(1), picture(2)]
    assert cv.frames_of(given) is given
    source = cv.create_source(given)
    assert cv.frames_of(source) is source


def test_sources_and_readers_of_the_user_are_readers(folder: Path) -> None:
    class Mine:
        def __iter__(self) -> Iterator[int]:
            return iter([1, 2])

        def queue_depth(self) -> int:
            return 0

        def close(self) -> None:
            """Nothing is open."""

    assert isinstance(cv.create_source(folder), cv.Reader)
    assert isinstance(Mine(), cv.Reader)
    assert not isinstance([1, 2], cv.Reader)
    assert [result for _, result in op.seq(op.identity()).stream(Mine())] == [1, 2]


def test_a_source_is_read_once_and_says_so(folder: Path) -> None:
    source = cv.create_source(folder)
    assert len(list(source)) == 3
    assert source.ended
    for again in (lambda: iter(source), lambda: cv.frames_of(source)):
        with pytest.raises(UsageError, match="has given its last frame") as caught:
            again()
        assert "create_source" in caught.value.hint


def test_a_source_may_be_left_and_taken_up_again(folder: Path) -> None:
    source = cv.create_source(folder)
    assert shade_of(next(iter(source))) == 10
    assert [shade_of(frame) for frame in source] == [90, 200]


def test_closing_ends_the_frames_and_the_thread(tmp_path: Path) -> None:
    before = threads()
    path = encode(tmp_path / "x.mp4", [picture(shade) for shade in shades(50)])
    source = cv.create_source(path, buffer_size=2)
    next(source)
    source.close()
    source.close()
    assert next(source, None) is None
    assert threads() <= before


def test_a_source_that_nobody_holds_ends_its_thread(tmp_path: Path) -> None:
    before = threads()
    path = encode(tmp_path / "x.mp4", [picture(shade) for shade in shades(50)])
    source = cv.create_source(path, buffer_size=2)
    next(source)
    del source
    assert threads() <= before


def test_a_source_that_was_never_read_has_no_thread_and_closes_its_file(tmp_path: Path) -> None:
    path = encode(tmp_path / "x.mp4", [picture(9)])
    before, files = threads(), len(os.listdir("/proc/self/fd"))
    source = cv.create_source(path)
    assert threads() == before
    source.close()
    assert len(os.listdir("/proc/self/fd")) == files


def test_a_generator_is_closed_when_its_source_is() -> None:
    closed = []

    def frames() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.append(True)

    with cv.create_source(frames(), buffer_size=3) as source:
        assert next(source) == 0
    assert closed == [True]


def test_a_source_is_opened_with_arguments_that_make_sense(folder: Path) -> None:
    with pytest.raises(ValueError, match="buffer_size is 0, want at least 1 frame"):
        cv.create_source(folder, buffer_size=0)
    with pytest.raises(ValueError, match=r"there is no backend 'fmpeg'; did you mean ffmpeg\?"):
        cv.create_source(folder, backend="fmpeg")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="event_callback is int"):
        cv.create_source(folder, event_callback=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout_s is 0"):
        cv.create_source(folder, timeout_s=0)
    for forever in (float("inf"), 1e300, float("nan")):
        with pytest.raises(ValueError, match="want more than 0 and at most 1,000,000 seconds"):
            cv.create_source("rtsp://127.0.0.1:1/x", timeout_s=forever)
    with pytest.raises(TypeError, match="timeout_s is a str, want seconds"):
        cv.create_source(folder, timeout_s="3")  # type: ignore[arg-type]
    for nothing in (3, picture(1), Image.from_array(picture(1), "RGB"), b"bytes"):
        with pytest.raises(TypeError, match="call the pipeline for a single picture"):
            cv.create_source(nothing)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="call the pipeline for a single picture"):
            cv.frames_of(nothing)


@pytest.mark.parametrize(
    ("error", "reason"), [(OSError(36, "File name too long"), "too long"), (RecursionError(), "nested too deep")]
)
def test_folders_that_are_nested_too_deep_are_refused(folder: Path, error: Exception, reason: str) -> None:
    def deep(*_: object) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rglob", deep)
        with pytest.raises(UsageError, match=f"cannot be read: .*{reason}") as caught:
            cv.create_source(folder)
    assert caught.value.where == str(folder)


def test_what_cannot_be_read_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "x.mp4").write_bytes(b"no video")
    (tmp_path / "empty.mp4").touch()
    os.mkfifo(tmp_path / "pipe")
    for name, words, code in (
        ("x.mp4", "cannot be read as a picture, a folder of pictures or a video", "cannot-read"),
        ("empty.mp4", "it is empty", "cannot-read"),
        ("", "no pictures in this folder", "no-pictures"),
        ("pipe", "is a pipe", "not-a-file"),
        ("missing.mp4", "there is no such file or folder", "file-not-found"),
        ("missing.png", "there is no such file or folder", "file-not-found"),
        ("missing/", "there is no such file or folder", "file-not-found"),
    ):
        with pytest.raises(UsageError, match=words) as caught:
            op.seq(op.identity()).stream(tmp_path / name)
        assert caught.value.code == code
        assert str(tmp_path) in caught.value.where
        assert caught.value.hint


def test_an_address_of_no_known_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'rtps' is no kind of address") as caught:
        cv.create_source("rtps://10.0.0.1/x")
    assert "did you mean rtsp" in caught.value.hint
    with pytest.raises(UsageError, match="cannot be read as a picture"):
        op.seq(op.identity()).stream("nothing://" + "x" * 300)


def test_a_file_may_be_named_by_a_url_and_by_odd_names(tmp_path: Path) -> None:
    for name in ("a b%.mp4", "concat:x|y.mp4", "t@30.mp4", "x@30", "ümläut.mkv"):
        path = encode(tmp_path / name, [picture(77)], format="matroska")
        assert read(path) == pytest.approx([77], abs=2)
    assert read((tmp_path / "a b%.mp4").as_uri()) == pytest.approx([77], abs=2)


def test_a_damaged_picture_fails_behind_the_frames_before_it(folder: Path) -> None:
    whole = (folder / "b.png").read_bytes()
    (folder / "b.png").write_bytes(whole[: len(whole) // 2])
    source = cv.create_source(folder)
    assert shade_of(next(source)) == 10
    with pytest.raises(UsageError, match=r"b\.png: the PNG data are cut short"):
        next(source)
    assert next(source, None) is None


def test_a_rate_is_never_rounded(tmp_path: Path) -> None:
    for fps in (Fraction(24000, 1001), Fraction(25), Fraction(120), Fraction(15, 2)):
        path = encode(tmp_path / "x.mp4", [picture(shade) for shade in shades(8)], fps=fps)
        with cv.create_source(path) as source:
            assert source.fps == fps
