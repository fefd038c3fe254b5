"""The `Bucket` in Cloud Storage.

`google-cloud-storage` is synchronous, so every call that waits for the network runs in a thread.
Each bucket has threads of its own, so slow calls to one bucket do not delay those to the other.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias, TypeVar

import requests
from google.api_core import exceptions as google_errors
from google.auth import exceptions as auth_errors
from google.cloud.storage import Client
from google.cloud.storage.exceptions import DataCorruption
from google.cloud.storage.retry import DEFAULT_RETRY
from requests.adapters import HTTPAdapter

from shared.voices.media import EMPTY_CONTENT_TYPE
from shared.voices.objects import (
    ObjectExistsError,
    ObjectFacts,
    ObjectMissingError,
    SignedUpload,
    StorageUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from google.auth.credentials import Credentials
    from google.cloud.storage import Blob

    from shared.google.signatures import HmacSigner


CONNECT_SECONDS: Final = 3.0  # the time limit of connecting, and of a pause in sending
SILENCE_SECONDS: Final = 6.0  # the longest wait for the next byte of a response
# The time for retries of a failed call; after that, Pub/Sub delivers the message again. With the
# last try's connection and silence it stays below 20 s. The library's default of two minutes is
# longer than a conversion may take, so that an outage would fail voices.
RETRY_SECONDS: Final = 10.0

CALL_SECONDS: Final = 120.0  # of a whole call, as for a large network, while bytes keep coming
WRITE_END_SECONDS: Final = 3.0  # for a cancelled write; a stopping instance has ten in all
SIGN_SECONDS: Final = RETRY_SECONDS  # the library's request to IAM has no time limit to set
CALLS_AT_ONCE: Final = 10  # to a bucket, and the connections that its client keeps open
SIGNATURES_AT_ONCE: Final = 32

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs addresses with a service account's key, or without one through IAM's signBlob."""

    credentials: Credentials  # hold the key, or get the access token for signBlob
    service_account: str | None = None  # the account that signs through IAM; None to use the key

    def arguments(self) -> Mapping[str, object]:
        """Return the arguments of `Blob.generate_signed_url`; may refresh the access token."""
        if self.service_account is None:
            return {"credentials": self.credentials}
        if not self.credentials.valid:
            # Imported here: only signing through IAM needs it.
            from google.auth.transport.requests import Request  # noqa: PLC0415

            self.credentials.refresh(Request())
        return {
            "credentials": self.credentials,
            "service_account_email": self.service_account,
            "access_token": self.credentials.token,
        }

    def sign_url(self, blob: Blob, method: str, expires_at: datetime, **conditions: Any) -> str:
        url = blob.generate_signed_url(
            version="v4", expiration=expires_at, method=method, **self.arguments(), **conditions
        )
        return str(url)


UrlSigner: TypeAlias = "Signer | HmacSigner"


class CloudStorageBucket:
    """A `Bucket` in Cloud Storage; without a signer it signs no addresses."""

    def __init__(
        self,
        client: Client,
        name: str,
        signer: UrlSigner | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.name = name
        self._bucket = client.bucket(name)
        self._signer = signer
        self._now = now
        # Signatures have threads of their own, so that they never wait for uploads.
        self._callers = ThreadPoolExecutor(CALLS_AT_ONCE, f"{name}-call")
        self._signers = ThreadPoolExecutor(SIGNATURES_AT_ONCE, f"{name}-sign")
        # Every call may be repeated: a write requires that the object does not exist, and deleting
        # twice does no harm.
        self._retrying = {
            "timeout": (CONNECT_SECONDS, SILENCE_SECONDS),
            "retry": DEFAULT_RETRY.with_timeout(RETRY_SECONDS),
        }

    async def connect(self) -> None:
        ask = self._bucket.blob("nothing").exists
        # The connection is open whatever the answer is.
        with storage_errors(self.name), suppress(google_errors.ClientError):
            await self._call(ask, timeout=CONNECT_SECONDS, retry=None)

    async def sign_upload(
        self, name: str, *, content_type: str, max_bytes: int, lifetime: timedelta
    ) -> SignedUpload:
        headers = {
            "Content-Type": content_type,
            "x-goog-content-length-range": f"0,{max_bytes}",
            "x-goog-if-generation-match": "0",
        }
        expires_at = self._now() + lifetime
        # A copy, because the library adds headers of its own to it.
        url = await self._sign(name, "PUT", expires_at, headers=dict(headers))
        return SignedUpload("PUT", url, headers, expires_at, max_bytes)

    async def sign_download(
        self, name: str, *, lifetime: timedelta, filename: str
    ) -> tuple[str, datetime]:
        expires_at = self._now() + lifetime
        disposition = f'inline; filename="{filename}"'
        url = await self._sign(name, "GET", expires_at, response_disposition=disposition)
        return url, expires_at

    async def read(self, name: str, generation: int, *, max_bytes: int) -> bytes:
        blob = self._bucket.blob(name, generation=generation)
        with storage_errors(f"{self.name}/{name}#{generation}"):
            try:
                return await self._call(
                    blob.download_as_bytes,
                    end=max_bytes,
                    # An upload may claim to be compressed (Content-Encoding); the library, which
                    # knows no limit, could fill all memory when it unpacks it.
                    raw_download=True,
                    # In one request instead of several chunks.
                    single_shot_download=True,
                    **self._retrying,
                )
            except google_errors.RequestRangeNotSatisfiable:
                # An empty object has no first byte.
                return b""

    async def write(
        self,
        name: str,
        content: BinaryIO,
        *,
        content_type: str,
        size: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectFacts:
        """Write an object of an unused name; `content` is read while it is sent.

        When cancelled, it waits for the write to end, at most `WRITE_END_SECONDS`, so that a
        deletion that follows comes after the write. The next delivery of its message or the
        bucket's lifecycle deletes an object that a slower write leaves behind. It is not deleted
        here, because it may already be in use, as a recording is.
        """
        blob = self._bucket.blob(name)
        if metadata:
            blob.metadata = dict(metadata)
        with storage_errors(f"{self.name}/{name}"):
            await uninterrupted(
                self._call(
                    blob.upload_from_file,
                    file_obj=content,
                    size=size,
                    content_type=content_type,
                    if_generation_match=0,
                    **self._retrying,
                )
            )
        return facts_of(blob)

    async def find(self, name: str) -> ObjectFacts:
        blob = self._bucket.blob(name)
        with storage_errors(f"{self.name}/{name}"):
            await self._call(blob.reload, **self._retrying)
        return facts_of(blob)

    async def list(self, prefix: str = "", *, most: int | None = None) -> Sequence[ObjectFacts]:
        def facts() -> Sequence[ObjectFacts]:
            # One after the other, because the library's objects are ten times as large.
            listed = self._bucket.list_blobs(prefix=prefix, max_results=most, **self._retrying)
            return [facts_of(blob) for blob in listed]

        try:
            with storage_errors(f"{self.name}/{prefix}"):
                return await self._call(facts)
        except ObjectMissingError as error:
            raise StorageUnavailableError(f"there is no bucket {self.name}") from error

    async def delete(self, name: str, generation: int | None = None) -> None:
        blob = self._bucket.blob(name, generation=generation)
        try:
            with storage_errors(f"{self.name}/{name}"):
                await self._call(blob.delete, **self._retrying)
        except ObjectMissingError:
            return

    async def empty(self, name: str, generation: int | None = None) -> None:
        blob = self._bucket.blob(name)
        with (
            suppress(ObjectExistsError, ObjectMissingError),
            storage_errors(f"{self.name}/{name}"),
        ):
            await self._call(
                blob.upload_from_string,
                data=b"",
                content_type=EMPTY_CONTENT_TYPE,
                if_generation_match=generation,
                **self._retrying,
            )

    async def delete_all(self, prefix: str, *, except_for: str = "") -> None:
        for found in await self.list(prefix):
            if found.name != except_for:
                await self.delete(found.name)

    async def _sign(self, name: str, method: str, expires_at: datetime, **more: Any) -> str:
        if self._signer is None:
            raise RuntimeError(f"bucket {self.name} was opened without a Signer and cannot sign")
        sign = partial(self._signer.sign_url, self._bucket.blob(name), method, expires_at, **more)
        # In a thread, because signing through IAM makes a request.
        with storage_errors(f"{self.name}/{name}"):
            async with asyncio.timeout(SIGN_SECONDS):
                return await in_thread(self._signers, sign)

    async def _call(self, work: Callable[..., _Answer], **arguments: Any) -> _Answer:
        async with asyncio.timeout(CALL_SECONDS):
            return await in_thread(self._callers, partial(work, **arguments))


async def in_thread(threads: ThreadPoolExecutor, work: Callable[[], _Answer]) -> _Answer:
    # In a copy of the context, which holds the voice_id for log entries.
    run = copy_context().run
    return await asyncio.get_running_loop().run_in_executor(threads, run, work)


async def uninterrupted(work: Coroutine[Any, Any, None]) -> None:
    """Await a coroutine; when cancelled, let it end within `WRITE_END_SECONDS`."""
    working = asyncio.ensure_future(work)
    # After a cancellation nobody hears of its error.
    working.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working}, timeout=WRITE_END_SECONDS)
        raise


def facts_of(blob: Blob) -> ObjectFacts:
    return ObjectFacts(
        bucket=blob.bucket.name,
        name=blob.name,
        generation=int(blob.generation),
        content_type=blob.content_type or "application/octet-stream",
        bytes=int(blob.size),
    )


@contextmanager
def storage_errors(what: str) -> Iterator[None]:
    try:
        yield
    except google_errors.NotFound as error:
        raise ObjectMissingError(f"{what} is not there") from error
    except google_errors.PreconditionFailed as error:
        raise ObjectExistsError(f"{what} is there already") from error
    except (
        google_errors.GoogleAPICallError,
        google_errors.RetryError,
        auth_errors.GoogleAuthError,
        requests.RequestException,
        DataCorruption,
        OSError,
    ) as error:
        raise StorageUnavailableError(f"Cloud Storage did not answer for {what}") from error


_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""Seconds before the first probe of a silent connection, between probes, and their number.

Not every system has all of them. Probes also keep a NAT from forgetting an unused connection.
"""

_WITHOUT_BODY: Final = frozenset({requests.codes.no_content, requests.codes.not_modified})


def open_storage_client(project: str) -> Client:
    client = Client(project=project)
    # As Google's documentation changes the size of the pool; the library has no setting for it.
    client._http.mount("https://", RenewingAdapter())  # noqa: SLF001
    client._http.mount("http://", RenewingAdapter())  # noqa: SLF001 - the local storage server
    return client


def require_whole_head(response: requests.Response) -> None:
    # http.client takes the end of the connection for the end of the headers.
    if response.status_code in _WITHOUT_BODY:
        return
    if not any(name in response.headers for name in ("content-length", "transfer-encoding")):
        response.close()
        raise requests.ConnectionError("the connection ended in the headers of the answer")


class RenewingAdapter(HTTPAdapter):
    """Drops all its idle connections when one of them fails."""

    def __init__(self) -> None:
        super().__init__(pool_maxsize=CALLS_AT_ONCE)

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        try:
            response = super().send(request, **options)
            require_whole_head(response)
        except (requests.ConnectionError, requests.Timeout):
            self.poolmanager.clear()
            raise
        return response

    def init_poolmanager(self, *arguments: Any, **settings: Any) -> None:
        probes = ((getattr(socket, name, None), value) for name, value in _KEEPALIVE)
        options = [
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            *((socket.IPPROTO_TCP, each, value) for each, value in probes if each is not None),
        ]
        super().init_poolmanager(*arguments, **settings, socket_options=options)
