"""A camera for tests: a small RTSP server that plays MPEG-TS over RTP inside the TCP connection (RFC 2326, 2250)."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Any

import av

from tests.runtime.videos import picture

_TS_PACKET = 188
_SESSION = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=camera\r\nt=0 0\r\nm=video 0 RTP/AVP 33\r\na=control:track\r\n"


class RtspCamera:
    """Serves one client after another at `url`: frames of growing shades, `fps` a second, until it is stopped.

    `mute` keeps the connection and sends nothing more; `hang_up` closes it.
    """

    def __init__(self, fps: int = 100) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"rtsp://user:secret@127.0.0.1:{self._server.getsockname()[1]}/live"
        self.stop, self.mute, self.hang_up = threading.Event(), threading.Event(), threading.Event()
        self._fps = fps
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> RtspCamera:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.hang_up.set()
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _serve(self) -> None:
        while not self.stop.is_set():
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with client, suppress(OSError):
                self._talk(client)

    def _talk(self, client: socket.socket) -> None:
        with client.makefile("rb") as words:
            while (line := words.readline().decode()) and not self.stop.is_set():
                method, headers = line.split(" ")[0], dict[str, str]()
                while (header := words.readline().decode().strip()) != "":
                    key, _, value = header.partition(": ")
                    headers[key.lower()] = value
                body = _SESSION if method == "DESCRIBE" else ""
                more = {
                    "OPTIONS": "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN\r\n",
                    "DESCRIBE": "Content-Type: application/sdp\r\n",
                    "SETUP": "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n",
                }.get(method, "")
                answer = f"RTSP/1.0 200 OK\r\nCSeq: {headers.get('cseq', '0')}\r\nSession: 1\r\n{more}"
                client.sendall(f"{answer}Content-Length: {len(body)}\r\n\r\n{body}".encode())
                if method == "PLAY":
                    self._play(client)
                if method in ("PLAY", "TEARDOWN"):
                    return

    def _play(self, client: socket.socket) -> None:
        sender = _Packets(client)
        try:
            with av.open(sender, "w", format="mpegts") as container:
                options = {"tune": "zerolatency", "preset": "ultrafast", "g": "5"}
                stream = container.add_stream("libx264", rate=self._fps, options=options)
                stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
                index = 0
                while not self.hang_up.wait(1 / self._fps):
                    if self.mute.is_set():
                        continue
                    frame = av.VideoFrame.from_ndarray(picture(20 + index % 200), format="rgb24")
                    frame.pts, index = index, index + 1
                    container.mux(stream.encode(frame))
        except (OSError, av.FFmpegError):  # the client has left
            return


class _Packets:
    """A file whose bytes, MPEG-TS, go out as RTP packets inside an RTSP connection."""

    def __init__(self, client: socket.socket) -> None:
        self._client, self._waiting, self._number = client, b"", 0

    def write(self, data: Any) -> int:
        self._waiting += bytes(data)
        while len(self._waiting) >= _TS_PACKET:
            whole = min(7, len(self._waiting) // _TS_PACKET) * _TS_PACKET
            part, self._waiting = self._waiting[:whole], self._waiting[whole:]
            packet = struct.pack(">BBHII", 0x80, 33, self._number & 0xFFFF, self._number * 900, 7) + part
            self._client.sendall(struct.pack(">cBH", b"$", 0, len(packet)) + packet)
            self._number += 1
        return len(data)
