"""Behaviour that the local storage server cannot show, from a fake client."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from google.auth.credentials import AnonymousCredentials

from shared.google.storage import (
    CALLS_AT_ONCE,
    SIGN_SECONDS,
    SIGNATURES_AT_ONCE,
    WRITE_END_SECONDS,
    CloudStorageBucket,
    Signer,
    uninterrupted,
)
from shared.voices.objects import StorageUnavailableError
from tests.support.virtual_time import (
    STUCK_SECONDS,
    VirtualTimeLoop,
    in_virtual_time,
    no_lost_errors,
    settle,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.cloud.storage import Client


class FakeStorage:
    """Stands in for Cloud Storage's client and its bucket."""

    def __init__(
        self, sign: Callable[[], None] = lambda: None, delete: Callable[[], None] = lambda: None
    ) -> None:
        self._blob = FakeBlob(sign, delete)

    def bucket(self, _name: str) -> FakeStorage:
        return self

    def blob(self, _name: str, **_which: Any) -> FakeBlob:
        return self._blob


class FakeBlob:
    def __init__(self, sign: Callable[[], None], delete: Callable[[], None]) -> None:
        self._sign = sign
        self._delete = delete

    def generate_signed_url(self, **_arguments: Any) -> str:
        self._sign()
        return "https://storage.example/uploads/a"

    def delete(self, **_patience: Any) -> None:
        self._delete()


class GivenUpThreadsLoop(VirtualTimeLoop):
    """A loop whose clock runs on while a thread runs, because that thread waits for the test."""

    @property
    def has_threads(self) -> bool:
        return False


class Gate:
    """Holds threads until the test releases them."""

    def __init__(self) -> None:
        self._opened = threading.Event()

    def pass_by(self) -> None:
        assert self._opened.wait(STUCK_SECONDS)

    @contextmanager
    def closed(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._opened.set()


def bucket_of(client: FakeStorage) -> CloudStorageBucket:
    return CloudStorageBucket(cast("Client", client), "uploads", Signer(AnonymousCredentials()))


async def signed(bucket: CloudStorageBucket) -> str:
    url, _ = await bucket.sign_download("a", lifetime=timedelta(minutes=1), filename="a")
    return url


def test_a_missing_signature_times_out_early_enough_for_a_redelivery() -> None:
    gate = Gate()

    async def run() -> None:
        with pytest.raises(StorageUnavailableError, match="uploads/a"):
            await signed(bucket_of(FakeStorage(sign=gate.pass_by)))
        assert asyncio.get_running_loop().time() == pytest.approx(SIGN_SECONDS)

    with gate.closed(), asyncio.Runner(loop_factory=GivenUpThreadsLoop) as runner:
        runner.run(run())


async def test_many_visitors_addresses_are_signed_at_the_same_time() -> None:
    # Each signature waits for all others: fewer at once would never come to an end.
    together = threading.Barrier(SIGNATURES_AT_ONCE, timeout=STUCK_SECONDS)
    bucket = bucket_of(FakeStorage(sign=lambda: void(together.wait())))

    await asyncio.gather(*(signed(bucket) for _ in range(SIGNATURES_AT_ONCE)))


async def test_slow_calls_keep_no_signature_waiting() -> None:
    gate = Gate()
    bucket = bucket_of(FakeStorage(delete=gate.pass_by))
    with gate.closed():
        slow = [asyncio.create_task(bucket.delete("a")) for _ in range(4 * CALLS_AT_ONCE)]
        await settle()
        assert await signed(bucket)
        assert not any(each.done() for each in slow)
    await asyncio.gather(*slow)


@in_virtual_time
async def test_a_write_that_is_given_up_and_fails_later_leaves_no_error_behind() -> None:
    begun = asyncio.Event()

    async def write() -> None:
        begun.set()
        await asyncio.sleep(2 * WRITE_END_SECONDS)
        raise StorageUnavailableError("down")

    with no_lost_errors():
        writing = asyncio.create_task(uninterrupted(write()))
        await begun.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        await asyncio.sleep(2 * WRITE_END_SECONDS)


def void(_answer: object) -> None:
    """Drop an answer."""
