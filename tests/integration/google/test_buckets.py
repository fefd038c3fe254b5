"""The adapter to Cloud Storage against the local cloud's storage server."""

from __future__ import annotations

import asyncio
import gzip
import io
import threading
import zlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.credentials import AnonymousCredentials, Credentials
from google.cloud import storage

from infra.local.configuration.names import Ports
from shared.google.storage import CloudStorageBucket, Signer
from shared.voices.objects import ObjectMissingError, StorageUnavailableError
from tests.integration.storage.serving import (
    UPLOADER,
    RecordingTopic,
    Server,
    connected,
    credentials_of,
    error_code,
    served,
)
from tests.support.bucket_contract import MINUTE, BucketContract, write
from tests.support.tls_proxy import tls_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def server(tmp_path: Path, key: rsa.RSAPrivateKey) -> Iterator[Server]:
    with served(tmp_path / "storage", key, RecordingTopic()) as running:
        yield running


@pytest.fixture
def client(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with connected(server, monkeypatch) as opened:
        opened.create_bucket("uploads")
        yield opened


@pytest.fixture
def bucket(client: Any, key: rsa.RSAPrivateKey) -> CloudStorageBucket:
    return CloudStorageBucket(client, "uploads", Signer(credentials_of(key)))


async def put(upload: Any, content: bytes, **changes: str) -> requests.Response:
    return await asyncio.to_thread(
        requests.put, upload.url, data=content, headers=dict(upload.headers) | changes, timeout=20
    )


class TestCloudStorageBucket(BucketContract):
    """The contract, on the fixture `bucket` of this module."""


async def test_the_notification_of_a_written_object_has_its_metadata(
    client: Any, bucket: CloudStorageBucket
) -> None:
    content = io.BytesIO(b"sound")
    await bucket.write("a", content, content_type="audio/ogg", metadata={"way": "live"})

    assert client.bucket("uploads").get_blob("a").metadata == {"way": "live"}


async def test_a_signed_upload_works_once_as_signed(bucket: CloudStorageBucket) -> None:
    upload = await bucket.sign_upload(
        "a", content_type="audio/webm;codecs=opus", max_bytes=10, lifetime=MINUTE
    )

    assert (await put(upload, b"01234567890")).status_code == 400
    changed = await put(upload, b"sound", **{"Content-Type": "audio/wav"})
    assert (changed.status_code, error_code(changed)) == (403, "SignatureDoesNotMatch")
    assert (await put(upload, b"sound")).status_code == 200
    assert (await put(upload, b"again")).status_code == 412

    facts = await bucket.find("a")
    assert (facts.content_type, facts.bytes) == ("audio/webm;codecs=opus", 5)


@pytest.mark.parametrize(
    ("coding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
async def test_what_says_that_it_is_compressed_is_read_as_it_is_stored(
    bucket: CloudStorageBucket, coding: str, compress: Callable[[bytes], bytes]
) -> None:
    bomb, limit = compress(bytes(1_000_000)), 10_000
    upload = await bucket.sign_upload(
        "a", content_type="audio/webm", max_bytes=limit, lifetime=MINUTE
    )
    assert (await put(upload, bomb, **{"Content-Encoding": coding})).status_code == 200

    facts = await bucket.find("a")

    assert facts.bytes == len(bomb) < limit
    assert await bucket.read("a", facts.generation, max_bytes=limit) == bomb


async def test_signed_addresses_are_refused_when_they_have_expired(
    bucket: CloudStorageBucket, server: Server
) -> None:
    await write(bucket, "v/1.wav")
    upload = await bucket.sign_upload("a", content_type="audio/webm", max_bytes=10, lifetime=MINUTE)
    url, expires_at = await bucket.sign_download("v/1.wav", lifetime=MINUTE, filename="mei.wav")
    server.clock.ahead = 2 * MINUTE

    late = [await put(upload, b"sound"), await asyncio.to_thread(requests.get, url, timeout=20)]

    assert [(each.status_code, error_code(each)) for each in late] == [(400, "ExpiredToken")] * 2
    assert expires_at <= server.clock()
    server.clock.ahead = timedelta(0)
    assert (await put(upload, b"sound")).status_code == 200


async def test_a_signed_download_names_the_file(bucket: CloudStorageBucket) -> None:
    await write(bucket, "v/1.wav")

    url, _ = await bucket.sign_download("v/1.wav", lifetime=MINUTE, filename="mei.wav")

    response = await asyncio.to_thread(requests.get, url, timeout=20)
    assert (response.status_code, response.content) == (200, b"sound")
    assert response.headers["content-disposition"] == 'inline; filename="mei.wav"'


class AccountOnTheServer(Credentials):
    """What a service account has on Google's machines: a token that must be renewed, no key."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.refreshes = 0

    def refresh(self, request: object) -> None:
        assert request is not None
        self.refreshes += 1
        self.token = f"token-{self.refreshes}"

    def expire(self) -> None:
        self.token = None


async def test_without_a_key_iam_signs_and_the_token_is_renewed_only_when_needed(
    *, client: Any, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _, port = server.host.partition(":")
    account = AccountOnTheServer()
    bucket = CloudStorageBucket(client, "uploads", Signer(account, UPLOADER))
    with tls_proxy((host, int(port)), tmp_path) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(proxy.certificate))
        uploads = [
            await bucket.sign_upload(name, content_type="audio/webm", max_bytes=9, lifetime=MINUTE)
            for name in ("a", "b")
        ]
        assert account.refreshes == 1
        account.expire()
        await bucket.sign_download("a", lifetime=MINUTE, filename="a")
        assert account.refreshes == 2

    for upload in uploads:
        assert UPLOADER.replace("@", "%40") in upload.url
        assert (await put(upload, b"sound")).status_code == 200


async def test_an_account_that_may_not_sign_raises_the_documented_error(
    *, client: Any, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _, port = server.host.partition(":")
    bucket = CloudStorageBucket(client, "uploads", Signer(AccountOnTheServer(), "nobody@p.example"))
    with tls_proxy((host, int(port)), tmp_path) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(proxy.certificate))
        with pytest.raises(StorageUnavailableError, match="uploads/a"):
            await bucket.sign_upload("a", content_type="audio/webm", max_bytes=9, lifetime=MINUTE)


class GatedContent(io.BytesIO):
    """Blocks reading until the test allows it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.read_begun, self.goes_on = threading.Event(), threading.Event()

    def read(self, size: int | None = -1, /) -> bytes:
        self.read_begun.set()
        assert self.goes_on.wait(20)
        return super().read(size)


async def test_a_cancelled_write_cannot_land_after_a_later_deletion(
    bucket: CloudStorageBucket,
) -> None:
    content = GatedContent(b"sound")
    writing = asyncio.create_task(
        bucket.write("v/1.wav", content, content_type="audio/wav", size=5)
    )
    await asyncio.to_thread(content.read_begun.wait, 20)

    writing.cancel()
    await asyncio.sleep(0)
    assert not writing.done()
    content.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await bucket.delete_all("v/")

    with pytest.raises(ObjectMissingError):
        await bucket.find("v/1.wav")


async def test_connecting_to_a_missing_server_fails_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Ports() as ports:
        (port,) = ports.free(1)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    client = storage.Client("p", credentials=AnonymousCredentials())

    with pytest.raises(StorageUnavailableError, match="uploads"):
        await CloudStorageBucket(client, "uploads").connect()
