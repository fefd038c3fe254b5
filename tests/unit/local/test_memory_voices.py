from __future__ import annotations

import pytest

from infra.local.memory.voices import MemoryVoices
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
    voice = a_waiting()

    async with store.watch(voice.voice_id) as states:
        assert await anext(states) is None

    assert not store._waiters  # noqa: SLF001 - a leak shows nowhere else
