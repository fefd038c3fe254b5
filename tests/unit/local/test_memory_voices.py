from __future__ import annotations

import pytest

from infra.local.memory.voices import MemoryVoices
from tests.support.reachable import objects_kept_by
from tests.support.store_contract import VoiceStoreContract
from tests.support.voices import NOW, a_waiting


class TestMemoryVoices(VoiceStoreContract):
    @pytest.fixture
    def store(self) -> MemoryVoices:
        return MemoryVoices()


async def test_the_clock_is_the_one_that_was_handed_in() -> None:
    store = MemoryVoices(now=lambda: NOW)
    voice = a_waiting()
    await store.create(voice)

    assert (await store.read(voice.voice_id)).read_at == NOW
    await store.aclose()


async def test_a_watcher_that_stopped_is_forgotten() -> None:
    store = MemoryVoices()
    kept = objects_kept_by(store)
    for _ in range(20):
        async with store.watch(a_waiting().voice_id) as states:
            assert await anext(states) is None

    assert objects_kept_by(store) <= kept + 5
