"""An HTTPS proxy that stands in for Google's IAM and forwards everything to a server."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.tokens import Issuer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IAM = "iamcredentials.googleapis.com"


@dataclass(frozen=True)
class TlsProxy:
    """The proxy's address, and the certificate that its clients must trust."""

    url: str
    certificate: Path


@contextmanager
def tls_proxy(target: tuple[str, int], folder: Path) -> Iterator[TlsProxy]:
    """Forward requests to IAM to `target` while the block runs."""
    issuer = Issuer(IAM)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_text(issuer.certificate)
    key.write_text(issuer.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            asked = _read_head(self.request)
            if not asked.startswith(f"CONNECT {IAM}:443 ".encode()):
                return
            self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            with suppress(OSError), context.wrap_socket(self.request, server_side=True) as client:
                head = _read_head(client)
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                body = b""
                while len(body) < length:
                    body += client.recv(65_536)
                client.sendall(_ask(target, head, body))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield TlsProxy(f"http://127.0.0.1:{server.server_address[1]}", certificate)
        finally:
            server.shutdown()
            thread.join()


def _read_head(source: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = source.recv(1)
        if not byte:
            break
        head += byte
    return head


def _ask(target: tuple[str, int], head: bytes, body: bytes) -> bytes:
    lines = [
        line
        for line in head.split(b"\r\n")
        if not line.lower().startswith((b"host:", b"connection:"))
    ]
    lines.insert(1, b"Host: 127.0.0.1\r\nConnection: close")
    with socket.create_connection(target) as server:
        server.sendall(b"\r\n".join(lines) + body)
        answer = b""
        while data := server.recv(65_536):
            answer += data
    return answer
