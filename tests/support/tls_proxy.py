"""An HTTPS proxy that stands in for Google's IAM and forwards everything to a server."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

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
    certificate, key = _make_certificate(folder)
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


def _make_certificate(folder: Path) -> tuple[Path, Path]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, IAM)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(IAM)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate_path, key_path = folder / "certificate.pem", folder / "key.pem"
    certificate_path.write_bytes(made.public_bytes(Encoding.PEM))
    form = (Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    key_path.write_bytes(key.private_bytes(*form))
    return certificate_path, key_path
