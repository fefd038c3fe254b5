"""A storage server that is really served, and its tests' collaborators."""

from __future__ import annotations

import asyncio
import base64
import queue
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import uvicorn
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from google.auth.crypt import RSASigner
from google.cloud import storage
from google.oauth2 import service_account
from starlette.requests import Request
from starlette.responses import JSONResponse

from infra.local.storage.app import create_app
from infra.local.storage.notifications import PublishPatience
from infra.local.storage.signed_urls import HmacKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pytest
    import requests
    from cryptography.hazmat.primitives.asymmetric import rsa
    from starlette.types import ASGIApp, Receive, Scope, Send

PROJECT = "local-project"
SITE = "https://site.example"
UPLOADER = "uploader@local-project.iam.gserviceaccount.com"
ACCESS_ID = "GOOG1EXAMPLEEXAMPLEEXAMPLEEXAMPLE"
SECRET = "a secret of forty characters, made up"
DEADLINE_S = 20
SOUND = b"sound" * 20
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Message:
    topic: str
    data: bytes
    attributes: dict[str, str]


class RecordingTopic:
    """Publishes into a queue, after a given number of failures."""

    def __init__(self) -> None:
        self._messages: queue.Queue[Message] = queue.Queue()
        self._failures_left = 0.0
        self._hangs_left = 0

    def fail(self, times: float) -> None:
        self._failures_left = times

    def hang(self, times: int) -> None:
        self._hangs_left = times

    async def publish(self, topic: str, data: bytes, attributes: Mapping[str, str]) -> None:
        await asyncio.sleep(0)
        if self._hangs_left > 0:
            self._hangs_left -= 1
            await asyncio.Event().wait()
        if self._failures_left > 0:
            self._failures_left -= 1
            raise ConnectionError("the topic is out of reach")
        self._messages.put(Message(topic, data, dict(attributes)))

    def next(self) -> Message:
        return self._messages.get(timeout=DEADLINE_S)

    def is_empty(self) -> bool:
        return self._messages.empty()


@dataclass
class ShiftedClock:
    """The real time plus an offset that a test sets."""

    ahead: timedelta = field(default_factory=timedelta)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass(frozen=True)
class Server:
    url: str
    root: Path
    clock: ShiftedClock
    topic: RecordingTopic

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    def contents(self) -> list[Path]:
        """The files that hold contents."""
        return [path for path in self.root.rglob("*") if path.is_file()]


def signing_without_a_key(app: ASGIApp, signers: Mapping[str, rsa.RSAPrivateKey]) -> ASGIApp:
    """Answer the IAM Credentials API's `signBlob`, as Google's server does, beside an app."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        account, _, method = scope.get("path", "").rpartition("/")[2].rpartition(":")
        if method != "signBlob":
            await app(scope, receive, send)
            return
        request = Request(scope, receive)
        answer = JSONResponse({"error": {"code": 403}}, 403)
        if account in signers and request.headers["authorization"].startswith("Bearer "):
            payload = base64.b64decode((await request.json())["payload"])
            signature = signers[account].sign(payload, PKCS1v15(), SHA256())
            answer = JSONResponse(
                {"keyId": "1", "signedBlob": base64.b64encode(signature).decode()}
            )
        await answer(scope, receive, send)

    return serve


@contextmanager
def served(
    root: Path, key: rsa.RSAPrivateKey, topic: RecordingTopic, clock: ShiftedClock | None = None
) -> Iterator[Server]:
    """Serve `root` on a free port of 127.0.0.1 while the block runs."""
    clock = clock or ShiftedClock()
    app = create_app(
        root=root,
        publish=topic.publish,
        keys={UPLOADER: key.public_key(), ACCESS_ID: HmacKey(SECRET)},
        now=clock,
        patience=PublishPatience(pause=0.05, attempt=1.0),
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        both = signing_without_a_key(app, {UPLOADER: key})
        config = uvicorn.Config(both, log_level="warning", lifespan="on", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            end = time.monotonic() + DEADLINE_S
            while not server.started:
                assert time.monotonic() < end
                time.sleep(0.01)
            port = listener.getsockname()[1]
            yield Server(f"http://127.0.0.1:{port}", root, clock, topic)
        finally:
            server.should_exit = True
            thread.join(DEADLINE_S)


@contextmanager
def connected(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The unmodified client library, configured for the server as users do it."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
    client = storage.Client(project=PROJECT)
    try:
        yield client
    finally:
        client.close()


def credentials_of(key: rsa.RSAPrivateKey, email: str = UPLOADER) -> service_account.Credentials:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return service_account.Credentials(
        signer=RSASigner.from_string(pem.decode()),
        service_account_email=email,
        token_uri="https://oauth2.example/token",
    )


def upload_url(blob: Any, credentials: Any, **changes: Any) -> tuple[str, dict[str, str]]:
    """A signed PUT as the API hands it to a browser, and the headers that go with it."""
    headers = {
        "x-goog-content-length-range": "1,1000",
        "x-goog-if-generation-match": "0",
    } | changes.pop("headers", {})
    options = {
        "version": "v4",
        "method": "PUT",
        "expiration": timedelta(minutes=5),
        "content_type": "audio/webm",
        "headers": dict(headers),
        "credentials": credentials,
    } | changes
    url = blob.generate_signed_url(**options)
    return url, headers | {"Content-Type": options["content_type"]}


def download_url(blob: Any, credentials: Any, **changes: Any) -> str:
    options = {
        "version": "v4",
        "method": "GET",
        "expiration": timedelta(minutes=5),
        "credentials": credentials,
    } | changes
    url: str = blob.generate_signed_url(**options)
    return url


@dataclass(frozen=True)
class SignedAddressUser:
    """Uses signed addresses of the bucket `uploads`, as a page does."""

    bucket: Any
    credentials: Any
    http: requests.Session

    def put(
        self,
        data: Any = SOUND,
        name: str = "a",
        signed: Mapping[str, str] = NOTHING,
        sent: Mapping[str, str] = NOTHING,
    ) -> requests.Response:
        """Send a recording to a signed address; `sent` replaces headers after the signature."""
        url, headers = upload_url(self.bucket.blob(name), self.credentials, headers=dict(signed))
        return self.http.put(url, data=data, headers={**headers, **sent})

    def url(self, name: str = "a", content: bytes | None = None, **changes: Any) -> str:
        """Sign a download, after writing the content if one is given."""
        blob = self.bucket.blob(name)
        if content is not None:
            blob.upload_from_string(content, content_type="audio/wav")
        return download_url(blob, self.credentials, **changes)

    def get(self, url: str, **headers: str) -> requests.Response:
        return self.http.get(url, headers=headers)


def altered(url: str, without: str = "", **parameters: str) -> str:
    """Replace or add parameters of a URL, or remove one."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query)) | parameters
    query.pop(without, None)
    return parts._replace(query=urlencode(query)).geturl()


def send_part(method: str, url: str, headers: Mapping[str, str], length: int, data: bytes) -> None:
    """Announce `length` bytes, send `data`, and go away."""
    parts = urlsplit(url)
    lines = {"Host": parts.netloc, **headers, "Content-Length": str(length)}
    head = f"{method} {parts.path}?{parts.query} HTTP/1.1\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as connection:
        connection.sendall(f"{head}\r\n".encode() + data)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1000):
            pass


def error_code(response: Any) -> str:
    text: str = response.text
    assert response.headers["content-type"].startswith("application/xml")
    return text.partition("<Code>")[2].partition("</Code>")[0]
