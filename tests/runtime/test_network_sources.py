"""Videos and cameras over HTTP and RTSP, served by the test: files are whole, live ones drop, lists are confined."""

from __future__ import annotations

import functools
import http.server
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import cv2
import pytest

from axtool.errors import EnvironmentFault, UsageError
from axtool.runtime import cv, op
from axtool.runtime.cv.address import address_of
from axtool.runtime.cv.opening import within
from tests.runtime.rtsp_camera import RtspCamera
from tests.runtime.videos import encode, picture, shade_of, shades, threads


class Site(http.server.SimpleHTTPRequestHandler):
    """The files of a folder, and /camera: MJPEG as cameras send it, until nobody listens."""

    def do_GET(self) -> None:
        if self.path != "/camera":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        self.end_headers()
        try:
            for index in range(2000):
                data = cv2.imencode(".jpg", picture(20 + index % 200))[1].tobytes()
                head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(data)}\r\n\r\n"
                self.wfile.write(head.encode() + data + b"\r\n")
                time.sleep(0.005)
        except OSError:
            return

    def log_message(self, *_: Any) -> None:
        """Nothing on stderr."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    handler = functools.partial(Site, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_a_video_of_a_server_is_a_file_and_every_frame_comes(tmp_path: Path, site: str, suffix: str) -> None:
    wanted = shades(20)
    encode(tmp_path / f"x.{suffix}", [picture(shade) for shade in wanted])
    with cv.create_source(f"{site}/x.{suffix}", buffer_size=2, timeout_s=5) as source:
        assert not source.live
        assert [shade_of(frame) for frame in source] == pytest.approx(wanted, abs=4)
        assert source.dropped == 0


def test_a_playlist_with_an_end_is_a_file_of_all_its_parts(tmp_path: Path, site: str) -> None:
    wanted = shades(40)
    options = {"hls_time": "0.5", "hls_list_size": "0"}
    encode(tmp_path / "x.m3u8", [picture(shade) for shade in wanted], fps=20, format="hls", options={"g": "10"},
           container_options=options)  # fmt: skip
    assert len(list(tmp_path.glob("*.ts"))) > 2
    with cv.create_source(f"{site}/x.m3u8", timeout_s=5) as source:
        assert not source.live
        assert [shade_of(frame) for frame in source] == pytest.approx(wanted, abs=5)


@pytest.mark.parametrize("scheme", ["http", "mjpeg"])
def test_a_camera_that_sends_jpegs_is_live(site: str, scheme: str) -> None:
    with cv.create_source(f"{scheme}{site.removeprefix('http')}/camera", buffer_size=2, timeout_s=5) as source:
        assert (source.live, source.frame_count) == (True, None)
        first = shade_of(next(source))
        time.sleep(0.3)
        assert source.dropped > 5
        assert shade_of(next(source)) > first + 5


@pytest.mark.parametrize(
    "text",
    [
        "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile://{file}\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile {file}\n",
        "ffconcat version 1.0\nfile file:{file}\n",
    ],
)
def test_a_server_cannot_have_local_files_read(tmp_path: Path, site: str, text: str) -> None:
    secret = encode(tmp_path / "secret.ts", [picture(9)] * 5)
    with av.open(str(secret)) as readable:
        assert readable.streams.video
    (tmp_path / "x.m3u8").write_text(text.format(file=secret))
    with pytest.raises(EnvironmentFault, match="the address cannot be opened"):
        cv.create_source(f"{site}/x.m3u8", timeout_s=5)


def test_an_answer_without_a_video_is_an_error_that_has_its_reason(tmp_path: Path, site: str) -> None:
    (tmp_path / "page.html").write_text("<html>no video</html>")
    with pytest.raises(EnvironmentFault, match="404 Not Found"):
        cv.create_source(f"{site}/missing.mp4", timeout_s=5)
    with pytest.raises(EnvironmentFault, match="the address cannot be opened: Invalid data"):
        cv.create_source(f"{site}/page.html", timeout_s=5)


def test_a_camera_over_rtsp_gives_its_frames_and_hides_its_password() -> None:
    with RtspCamera() as camera, cv.create_source(camera.url, buffer_size=5, timeout_s=5) as source:
        assert source.live
        assert "secret" not in source.name + repr(source)
        seen = [shade_of(next(source)) for _ in range(20)]
        assert seen == sorted(seen)
        assert seen[-1] - seen[0] > 10
        before = source.dropped
        time.sleep(0.3)
        assert source.dropped > before + 5


def test_a_camera_that_falls_silent_is_an_error_and_one_that_hangs_up_is_an_end() -> None:
    with RtspCamera() as camera:
        with cv.create_source(camera.url, timeout_s=1.5) as source:
            next(source)
            camera.mute.set()
            start = time.monotonic()
            with pytest.raises(EnvironmentFault, match=r"no frame came for 1\.5 s|broke off") as caught:
                list(source)
            assert 1 < time.monotonic() - start < 10
            assert "secret" not in str(caught.value)
        camera.mute.clear()
    with RtspCamera() as camera, cv.create_source(camera.url, timeout_s=5) as source:
        next(source)
        camera.hang_up.set()
        assert all(shade_of(frame) > 0 for frame in source)
        assert source.ended


def test_a_stream_over_rtsp_is_left_without_a_thread() -> None:
    before = threads()
    with RtspCamera() as camera:
        results = op.seq(shade_of).stream(camera.url)
        seen = [next(results)[1] for _ in range(15)]  # type: ignore[call-overload]
        results.close()  # type: ignore[attr-defined]
        assert seen == sorted(seen)
        assert threads() <= before


def test_ctrl_c_is_heard_while_an_address_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"rtsp://127.0.0.1:{server.getsockname()[1]}/x"
        code = f"from axtool.runtime import cv; print('begun', flush=True); cv.create_source({url!r}, timeout_s=60)"
        program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert program.stdout is not None
        assert program.stdout.readline() == b"begun\n"
        with server.accept()[0]:
            time.sleep(0.2)
            start = time.monotonic()
            program.send_signal(signal.SIGINT)
            _, said = program.communicate(timeout=30)
        assert time.monotonic() - start < 10
        assert program.returncode != 0
        assert b"KeyboardInterrupt" in said


def test_what_is_opened_too_late_is_closed_again() -> None:
    go, undone = threading.Event(), threading.Event()

    def work() -> str:
        assert go.wait(5)
        return "a camera"

    with pytest.raises(TimeoutError):
        within(0.01, work, lambda made: undone.set())
    assert not undone.is_set()
    go.set()
    assert undone.wait(5)


def test_what_opening_raises_is_raised() -> None:
    with pytest.raises(KeyError, match="why"):
        within(5, lambda: {}["why"], lambda made: None)
    assert within(5, lambda: 3, lambda made: None) == 3


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("rtsp://user:se@cret@10.0.0.1/x", "rtsp://user:***@10.0.0.1/x"),
        ("rtsp://user:se/cret@10.0.0.1:554/x", "rtsp://user:***@10.0.0.1:554/x"),
        ("rtsp://user:99@10.0.0.1", "rtsp://user:***@10.0.0.1"),
        ("RTSP://user:secret@10.0.0.1/x", "rtsp://user:***@10.0.0.1/x"),
        ("http://10.0.0.1:8080/a@b.mp4", "http://10.0.0.1:8080/a@b.mp4"),
        ("http://10.0.0.1/x?user=a&password=secret&b=1", "http://10.0.0.1/x?user=a&password=***&b=1"),
        ("rtsp://10.0.0.1/user=a_password=secret_channel=1", "rtsp://10.0.0.1/user=a_password=***"),
        ("http://10.0.0.1/x?author=me", "http://10.0.0.1/x?author=me"),
    ],
)
def test_no_way_to_write_a_password_shows_it(address: str, shown: str) -> None:
    assert address_of(address).shown == shown


def test_the_cause_of_an_error_does_not_show_the_password_in_a_traceback() -> None:
    with pytest.raises(EnvironmentFault) as caught:
        cv.create_source("rtsp://user:secret@127.0.0.1:1/x", timeout_s=5)
    told = "".join(traceback.format_exception(caught.value, limit=0))
    assert "Connection refused" in told
    assert "secret" not in told


@pytest.mark.parametrize("address", ["file://elsewhere/tmp/x.mp4", "rtsp://", "http:///"])
def test_an_address_that_names_no_place_is_refused_before_it_is_opened(address: str) -> None:
    with pytest.raises(UsageError):
        address_of(address)
