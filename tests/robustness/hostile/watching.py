"""A file that must not be opened and a port that must not be used, and who did it."""

from __future__ import annotations

import ctypes
import os
import socket
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.integration.audio.recordings import recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# inotify(7): every way to read or change the contents of a folder.
IN_ALL_EVENTS = 0xFFF


@dataclass(frozen=True)
class Lures:
    """A file and a port that hostile recordings refer to."""

    file: Path
    port: int
    _inotify: int
    _listener: socket.socket
    _datagrams: socket.socket

    def addresses(self) -> tuple[str, ...]:
        """Every spelling of an address that FFmpeg's protocols know, of the file and the server."""
        web = f"//127.0.0.1:{self.port}/a"
        return (
            *(str(self.file), f"file:{self.file}", f"file://{self.file}", f"../{self.file.name}"),
            *(f"concat:{self.file}|{self.file}", f"subfile,,start,0,end,0,,:{self.file}"),
            *(f"crypto:{self.file}", f"cache:{self.file}", f"async:file:{self.file}"),
            *(f"{protocol}:{web}" for protocol in ("http", "https", "tcp", "udp", "ftp", "rtmp")),
            *(f"{protocol}:{web}" for protocol in ("rtsp", "rtp", "tls", "hls+http", "mmsh")),
        )

    def touched(self) -> list[str]:
        """Tell what has happened to the file and the port since the last call."""
        happened = []
        with suppress(BlockingIOError):
            happened.append(f"{self.file} was touched: {os.read(self._inotify, 4096).hex()}")
        with suppress(BlockingIOError):
            connection, peer = self._listener.accept()
            connection.close()
            happened.append(f"{peer} has connected")
        with suppress(BlockingIOError):
            happened.append(f"{self._datagrams.recvfrom(1)[1]} has sent a datagram")
        return happened


@contextmanager
def lures(folder: Path) -> Iterator[Lures]:
    """Create the file, listen at the port and watch both (Linux only)."""
    file = folder / "canary.wav"
    file.write_bytes(recording("16-bit wav"))
    libc = ctypes.CDLL(None, use_errno=True)
    inotify = libc.inotify_init1(os.O_NONBLOCK)
    watch = libc.inotify_add_watch(inotify, os.fsencode(folder), IN_ALL_EVENTS)
    if min(inotify, watch) < 0:
        raise OSError(ctypes.get_errno(), "the file cannot be watched")
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(type=socket.SOCK_DGRAM) as datagrams,
    ):
        datagrams.bind(listener.getsockname())
        for each in (listener, datagrams):
            each.setblocking(False)
        try:
            yield Lures(file, listener.getsockname()[1], inotify, listener, datagrams)
        finally:
            os.close(inotify)
