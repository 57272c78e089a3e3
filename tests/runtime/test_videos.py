"""Video files of every kind: the right frames, upright and in the right colours, or an error behind those there are."""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from axtool.errors import AxError, UsageError
from axtool.runtime import cv
from axtool.runtime.cv.video import upright
from tests.runtime.videos import encode, picture, shade_of, shades, threads

CORNERS = np.zeros((32, 48, 3), np.uint8)  # red, green, blue and white quarters
CORNERS[:16, :24, 0] = CORNERS[:16, 24:, 1] = CORNERS[16:, :24, 2] = 255
CORNERS[16:, 24:] = 255
ONE = 1 << 16  # of a display matrix


def frames(path: Path | str) -> list[NDArray[np.uint8]]:
    with cv.create_source(path) as source:
        return [frame.to_numpy() for frame in source]


def what_is_left(path: Path) -> tuple[list[int], AxError | None]:
    """(shades of the frames that come, the error behind them)"""
    seen: list[int] = []
    try:
        with cv.create_source(path) as source:
            seen.extend(shade_of(frame) for frame in source)
    except AxError as error:
        return seen, error
    return seen, None


def turned(path: Path, matrix: Sequence[int]) -> Path:
    """An .mp4 with another display matrix (a b, c d) in the header of its track."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 40  # version 0: times, id, duration, layer, group and volume are before it
    a, b, c, d = matrix
    data[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("matrix", "wanted"),
    [
        ((ONE, 0, 0, ONE), CORNERS),
        ((0, ONE, -ONE, 0), np.rot90(CORNERS, -1)),  # a telephone held upright
        ((-ONE, 0, 0, -ONE), np.rot90(CORNERS, 2)),
        ((0, -ONE, ONE, 0), np.rot90(CORNERS, 1)),
        ((-ONE, 0, 0, ONE), CORNERS[:, ::-1]),  # the front camera of one
        ((ONE, 0, 0, -ONE), CORNERS[::-1]),
        ((0, ONE, ONE, 0), CORNERS.transpose(1, 0, 2)),
        ((0, -ONE, -ONE, 0), np.rot90(CORNERS, 2).transpose(1, 0, 2)),
    ],
)
def test_frames_are_upright_as_the_file_says(tmp_path: Path, matrix: Sequence[int], wanted: NDArray[np.uint8]) -> None:
    path = turned(encode(tmp_path / "x.mp4", [CORNERS] * 3, codec="mpeg4", options={"qscale": "2"}), matrix)
    got = frames(path)
    assert len(got) == 3
    for frame in got:
        assert frame.flags.c_contiguous
        np.testing.assert_allclose(frame[4::8, 4::8].astype(int), wanted[4::8, 4::8], atol=24)
        assert frame.shape == wanted.shape


def test_a_turn_agrees_with_that_of_opencv(tmp_path: Path) -> None:
    path = turned(encode(tmp_path / "x.mp4", [CORNERS], codec="mpeg4"), (0, ONE, -ONE, 0))
    (ours,), (theirs,) = (list(cv.create_source(path, backend=name)) for name in ("ffmpeg", "opencv"))  # type: ignore[arg-type]
    np.testing.assert_allclose(ours.to_numpy().astype(int), theirs.to_numpy(), atol=6)


def test_a_matrix_between_two_quarters_is_the_nearer_one() -> None:
    little = np.array([ONE, ONE // 9, 0, -ONE // 9, ONE, 0, 0, 0, 1 << 30], np.int32)
    np.testing.assert_array_equal(upright(CORNERS, little), CORNERS)


@pytest.mark.parametrize(("width", "height"), [(1, 1), (33, 17), (127, 3), (2, 200)])
def test_odd_sizes_keep_every_pixel(tmp_path: Path, width: int, height: int) -> None:
    rng = np.random.default_rng(width)
    wanted = [rng.integers(0, 256, (height, width, 3), np.uint8) for _ in range(3)]
    path = encode(tmp_path / "x.mkv", wanted, codec="ffv1", pix_fmt="bgr0")
    for got, want in zip(frames(path), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_frames_that_are_held_stay_as_they_were(tmp_path: Path) -> None:
    wanted = shades(60)
    path = encode(tmp_path / "x.mkv", [picture(shade, 35, 21) for shade in wanted], codec="ffv1")
    held, views = [], []
    for index, frame in enumerate(cv.create_source(path, buffer_size=2)):
        if index % 3 == 0:
            held.append(frame)
        if index % 3 == 1:
            views.append(frame.to_numpy()[5:9, 7:])  # of a frame that nobody else holds
    assert [shade_of(frame) for frame in held] == pytest.approx(wanted[::3], abs=2)
    assert [int(view.mean()) for view in views] == pytest.approx(wanted[1::3], abs=2)
    assert all(frame.to_numpy().flags.c_contiguous for frame in held)


@pytest.mark.parametrize(
    "pix_fmt", ["gray", "gray10le", "yuv420p10le", "yuv422p", "yuv444p12le", "rgb48le", "bgra", "yuva420p", "gbrp16le"]
)
def test_every_kind_of_pixel_becomes_rgb_of_eight_bits(tmp_path: Path, pix_fmt: str) -> None:
    wanted = shades(6)  # FFmpeg's conversion reads beside rows of 34 pixels when the file is made
    path = encode(tmp_path / "x.mkv", [picture(shade, 64, 18) for shade in wanted], codec="ffv1", pix_fmt=pix_fmt)
    got = frames(path)
    assert [frame.shape for frame in got] == [(18, 64, 3)] * 6
    assert [int(frame.mean()) for frame in got] == pytest.approx(wanted, abs=2)


@pytest.mark.parametrize("space", [1, 5])  # BT.709, BT.601
@pytest.mark.parametrize("full", [1, 2])  # 16 to 235, 0 to 255
def test_colours_are_those_of_the_matrix_and_range_that_the_file_names(tmp_path: Path, space: int, full: int) -> None:
    path = tmp_path / "x.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"qp": "1"})
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv444p"
        stream.codec_context.colorspace, stream.codec_context.color_range = space, full
        frame = av.VideoFrame.from_ndarray(CORNERS, format="rgb24")
        frame = frame.reformat(format="yuv444p", dst_colorspace=space, dst_color_range=full)
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    (got,) = frames(path)
    np.testing.assert_allclose(got[4::8, 4::8].astype(int), CORNERS[4::8, 4::8], atol=5)


def test_a_variable_rate_gives_every_frame_once_and_the_average(tmp_path: Path) -> None:
    wanted = shades(10)
    times = [0, 10, 20, 300, 310, 700, 710, 720, 730, 900]
    path = encode(tmp_path / "x.mp4", [picture(shade) for shade in wanted], codec="mpeg4", fps=1000, times=times)
    with cv.create_source(path) as source:
        assert [shade_of(frame) for frame in source] == pytest.approx(wanted, abs=4)
        assert float(source.fps or 0) == pytest.approx(10 / 0.9, rel=0.02)


def test_the_size_of_frames_may_change_on_the_way(tmp_path: Path) -> None:
    parts = [
        encode(tmp_path / f"{size}.ts", [picture(90, size, size)] * 4, codec="mpeg2video", fps=25) for size in (32, 64)
    ]
    (tmp_path / "x.ts").write_bytes(b"".join(part.read_bytes() for part in parts))
    assert {frame.shape[0] for frame in frames(tmp_path / "x.ts")} == {32, 64}


def test_sound_without_pictures_is_no_video(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "x.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 2048), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with pytest.raises(UsageError, match="holds no video, only audio"):
        cv.create_source(tmp_path / "x.mp4")


def test_a_video_without_a_frame_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = encode(tmp_path / "x.avi", [picture(9)], codec="mpeg4")
    data = path.read_bytes()
    at = data.index(b"movi") + 4
    path.write_bytes(data[:at])
    seen, error = what_is_left(path)
    assert seen == []
    assert error is not None
    assert error.code in ("no-frames", "cannot-read")
    assert str(path) in str(error)


@pytest.mark.parametrize("share", [0.35, 0.6, 0.9, 0.999])
def test_a_video_that_is_cut_short_gives_what_is_whole_and_an_error(tmp_path: Path, share: float) -> None:
    wanted = shades(20)
    options = {"movflags": "faststart"}
    path = encode(tmp_path / "x.mp4", [np.dstack([picture(s)[..., 0]] * 3) for s in wanted], codec="mpeg4",
                  container_options=options, options={"g": "1"})  # fmt: skip
    data = path.read_bytes()
    begin = data.index(b"mdat")
    path.write_bytes(data[: begin + int((len(data) - begin) * share)])
    seen, error = what_is_left(path)
    assert 0 < len(seen) <= 20
    assert seen == pytest.approx(wanted[: len(seen)], abs=6)
    assert error is not None
    assert error.code == "video-cut-short"
    assert f"behind frame {len(seen) - 1}" in str(error)
    assert "ffmpeg -i FILE -c copy NEW" in error.hint


def test_an_mp4_that_was_never_finished_is_refused_and_the_reason_is_said(tmp_path: Path) -> None:
    path = encode(tmp_path / "x.mp4", [picture(shade) for shade in shades(20)])
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"moov")])
    with pytest.raises(UsageError, match="cannot be read as a picture, a folder of pictures or a video") as caught:
        cv.create_source(path)
    assert "has no index" in caught.value.hint


@pytest.mark.parametrize(("begin", "wanted"), [(0, slice(0, 10)), (10, slice(10, 20))])
def test_a_video_that_an_edit_list_shortens_is_whole(tmp_path: Path, begin: int, wanted: slice) -> None:
    path = encode(tmp_path / "x.mp4", [picture(shade) for shade in shades(20)], fps=25)
    data = bytearray(path.read_bytes())
    at = data.index(b"elst") + 12  # behind the name: version, count; then length in 1/1000 s and begin in the track
    length, first = struct.unpack(">Ii", data[at : at + 8])
    assert length == 800
    with av.open(str(path)) as container:
        ticks = int(1 / container.streams.video[0].time_base)
    data[at : at + 8] = struct.pack(">Ii", 400, first + begin * ticks // 25)
    path.write_bytes(data)
    with cv.create_source(path) as source:
        assert source.frame_count == 10
        assert [shade_of(frame) for frame in source] == pytest.approx(shades(20)[wanted], abs=4)


def test_a_matroska_file_that_ends_early_gives_its_frames_and_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = encode(tmp_path / "x.mkv", [picture(shade) for shade in shades(100)], codec="ffv1", fps=25)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with caplog.at_level(logging.WARNING):
        seen, error = what_is_left(path)
    assert error is None
    assert 20 < len(seen) < 80
    assert "of 4.0 s are not in the file" in caplog.text


def test_packets_that_cannot_be_decoded_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = shades(20)
    path = encode(tmp_path / "x.avi", [picture(shade) for shade in wanted], codec="ffv1", options={"g": "1"})
    with av.open(str(path)) as container:
        second = list(container.demux(video=0))[1]
    data = bytearray(path.read_bytes())
    at = data.index(bytes(second))
    data[at : at + second.size] = b"\xff" * second.size
    path.write_bytes(data)
    events: list[cv.SourceEvent] = []
    with cv.create_source(path, events.append) as source:
        assert [shade_of(frame) for frame in source] == pytest.approx([wanted[0], *wanted[2:]], abs=2)
        assert source.damaged == 1
    assert "1 packet left out that could not be decoded" in caplog.text
    assert [(event.kind, event.count) for event in events if event.kind == "damaged"] == [("damaged", 1)]


PLAYLIST = "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nother.mp4\n#EXT-X-ENDLIST\n"
SESSION = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 33\n"


@pytest.mark.parametrize("text", ["ffconcat version 1.0\nfile other.mp4\n", PLAYLIST, SESSION])
@pytest.mark.parametrize("suffix", ["mp4", "m3u8", "sdp"])
def test_a_list_of_other_files_is_no_video(tmp_path: Path, text: str, suffix: str) -> None:
    encode(tmp_path / "other.mp4", [picture(9)])
    (tmp_path / f"x.{suffix}").write_text(text)
    with pytest.raises(UsageError, match="cannot be read as a picture"):
        cv.create_source(tmp_path / f"x.{suffix}")


def test_frames_that_claim_to_be_huge_are_refused_before_any_memory_is_taken(tmp_path: Path) -> None:
    avi = encode(tmp_path / "x.avi", [picture(9, 64, 48)], codec="rawvideo", pix_fmt="bgr24").read_bytes()
    at = avi.index(b"strf") + 8 + 4  # width and height of its pictures
    (tmp_path / "x.avi").write_bytes(avi[:at] + struct.pack("<ii", 60000, 60000) + avi[at + 8 :])
    seen, error = what_is_left(tmp_path / "x.avi")
    assert seen == []
    assert error is not None
    assert error.code in ("cannot-read", "no-frames")


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "avi", "ts"])
def test_bytes_turned_at_random_end_in_frames_or_in_an_error_of_ours(tmp_path: Path, suffix: str) -> None:
    before = threads()
    whole = encode(tmp_path / f"w.{suffix}", [picture(shade) for shade in shades(12)], codec="mpeg4").read_bytes()
    path = tmp_path / f"x.{suffix}"
    for seed in range(25):
        rng = np.random.default_rng(seed)
        data = np.frombuffer(whole, np.uint8).copy()
        data[rng.integers(0, len(data), 1 + seed)] = rng.integers(0, 256, 1 + seed)
        path.write_bytes(data[: len(data) if seed % 3 else int(rng.integers(1, len(data)))].tobytes())
        seen, error = what_is_left(path)
        assert len(seen) <= 60
        assert error is None or str(path) in str(error)
    assert threads() <= before


def test_nothing_is_written_to_stderr_for_a_damaged_video(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = encode(tmp_path / "x.mkv", [picture(shade) for shade in shades(30)])
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 40] = b"\xff" * 40
    path.write_bytes(data)
    what_is_left(path)
    assert capfd.readouterr().err == ""


def test_a_long_rate_of_a_file_is_kept_as_a_fraction(tmp_path: Path) -> None:
    path = encode(tmp_path / "x.mp4", [picture(9)] * 3, fps=Fraction(12345, 678))
    with cv.create_source(path) as source:
        assert source.fps == Fraction(12345, 678)
