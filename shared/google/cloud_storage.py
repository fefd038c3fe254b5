"""The two buckets: recordings come in through `uploads`, converted audio leaves through `results`.

`google-cloud-storage` is synchronous, so every call that waits for the network runs in a thread,
of each bucket's own: slow ones keep nobody waiting but each other.
Objects are always named by bucket, name and generation: what is read is what the event was about.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import requests
from google.api_core import exceptions as google_errors
from google.auth import exceptions as auth_errors
from google.cloud.storage.exceptions import DataCorruption
from google.cloud.storage.retry import DEFAULT_RETRY

from shared.objects import (
    ObjectExistsError,
    ObjectFacts,
    ObjectMissingError,
    SignedUpload,
    StorageUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from google.auth.credentials import Credentials
    from google.cloud.storage import Blob, Client

CALL_SECONDS: Final = 20.0
"""How long one request to Cloud Storage may be silent."""

RETRY_SECONDS: Final = 10.0
"""How long a failed call is tried again; Pub/Sub's redelivery is the longer patience.

The library's own two minutes are longer than a conversion may take: an outage would end voices.
"""

CONNECT_SECONDS: Final = 3.0
"""How long connecting may take, which nobody waits for but a process that wants to end."""

WRITE_END_SECONDS: Final = 3.0
"""How long a cancelled write is waited for: a stopping instance has ten seconds for everything."""

SIGN_SECONDS: Final = RETRY_SECONDS
"""How long a signature is waited for: the library's request to IAM takes no limit of ours."""

CALLS_AT_ONCE: Final = 10
"""How many calls a bucket makes at the same time: as many as its client keeps connections."""

SIGNATURES_AT_ONCE: Final = 32
"""How many addresses a bucket has signed at the same time."""

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs addresses: with a key where there is one, else through IAM's signBlob.

    Attributes:
        credentials: what signs (with a key), or what the access token for signBlob comes from.
        service_account: the account that signs through IAM; None to sign with the key.
    """

    credentials: Credentials
    service_account: str | None = None

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


class Bucket:
    """One bucket.

    Args:
        client: the Cloud Storage client.
        name: the bucket's name.
        signer: signs addresses; None where none are needed.
        now: the clock that expiry is reckoned with.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        signer: Signer | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.name = name
        self._bucket = client.bucket(name)
        self._signer = signer
        self._now = now
        # Signatures have threads of their own: no visitor waits for another one's upload.
        self._callers = ThreadPoolExecutor(CALLS_AT_ONCE, f"{name}-call")
        self._signers = ThreadPoolExecutor(SIGNATURES_AT_ONCE, f"{name}-sign")
        # Every call may be repeated: a write expects that nothing is there, a deletion is final.
        self._patience = {
            "timeout": CALL_SECONDS,
            "retry": DEFAULT_RETRY.with_timeout(RETRY_SECONDS),
        }

    async def connect(self) -> None:
        """Open a connection, so that the first call that counts finds one.

        Raises:
            StorageUnavailableError: Cloud Storage did not answer.
        """
        ask = self._bucket.blob("nothing").exists
        # Whatever is answered, the connection is there.
        with _storage_errors(self.name), suppress(google_errors.ClientError):
            await self._call(ask, timeout=CONNECT_SECONDS, retry=None)

    async def sign_upload(
        self, name: str, *, content_type: str, max_bytes: int, lifetime: timedelta
    ) -> SignedUpload:
        """Make the address for one upload of at most `max_bytes` to a name not yet used.

        Raises:
            StorageUnavailableError: it could not be signed.
        """
        headers = {
            "Content-Type": content_type,
            "x-goog-content-length-range": f"1,{max_bytes}",
            "x-goog-if-generation-match": "0",
        }
        expires_at = self._now() + lifetime
        # A copy, because the library adds its own headers to what it is given.
        url = await self._sign(name, "PUT", expires_at, headers=dict(headers))
        return SignedUpload("PUT", url, headers, expires_at, max_bytes)

    async def sign_download(
        self, name: str, *, lifetime: timedelta, filename: str
    ) -> tuple[str, datetime]:
        """Make an address to read an object from, and say when it expires.

        A browser that downloads it names the file `filename`.

        Raises:
            StorageUnavailableError: it could not be signed.
        """
        expires_at = self._now() + lifetime
        disposition = f'inline; filename="{filename}"'
        url = await self._sign(name, "GET", expires_at, response_disposition=disposition)
        return url, expires_at

    async def read(self, name: str, generation: int, *, max_bytes: int) -> bytes:
        """Read one generation of an object, at most `max_bytes + 1` bytes of it.

        Raises:
            ObjectMissingError: it is gone.
            StorageUnavailableError: Cloud Storage did not answer.
        """
        blob = self._bucket.blob(name, generation=generation)
        with _storage_errors(f"{self.name}/{name}#{generation}"):
            return await self._call(
                blob.download_as_bytes,
                end=max_bytes,
                # A recording is read whole: one request instead of chunks.
                single_shot_download=True,
                **self._patience,
            )

    async def write(
        self, name: str, content: BinaryIO, *, content_type: str, size: int | None = None
    ) -> ObjectFacts:
        """Write an object of a name not yet used; `content` is read as it is sent.

        Where it is cancelled, it returns when nothing is written any more, so that a deletion that
        follows is not overtaken; but after `WRITE_END_SECONDS` at the latest. What a still slower
        write leaves behind goes by its message's next delivery or the bucket's lifecycle. It is not
        deleted here, because it may have found its use by then, as a recording has.

        Raises:
            ObjectExistsError: the name is used.
            StorageUnavailableError: Cloud Storage did not answer.
        """
        blob = self._bucket.blob(name)
        with _storage_errors(f"{self.name}/{name}"):
            await _uninterrupted(
                self._call(
                    blob.upload_from_file,
                    file_obj=content,
                    size=size,
                    content_type=content_type,
                    if_generation_match=0,
                    **self._patience,
                )
            )
        return _facts(blob)

    async def find(self, name: str) -> ObjectFacts:
        """Look an object up.

        Raises:
            ObjectMissingError: there is none.
            StorageUnavailableError: Cloud Storage did not answer.
        """
        blob = self._bucket.blob(name)
        with _storage_errors(f"{self.name}/{name}"):
            await self._call(blob.reload, **self._patience)
        return _facts(blob)

    async def delete(self, name: str, generation: int | None = None) -> None:
        """Delete an object, or one generation of it; it is no error if it is gone.

        Raises:
            StorageUnavailableError: Cloud Storage did not answer.
        """
        blob = self._bucket.blob(name, generation=generation)
        try:
            with _storage_errors(f"{self.name}/{name}"):
                await self._call(blob.delete, **self._patience)
        except ObjectMissingError:
            return

    async def delete_all(self, prefix: str, *, except_for: str = "") -> None:
        """Delete every object whose name begins so, but for one.

        Raises:
            StorageUnavailableError: Cloud Storage did not answer; some may be deleted.
        """
        with _storage_errors(f"{self.name}/{prefix}"):
            blobs = await self._call(
                lambda: list(self._bucket.list_blobs(prefix=prefix, **self._patience))
            )
        for blob in blobs:
            if blob.name != except_for:
                await self.delete(blob.name)

    async def _sign(self, name: str, method: str, expires_at: datetime, **more: object) -> str:
        if self._signer is None:
            raise RuntimeError(f"bucket {self.name} was made without a Signer and cannot sign")
        signer, blob = self._signer, self._bucket.blob(name)

        def sign() -> str:
            url = blob.generate_signed_url(
                version="v4", expiration=expires_at, method=method, **signer.arguments(), **more
            )
            return str(url)

        # In a thread, because signing through IAM is a request.
        with _storage_errors(f"{self.name}/{name}"):
            async with asyncio.timeout(SIGN_SECONDS):
                return await _in_thread(self._signers, sign)

    async def _call(self, work: Callable[..., _Answer], **arguments: Any) -> _Answer:
        return await _in_thread(self._callers, partial(work, **arguments))


async def _in_thread(threads: ThreadPoolExecutor, work: Callable[[], _Answer]) -> _Answer:
    # In a copy of the context, which tells log entries whose voice they are about.
    run = copy_context().run
    return await asyncio.get_running_loop().run_in_executor(threads, run, work)


async def _uninterrupted(work: Coroutine[Any, Any, None]) -> None:
    """Do some work in a thread; if cancelled, pass that on when the thread has come to its end."""
    working = asyncio.ensure_future(work)
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working}, timeout=WRITE_END_SECONDS)
        raise


def _facts(blob: Blob) -> ObjectFacts:
    return ObjectFacts(
        bucket=blob.bucket.name,
        name=blob.name,
        generation=int(blob.generation),
        content_type=blob.content_type or "application/octet-stream",
        bytes=int(blob.size),
    )


@contextmanager
def _storage_errors(what: str) -> Iterator[None]:
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
