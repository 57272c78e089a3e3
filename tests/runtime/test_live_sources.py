"""Live sources: they drop what nobody takes and count it, a file waits; silence and hangs end in bounded time."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from axtool.errors import AxError, EnvironmentFault
from axtool.runtime import cv, op
from axtool.runtime.cv import address
from axtool.runtime.cv import feed as feeds
from axtool.runtime.cv.feed import END, Feed
from tests.runtime.videos import encode, picture, shade_of, shades, threads

SOON_S = 5.0  # more than anything here takes, less than somebody waits


def until(true: object, what: str) -> None:
    """Wait for a condition. Fails after SOON_S."""
    deadline = time.monotonic() + SOON_S
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.002)


class Hanging:
    """Gives two frames, then nothing until `release` is set."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def __iter__(self) -> Iterator[int]:
        yield 0
        yield 1
        self.release.wait(60)


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Sender:
    """A camera: MPEG-TS over UDP on this machine, `fps` frames a second of growing shades, until `stop`."""

    def __init__(self, fps: int = 60, frames: int = 600) -> None:
        self.url = f"udp://127.0.0.1:{free_port()}"
        self.stop = threading.Event()
        self._fps, self._frames = fps, frames
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join()

    def _send(self) -> None:
        import av

        options = {"tune": "zerolatency", "preset": "ultrafast", "g": "5"}
        with av.open(f"{self.url}?pkt_size=1316", "w", format="mpegts") as container:
            stream = container.add_stream("libx264", rate=self._fps, options=options)
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
            for index in range(self._frames):
                frame = av.VideoFrame.from_ndarray(picture(20 + index % 200), format="rgb24")
                frame.pts = index
                container.mux(stream.encode(frame))
                if self.stop.wait(1 / self._fps):
                    return


def test_a_live_source_drops_the_oldest_frames_and_counts_them() -> None:
    taken = threading.Event()

    def frames() -> Iterator[int]:
        yield from range(10)
        taken.wait(60)
        yield 10

    with cv.create_source(frames(), buffer_size=4, live_source=True) as source:
        until(lambda: source.dropped == 6, "six drops")
        assert (source.queue_depth(), source.live, source.frame_count) == (4, True, None)
        assert [next(source) for _ in range(4)] == [6, 7, 8, 9]
        taken.set()
        assert list(source) == [10]
        assert source.dropped == 6


def test_a_file_waits_until_its_frames_are_taken(tmp_path: Path) -> None:
    wanted = shades(20)
    path = encode(tmp_path / "x.mp4", [picture(shade) for shade in wanted])
    with cv.create_source(path, buffer_size=3) as source:
        seen = [shade_of(next(source))]
        until(lambda: source.queue_depth() == 3, "a full buffer")
        time.sleep(0.05)
        assert source.queue_depth() == 3
        seen += [shade_of(frame) for frame in source]
    assert seen == pytest.approx(wanted, abs=4)
    assert source.dropped == 0


def test_a_file_may_play_the_camera(tmp_path: Path) -> None:
    path = encode(tmp_path / "x.mp4", [picture(shade) for shade in shades(20)])
    with cv.create_source(path, buffer_size=2, live_source=True) as source:
        until(lambda: source.dropped == 18, "the drops of a file that nobody reads")
        assert len(list(source)) == 2


def test_a_camera_over_udp_is_live_and_gives_what_is_sent_now() -> None:
    with Sender() as sender, cv.create_source(sender.url, buffer_size=3, timeout_s=SOON_S) as source:
        assert (source.live, source.fps, source.frame_count) == (True, Fraction(60), None)
        first = shade_of(next(source))
        until(lambda: source.dropped > 20, "frames that nobody takes")
        later = [shade_of(next(source)) for _ in range(3)]
        assert later[0] - first > 15  # the old ones are gone
        assert later == pytest.approx([later[0], later[0] + 1, later[0] + 2], abs=2)


def test_a_stream_over_udp_runs_until_it_is_left() -> None:
    before = threads()
    with Sender(fps=100) as sender:
        source = cv.create_source(sender.url, timeout_s=SOON_S)
        results = op.seq(shade_of).stream(source)
        seen = [next(results)[1] for _ in range(20)]
        results.close()  # type: ignore[attr-defined]
        source.close()
    assert len(set(seen)) > 10
    until(lambda: threads() <= before, "the threads to end")


def test_silence_behind_some_frames_is_an_error_that_says_where() -> None:
    with Sender() as sender, cv.create_source(sender.url, timeout_s=1.0) as source:
        next(source)
        sender.stop.set()
        with pytest.raises(EnvironmentFault, match=r"no frame came for 1 s|broke off: nothing came in time") as caught:
            for _ in source:
                pass
        assert (caught.value.where, caught.value.code) == (sender.url, "source-silent")
        assert "timeout_s" in caught.value.hint


@pytest.mark.parametrize("url", ["udp://127.0.0.1:{port}", "rtp://127.0.0.1:{port}"])
def test_an_address_where_nothing_comes_is_an_error_in_time(url: str) -> None:
    start = time.monotonic()
    with pytest.raises(EnvironmentFault, match="cannot be opened: nothing came in time"):
        cv.create_source(url.format(port=free_port()), timeout_s=0.3)
    assert time.monotonic() - start < SOON_S


@pytest.mark.parametrize("url", ["rtsp://user:secret@127.0.0.1:1/x", "http://127.0.0.1:1/x.mp4", "tcp://127.0.0.1:1"])
def test_an_address_that_refuses_is_an_error_without_the_password(url: str) -> None:
    with pytest.raises(EnvironmentFault, match="the address cannot be opened: Connection refused") as caught:
        cv.create_source(url, timeout_s=2)
    assert "secret" not in str(caught.value)
    assert "127.0.0.1:1" in caught.value.where


def test_a_server_that_accepts_and_says_nothing_is_an_error_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        start = time.monotonic()
        with pytest.raises(EnvironmentFault, match="nothing came in time"):
            cv.create_source(f"rtsp://127.0.0.1:{server.getsockname()[1]}/x", timeout_s=0.4)
        assert time.monotonic() - start < SOON_S


def test_a_live_source_that_hangs_is_an_error_for_who_waits() -> None:
    hanging = Hanging()
    source = cv.create_source(hanging, live_source=True, timeout_s=0.2)
    assert [next(source), next(source)] == [0, 1]
    with pytest.raises(EnvironmentFault, match=r"Hanging: no frame came for 0\.2 s"):
        next(source)
    hanging.release.set()
    source.close()


def test_a_source_that_hangs_is_closed_in_bounded_time_and_ends_when_it_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before, hanging = threads(), Hanging()
    source = cv.create_source(hanging)
    assert [next(source), next(source)] == [0, 1]
    start = time.monotonic()
    source.close()
    assert 1 < time.monotonic() - start < SOON_S
    assert "Hanging does not answer" in caplog.text
    assert not threads() <= before
    hanging.release.set()
    until(lambda: threads() <= before, "the thread to end")


def test_closing_from_another_thread_wakes_who_waits_for_a_frame() -> None:
    hanging = Hanging()
    source = cv.create_source(hanging)
    seen: list[int] = []
    reader = threading.Thread(target=lambda: seen.extend(source))
    reader.start()
    until(lambda: len(seen) == 2, "two frames")
    hanging.release.set()
    source.close()
    reader.join(SOON_S)
    assert not reader.is_alive()


def test_a_source_is_started_closed_and_read_by_many_threads_at_once(tmp_path: Path) -> None:
    before = threads()
    path = encode(tmp_path / "x.mp4", [picture(9)] * 5)
    failed: list[object] = []
    caught, threading.excepthook = threading.excepthook, failed.append
    try:
        for episode in range(60):
            source = cv.create_source(path, buffer_size=1 + episode % 3, live_source=episode % 2 == 0)
            works = [lambda source=source: list(source), source.close, lambda source=source: next(source, None)]
            workers = [threading.Thread(target=work) for work in works * 2]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join(SOON_S)
                assert not worker.is_alive()
    finally:
        threading.excepthook = caught
    said = [str(one.exc_value) for one in failed]  # type: ignore[attr-defined]
    assert all("is closed or has given its last frame" in text for text in said), said
    assert threads() <= before


def test_two_readers_of_one_source_share_its_frames() -> None:
    source, seen = cv.create_source(range(5000)), [list[int](), list[int]()]
    readers = [threading.Thread(target=lambda one=one: one.extend(source)) for one in seen]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(SOON_S)
        assert not reader.is_alive()
    assert sorted(seen[0] + seen[1]) == list(range(5000))


def test_a_source_may_be_closed_by_its_own_events() -> None:
    sources: list[cv.VideoSource] = []
    sources.append(cv.create_source(range(5), lambda event: sources[0].close() if event.kind == "opened" else None))
    assert list(sources[0]) == []


@pytest.mark.parametrize("live", [True, False])
def test_an_error_of_the_source_comes_behind_its_frames_once(live: bool) -> None:
    def frames() -> Iterator[int]:
        yield 1
        raise OSError("the cable is out")

    source = cv.create_source(frames(), live_source=live)
    assert next(source) == 1
    with pytest.raises(OSError, match="the cable is out"):
        next(source)
    assert next(source, None) is None
    assert source.ended


def test_events_tell_what_happens_in_a_source(tmp_path: Path) -> None:
    events: list[cv.SourceEvent] = []
    list(cv.create_source([1, 2, 3], events.append))
    assert [(event.kind, event.count) for event in events] == [("opened", 0), ("ended", 3)]

    def failing() -> Iterator[int]:
        yield from range(3)
        raise ValueError("no more")

    events.clear()
    source = cv.create_source(failing(), events.append, buffer_size=1, live_source=True)
    with pytest.raises(ValueError, match="no more"):
        until(lambda: source.queue_depth() == 0 or list(source), "the error")
    kinds = [(event.kind, event.count, event.text) for event in events]
    assert kinds[0] == ("opened", 0, "")
    assert ("failed", 3, "no more") in kinds


def test_a_callback_that_raises_ends_the_source_with_its_error() -> None:
    def refuse(event: cv.SourceEvent) -> None:
        raise KeyError(event.kind)

    with pytest.raises(KeyError, match="opened"):
        next(cv.create_source([1], refuse))


def test_who_listens_is_told_of_frames_and_of_the_end() -> None:
    told = threading.Semaphore(0)
    source = cv.create_source([1, 2])
    source.listen(told.release)
    iter(source)
    for wanted in (1, 2, None):
        assert told.acquire(timeout=SOON_S)
        assert next(source, None) == wanted


def test_a_camera_that_is_missing_is_named_beside_those_there_are() -> None:
    with pytest.raises(AxError, match="/dev/video77: there is no such camera") as caught:
        cv.create_source("/dev/video77")
    assert caught.value.code == "no-camera"
    assert "there are /dev/video" in caught.value.hint or "shows none" in caught.value.hint


@pytest.mark.parametrize("backend", ["ffmpeg", "opencv"])
def test_a_camera_that_cannot_be_opened_says_what_may_hold_it(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    monkeypatch.setattr(address, "_exists", lambda path: True)  # it was pulled out behind the first look
    with pytest.raises(EnvironmentFault, match=r"cannot be opened|cannot open it") as caught:
        cv.create_source("/dev/video77", backend=backend)
    assert (caught.value.where, caught.value.code) == ("/dev/video77", "no-camera")
    assert "hold" in caught.value.hint


def test_buffers_share_the_memory_for_frames_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "MOST_BYTES", 6 * picture(1).nbytes)
    first, second = Feed(30, live=False), Feed(30, live=False)
    first.start(lambda: iter([picture(1)] * 12), "source first")
    until(lambda: first.depth() == 6, "all that the memory holds")
    second.start(lambda: iter([picture(1)] * 12), "source second")
    until(lambda: second.depth() == 3, "its half")
    for feed in (first, second):
        assert sum(feed.get(SOON_S) is not END for _ in range(12)) == 12
        assert feed.get(SOON_S) is END


def test_a_frame_that_is_larger_than_the_memory_comes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "MOST_BYTES", 1)
    with cv.create_source([picture(1)] * 4) as source:
        next(source)
        until(lambda: source.queue_depth() == 1, "the next one")
        time.sleep(0.02)
        assert source.queue_depth() == 1
        assert len(list(source)) == 2 + 1


def test_a_program_ends_while_its_camera_is_silent() -> None:
    code = (
        "import sys, threading\n"
        "from axtool.runtime import cv\n"
        "def frames():\n"
        "    yield 1\n"
        "    threading.Event().wait(60)\n"
        "source = cv.create_source(frames(), live_source=True)\n"
        "print(next(source))"
    )
    start = time.monotonic()
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "1\n", "")
    assert time.monotonic() - start < 20
