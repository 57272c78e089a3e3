"""Streams of `axtool run`: which words name one, what is opened, where results go, signals that wait for a frame."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from axtool.errors import EnvironmentFault, UsageError
from axtool.inputs.prepare import Preparation
from axtool.runtime import Image
from axtool.runtime.cv.address import Kind
from axtool.runtime.geometry import frame_context
from axtool.runtime.op.combinators import Seq
from axtool.runtime.op.prepare import Prepare
from axtool.runtime.streams.counts import Depths, Pace
from axtool.runtime.streams.interrupts import Interrupts
from axtool.runtime.streams.outputs import DEFAULT_FPS, PictureFiles, ResultLines, VideoFile, outputs_of
from axtool.runtime.streams.pipeline import Seen, front_of
from axtool.runtime.streams.run import StreamOptions, run
from axtool.runtime.streams.sources import Watched, _short, opened
from axtool.runtime.streams.words import reads_like_a_stream
from tests.videos import frames_in, pictures, video

# ---- words


@pytest.mark.parametrize(
    ("words", "streams"),
    [
        (("video.mp4",), True),
        (("VIDEO.MKV",), True),
        (("video.mp4@30",), True),
        (("video.mp4@auto",), True),
        (("photo.jpg@5",), True),
        (("rtsp://camera/1?user=x",), True),
        (("http://host/video",), True),
        (("/dev/video0",), True),
        (("a.png", "b.png"), True),
        (("photo.jpg",), False),
        (("x.npy",), False),
        (("x=feed.npy", "y=feed.npy"), False),
        (("image=photo.jpg",), False),
        (("left=a.png", "right=b.png"), False),
        (("feeds.npz",), False),
        ((), False),
    ],
)
def test_words_say_whether_they_are_a_stream(work: Path, words: Sequence[str], streams: bool) -> None:
    assert reads_like_a_stream(words) is streams


def test_a_folder_is_a_stream_and_a_file_with_an_at_sign_is_itself(work: Path) -> None:
    pictures(work / "folder", 1)
    (work / "me@2").mkdir()
    (work / "photo.jpg@3.npy").write_bytes(b"")
    assert reads_like_a_stream(["folder"])
    assert reads_like_a_stream(["me@2"])
    assert not reads_like_a_stream(["photo.jpg@3.npy"])


# ---- sources


def test_each_frame_is_noted_when_it_is_pulled(work: Path) -> None:
    (source,) = opened([str(video(work / "a.mp4", 5))])
    before = time.perf_counter()
    assert len(list(source)) == 5
    assert (source.count, source.size, source.total, source.fps) == (5, (64, 48), 5, Fraction(30))
    assert list(source.pulled) == sorted(source.pulled)
    assert source.pulled[0] >= before
    source.close()


def test_a_limit_ends_a_source_and_is_its_total(work: Path) -> None:
    (source,) = opened([str(video(work / "a.mp4", 5))], frames=2)
    assert (source.total, len(list(source))) == (2, 2)
    source.close()


def test_pictures_between_videos_are_one_source_in_their_own_order(work: Path) -> None:
    folder, film = pictures(work / "folder", 3), video(work / "a.mp4", 2)
    sources = opened([str(folder / "2.png"), str(film), str(folder / "0.png")])
    assert [source.reader.name for source in sources] == ["2 pictures", str(film)]
    assert [Path(frame.source).name for frame in sources[0]] == ["2.png", "0.png"]
    for source in sources:
        source.close()


def test_what_is_open_is_closed_when_a_later_source_is_none(work: Path) -> None:
    film = video(work / "a.mp4", 2)
    with pytest.raises(UsageError, match=r"no\.mp4"):
        opened([str(film), "no.mp4"])
    assert not [name for name in os.listdir("/proc/self/fd") if leads_to(name, film)]


def leads_to(descriptor: str, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}") == str(path)
    except OSError:
        return False


def test_depths_keep_their_mean_and_their_maximum_alone() -> None:
    depths = Depths()
    assert depths.mean is None
    for depth in (1, 5, 0):
        depths.append(depth)
    assert (depths.mean, depths.most) == (2.0, 5)


# ---- preparation


@pytest.mark.parametrize("size", [(20, 30, 3), (64, 48, 3), (33, 47, 3), (16, 16, 3)])
@pytest.mark.parametrize("color", ["RGB", "BGR"])
@pytest.mark.parametrize("anchor", ["center", "top-left"])
def test_the_operators_of_a_letterbox_are_the_preparation_bit_for_bit(
    size: tuple[int, int, int], color: str, anchor: str
) -> None:
    values = {"size": [16, 24], "resize": "letterbox", "color": color, "anchor": anchor, "fill": [3, 200, 77]}
    preparation = Preparation.from_dict(values)
    steps = front_of(preparation)
    assert not any(isinstance(step, Prepare) for step in steps)
    pixels = np.random.default_rng(3).integers(0, 256, size, np.uint8)
    picture = Image.from_array(pixels, "RGB")
    for front in (Seq(*steps), Seq(*steps).optimized()):
        with frame_context(picture):
            made = np.asarray(front(picture))
        np.testing.assert_array_equal(made.reshape(1, 3, 16, 24), preparation.prepare(picture.to_numpy()))


@pytest.mark.parametrize(
    "changed",
    [
        {"resize": "fit"}, {"mean": [0.5]}, {"std": [0.5]}, {"scale": 1.0}, {"color": "GRAY"}, {"layout": "NHWC"},
        {"interpolation": "area"}, {"dtype": "uint8"},
    ],
)  # fmt: skip
def test_any_other_preparation_is_one_operator(changed: dict[str, object]) -> None:
    values = {"size": [16, 24], "resize": "letterbox", "color": "RGB", **changed}
    (step,) = front_of(Preparation.from_dict(values))
    assert isinstance(step, Prepare)


# ---- outputs


def seen(value: int = 9, size: tuple[int, int] = (48, 64)) -> Seen:
    return Seen({"kind": "classification", "classes": []}, np.full((*size, 3), value, np.uint8))


def test_a_video_of_a_source_without_a_rate_has_25_frames_a_second(work: Path) -> None:
    file = VideoFile(work / "out.mp4", None, force=False)
    file.write(None, seen())
    assert file._writer is not None
    assert file._writer.fps == DEFAULT_FPS == 25
    file.finish()
    assert len(frames_in(work / "out.mp4")) == 1


def test_without_a_frame_there_is_no_video(work: Path) -> None:
    file = VideoFile(work / "out.mp4", Fraction(5), force=False)
    file.finish()
    file.discard()
    assert list(work.iterdir()) == []


def test_what_is_discarded_leaves_nothing(work: Path) -> None:
    outputs = [VideoFile(work / "out.mp4", Fraction(5), force=False), PictureFiles(work / "found", force=False)]
    lines = ResultLines(work / "out.jsonl", force=False)
    for index in range(3):
        for output in outputs:
            output.write(Image.from_array(np.zeros((4, 4, 3), np.uint8), "RGB", f"p{index}.jpg"), seen())
        lines.write(0, "source", index, seen())
    assert len([path for path in work.rglob("*") if path.is_file()]) == 5
    for output in (*outputs, lines):
        output.discard()
    assert [path for path in work.rglob("*") if path.is_file()] == []


def test_lines_are_whole_or_not_there(work: Path) -> None:
    lines = ResultLines(work / "out.jsonl", force=False)
    lines.write(1, "a.mp4", 0, seen())
    assert not (work / "out.jsonl").exists()
    lines.finish()
    (line,) = (work / "out.jsonl").read_text().splitlines()
    result = {"kind": "classification", "classes": []}
    assert json.loads(line) == {"stream": 1, "source": "a.mp4", "frame": 0, "result": result}
    assert (work / "out.jsonl").stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_pictures_of_the_same_name_do_not_write_over_each_other(work: Path) -> None:
    files = PictureFiles(work / "found", force=False)
    for folder in ("a", "b"):
        files.write(Image.from_array(np.zeros((4, 4, 3), np.uint8), "RGB", f"{folder}/x.jpg"), seen())
    files.finish()
    assert sorted(path.name for path in (work / "found").iterdir()) == ["x-000001.png", "x.png"]


@pytest.mark.parametrize(
    ("save", "names"),
    [
        ("found", ["found/a.mp4", "found/pictures"]),
        ("found/", ["found/a.mp4", "found/pictures"]),
        ("{name}-out.mp4", ["a-out.mp4", "pictures-out.mp4"]),
        ("{index}.mkv", ["0.mkv", "1.mkv"]),
        ("all/{name}", ["all/a/a.mp4", "all/pictures"]),
    ],
)
def test_every_source_has_a_place(work: Path, save: str, names: list[str]) -> None:
    sources = opened([str(video(work / "a.mp4", 1)), str(pictures(work / "pictures", 2))])
    made = outputs_of(save, sources, force=False, inputs=[])
    assert [str(output.path) for output in made] == names
    for source in sources:
        source.close()


class Camera:
    """A live source of three frames that falls silent, or is broken off."""

    def __init__(self, error: Exception) -> None:
        self.name, self.live, self.fps, self.frame_count = "camera", True, Fraction(30), None
        self.dropped = self.damaged = 0
        self._error = error

    def __iter__(self) -> Iterator[Image]:
        for _ in range(3):
            yield Image.from_array(np.zeros((48, 64, 3), np.uint8), "RGB")
        raise self._error

    def queue_depth(self) -> int:
        return 1

    def listen(self, callback: object) -> None:
        """A frame is there at any time."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(("error", "kept"), [(EnvironmentFault("silent"), True), (ValueError("a bug"), False)])
def test_a_camera_that_falls_silent_does_not_take_with_it_what_it_gave(
    work: Path, error: Exception, kept: bool
) -> None:
    source = Watched(Camera(error), "camera", "camera", "camera")  # type: ignore[arg-type]
    outputs, lines = (
        outputs_of("out.mp4", [source], force=False, inputs=[]),
        ResultLines(Path("out.jsonl"), force=False),
    )
    pipeline = Seq(lambda image: Seen({"kind": "semantic"}, np.asarray(image.to_numpy())))
    with pytest.raises(type(error)):
        run(pipeline, [source], outputs, StreamOptions(), lines=lines)
    assert sorted(path.name for path in work.iterdir()) == (["out.jsonl", "out.mp4"] if kept else [])
    if kept:
        assert len(frames_in(Path("out.mp4"))) == len(Path("out.jsonl").read_text().splitlines()) == 3


# ---- signals


def test_a_signal_waits_until_the_frame_is_written() -> None:
    order: list[str] = []

    def handle(number: int, _: object) -> None:
        order.append(f"signal {number == signal.SIGTERM}")
        raise KeyboardInterrupt(number)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            written_while_a_signal_comes(order)
        assert order == ["written", "signal True"]
        assert caught.value.args == (signal.SIGTERM,)
        assert signal.getsignal(signal.SIGTERM) is handle
    finally:
        signal.signal(signal.SIGTERM, before)


def written_while_a_signal_comes(order: list[str]) -> None:
    with Interrupts() as interrupts:
        with interrupts.held():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            order.append("written")
        order.append("never")


def test_a_signal_between_two_frames_comes_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupts():
        signal.raise_signal(signal.SIGINT)


def test_signals_are_left_alone_outside_of_the_main_thread() -> None:
    before = signal.getsignal(signal.SIGINT)
    found: list[object] = []

    def elsewhere() -> None:
        with Interrupts() as interrupts, interrupts.held():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [before]


# ---- names


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("http://camera/film.mp4", "camera-film"),
        ("rtsp://me:secret@10.0.0.5:554/cam.1", "10.0.0.5-554-cam.1"),
        ("https://camera/live.m3u8?token=1", "camera-live.m3u8"),
    ],
)
def test_an_address_gives_a_name_without_the_suffix_of_a_video(place: str, name: str) -> None:
    assert _short(place, Kind.NETWORK) == name


# ---- the pace


def test_the_frames_that_are_under_way_together_do_not_make_the_rate() -> None:
    pace = Pace(4, begun_s=10.0)
    for second in (12.0, 12.0, 12.0, 12.0, 13.0, 14.0):
        pace.add(second)
    assert pace.fps == 1.0


def test_behind_a_source_with_a_pace_what_is_made_up_for_is_not_the_rate(work: Path) -> None:
    pace = Pace(None, begun_s=10.0)
    for second in (12.0, 12.1, 12.2, 13.0, 14.0):  # a frame a second, of which the first ones waited for the model
        pace.add(second)
    assert pace.fps == 1.25
    name = str(video(work / "a.mp4", 1))
    assert [source.paced for source in opened([name, f"{name}@25", f"{name}@auto"])] == [False, True, True]


def test_of_fewer_frames_than_a_window_the_rate_is_that_of_the_whole_run() -> None:
    pace = Pace(4, begun_s=10.0)
    assert pace.fps is None
    for _ in range(3):
        pace.add(12.0)
    assert pace.fps == 1.5


def test_a_folder_is_made_with_its_first_file_and_goes_with_it(work: Path) -> None:
    sources = opened([str(video(work / "a.mp4", 1)), str(pictures(work / "pictures", 2))])
    made = outputs_of("deep/found", sources, force=False, inputs=[])
    assert not (work / "deep").exists()
    for output in made:
        output.write(None, seen())
    assert (work / "deep" / "found" / "pictures").is_dir()
    for output in reversed(made):
        output.discard()
    assert not (work / "deep" / "found").exists()
    for source in sources:
        source.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_lines_that_do_not_fit_their_disk_are_told_as_that(work: Path) -> None:
    lines = ResultLines(work / "out.jsonl", force=False)
    lines._file, lines._temporary = open("/dev/full", "w"), str(work / "temporary")  # noqa: SIM115
    lines.write(0, "a", 0, seen())
    with pytest.raises(EnvironmentFault, match="No space left"):
        lines.finish()


def test_a_picture_that_is_named_twice_is_read_twice_by_one_source(work: Path) -> None:
    picture = str(pictures(work / "pictures", 1) / "0.png")
    sources = opened([picture, picture])
    assert [source.total for source in sources] == [2]


def drawn(*names: str) -> list[Image]:
    return [Image.from_array(np.zeros((4, 4, 3), np.uint8), "RGB", name) for name in names]


def test_pictures_that_were_there_outlive_a_run_that_fails(work: Path) -> None:
    folder = pictures(work / "found", 2)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    files = PictureFiles(folder, force=True)
    for frame in drawn("0.jpg", "1.jpg"):
        files.write(frame, seen())
    files.discard()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_all_pictures_of_a_run_get_their_names_at_its_end(work: Path) -> None:
    files = PictureFiles(work / "found", force=False)
    for frame in drawn("0.jpg", "1.jpg", "a/x-000004.jpg", "a/x.jpg", "b/x.jpg"):
        files.write(frame, seen())
    files.finish()
    names = ["0.png", "1.png", "x-000004.png", "x-000005.png", "x.png"]
    assert sorted(path.name for path in (work / "found").iterdir()) == names
    assert (work / "found" / "0.png").stat().st_mode & 0o777 == 0o666 & ~umask()


def test_pictures_that_are_read_are_never_written_over(work: Path) -> None:
    folder = pictures(work / "pictures", 1)
    files = PictureFiles(folder, force=True, inputs=[folder])
    with pytest.raises(UsageError, match="is an input of this command"):
        files.write(drawn("pictures/0.png")[0], seen())
    files.discard()
    assert [path.name for path in folder.iterdir()] == ["0.png"]


def test_lines_that_a_full_disk_refuses_leave_nothing(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ResultLines(work / "out.jsonl", force=False)
    lines.write(0, "a", 0, seen())
    assert lines._file is not None
    os.dup2(os.open("/dev/full", os.O_WRONLY), lines._file.fileno())

    def many() -> None:
        for index in range(100_000):
            lines.write(0, "a", index, seen())

    with pytest.raises(EnvironmentFault, match="No space left") as caught:
        many()
    assert caught.value.code == "disk-full"
    lines.discard()
    assert list(work.iterdir()) == []
