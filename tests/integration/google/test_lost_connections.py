"""Cloud Storage behind a network that forgets, delays, cuts and resets connections."""

from __future__ import annotations

import asyncio
import io
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import rsa
from google.cloud import storage

from shared.google.storage import SILENCE_SECONDS, CloudStorageBucket, open_storage_client
from shared.voices.objects import ObjectExistsError
from tests.integration.storage.serving import PROJECT, RecordingTopic, Server, served
from tests.support.proxy import FAULTS, Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

SECONDS = 20
"""How long whoever waits may have to wait."""

DATA = bytes(range(256)) * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    with served(tmp_path_factory.mktemp("storage"), key, RecordingTopic()) as running:
        yield running


@pytest_asyncio.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    async with Proxy(server.host) as running:
        yield running


@pytest.fixture
def bucket(server: Server, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> CloudStorageBucket:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
    name = f"uploads-{proxy.address.rpartition(':')[2]}"
    storage.Client(project=PROJECT).create_bucket(name)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{proxy.address}")
    return CloudStorageBucket(open_storage_client(PROJECT), name)


async def write(bucket: CloudStorageBucket, name: str, size: int | None) -> int:
    content = io.BytesIO(DATA)
    facts = await bucket.write(name, content, content_type="audio/webm", size=size)
    return facts.generation


async def write_once(bucket: CloudStorageBucket, name: str, size: int | None) -> None:
    # The answer to a write that was done can be lost; then its repetition finds the object.
    with suppress(ObjectExistsError):
        await write(bucket, name, size)


@pytest.mark.parametrize("spoil", FAULTS)
async def test_every_call_to_cloud_storage_goes_on_over_a_new_connection(
    bucket: CloudStorageBucket, proxy: Proxy, spoil: Callable[[Proxy], None]
) -> None:
    names = [f"{number}" for number in range(4)]
    generations = await asyncio.gather(*(write(bucket, name, len(DATA)) for name in names))
    spoil(proxy)

    async with asyncio.timeout(SECONDS):
        read, found, _, _, _ = await asyncio.gather(
            bucket.read("0", generations[0], max_bytes=len(DATA)),
            bucket.find("1"),
            bucket.delete("2", generations[2]),
            write_once(bucket, "known", len(DATA)),
            write_once(bucket, "unknown", None),
        )
    proxy.delay_seconds = 0

    assert (read, found.generation) == (DATA, generations[1])
    assert {facts.name: facts.bytes for facts in await bucket.list()} == dict.fromkeys(
        ["0", "1", "3", "known", "unknown"], len(DATA)
    )


async def test_no_forgotten_connection_is_tried_after_another_one(
    bucket: CloudStorageBucket, proxy: Proxy
) -> None:
    await asyncio.gather(*(write(bucket, f"{number}", len(DATA)) for number in range(8)))
    proxy.forget()
    async with asyncio.timeout(SECONDS):
        await bucket.find("0")

    async with asyncio.timeout(SILENCE_SECONDS - 1):
        await asyncio.gather(*(bucket.find(f"{number}") for number in range(8)))
