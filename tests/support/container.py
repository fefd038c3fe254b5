"""A container that reports its events to a test and waits until the test lets it continue.

Run as a program with PORT and STAGE (HOST:PORT of the test); standard library only, to start soon.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class EventConnection:
    """The connection to the test: sends events and receives permissions."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._permitted = threading.Semaphore(0)
        threading.Thread(target=self._listen, daemon=True).start()

    def tell(self, event: str) -> None:
        self._socket.sendall(json.dumps([event, os.getpid()]).encode() + b"\n")

    def wait(self) -> None:
        self._permitted.acquire()

    def _listen(self) -> None:
        while self._socket.recv(1):
            self._permitted.release()


class Handler(BaseHTTPRequestHandler):
    stage: EventConnection

    def do_GET(self) -> None:
        if self.path == "/held":
            self.stage.tell("held")
            self.stage.wait()
        if self.path == "/crash":
            os.kill(os.getpid(), signal.SIGKILL)
        self.send_response(200)
        self.send_header("X-Pid", str(os.getpid()))
        self.end_headers()
        self.wfile.write(self.path.encode())

    def log_message(self, *_arguments: object) -> None:
        pass


def main() -> None:
    stage = EventConnection(os.environ["STAGE"])
    stage.tell("started")
    broken = os.environ.get("BROKEN")
    if broken and Path(broken).exists():
        sys.exit("the settings are wrong")
    Handler.stage = stage
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)

    def stop(*_arguments: object) -> None:
        # Who dies with several threads tells its children so several times.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stage.tell("stopping")
        # In a thread, because the server's loop runs in this one; requests are answered first.
        threading.Thread(target=server.shutdown).start()

    server.daemon_threads = False
    signal.signal(signal.SIGTERM, stop)
    server.serve_forever(poll_interval=0.01)
    server.server_close()
    stage.tell("stopped")


if __name__ == "__main__":
    main()
