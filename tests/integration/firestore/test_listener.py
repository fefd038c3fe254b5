from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from shared.voices import voice as voices_of
from shared.voices.store import (
    ConflictError,
)
from shared.voices.voice import Status
from tests.integration.firestore.conftest import TARGETS_PER_STREAM
from tests.support.proxy import FAULTS
from tests.support.store_contract import until
from tests.support.voices import NOW, a_waiting, an_upload, stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.google.listener import DocumentListener
    from shared.google.voices import FirestoreVoices
    from shared.voices.store import Snapshot, VoiceStore
    from shared.voices.voice import Voice
    from tests.support.proxy import Proxy

pytestmark = pytest.mark.emulators


async def queue(store: VoiceStore, snapshot: Snapshot) -> Voice:
    voice = snapshot.voice
    queued = voices_of.queue(voice, NOW, an_upload(voice.voice_id))
    try:
        return (await store.replace(snapshot, queued)).voice
    except ConflictError:
        # The emulator of a busy machine answers late: the write was tried again, and found itself.
        found = await store.read(voice.voice_id)
        assert found.voice == queued
        return queued


async def test_many_waiters_share_few_streams_and_all_get_the_change(
    store: FirestoreVoices, listener: DocumentListener
) -> None:
    snapshots = [await stored(store, a_waiting()) for _ in range(5)]

    async with AsyncExitStack() as stack:
        watching = [
            await stack.enter_async_context(store.watch(snapshot.voice.voice_id))
            for snapshot in snapshots
            for _ in range(4)
        ]
        for states in watching:
            assert await until(states, Status.WAITING)
        # 5 documents, 2 on a stream, however many wait for each.
        assert (TARGETS_PER_STREAM, listener.stream_count) == (2, 3)
        queued = [await queue(store, snapshot) for snapshot in snapshots]
        seen = await asyncio.gather(*(until(states, Status.QUEUED) for states in watching))

    assert seen == [voice for voice in queued for _ in range(4)]
    assert listener.stream_count == 0


@pytest.mark.parametrize("spoil", FAULTS)
async def test_every_waiter_hears_each_change_whatever_the_network_does_between_them(
    store: FirestoreVoices,
    store_behind_proxy: FirestoreVoices,
    proxy: Proxy,
    spoil: Callable[[Proxy], None],
) -> None:
    """Nothing is asked for after the fault, which could show it: the waiters only listen."""
    snapshots = [await stored(store, a_waiting()) for _ in range(3)]

    async with AsyncExitStack() as stack:
        waiting = [
            await stack.enter_async_context(store_behind_proxy.watch(snapshot.voice.voice_id))
            for snapshot in snapshots
        ]
        for states in waiting:
            assert await until(states, Status.WAITING)
        spoil(proxy)
        queued = [await queue(store, snapshot) for snapshot in snapshots]
        async with asyncio.timeout(20):
            found = await asyncio.gather(*(until(states, Status.QUEUED) for states in waiting))
        proxy.delay_seconds = 0.0

    assert found == queued


async def test_a_voice_is_created_although_the_network_forgot_the_answer(
    store: FirestoreVoices, store_behind_proxy: FirestoreVoices, proxy: Proxy
) -> None:
    await store_behind_proxy.create(a_waiting())
    proxy.forget()
    voice = a_waiting()

    async with asyncio.timeout(20):
        await store_behind_proxy.create(voice)

    assert (await store.read(voice.voice_id)).voice == voice


async def test_a_deletion_while_the_connection_was_broken_is_noticed(
    store: FirestoreVoices, store_behind_proxy: FirestoreVoices, proxy: Proxy
) -> None:
    snapshot = await stored(store, a_waiting())

    async with store_behind_proxy.watch(snapshot.voice.voice_id) as states:
        assert await anext(states) == snapshot.voice
        proxy.refuse(True)
        proxy.cut()
        await store.delete(snapshot.voice.voice_id)
        proxy.refuse(False)
        assert await until(states, None) is None
