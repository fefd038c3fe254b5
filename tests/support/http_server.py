"""A small HTTP server whose answers are a function of the test."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from email.message import Message


@dataclass(frozen=True)
class Asked:
    path: str
    headers: Message
    body: bytes


@dataclass(frozen=True)
class Answer:
    body: bytes
    status: int = 200
    headers: Mapping[str, str] | None = None


@contextmanager
def serving(answer: Callable[[Asked], Answer]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            given = answer(Asked(self.path, self.headers, body))
            self.send_response(given.status)
            length = {"Content-Length": str(len(given.body))}
            for name, value in {**(given.headers or {}), **length}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(given.body)

        do_GET = do_POST  # noqa: N815 - the library's form

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
