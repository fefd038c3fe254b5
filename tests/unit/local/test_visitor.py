"""Whoever waits with a command has an end."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime

import httpx
import pytest

from infra.local.cloud import emulated
from infra.local.cloud.memory import MemoryVoices
from infra.local.commands.visitor import RequestRefusedError, Visitor
from infra.local.processes.children import StartError
from shared.voices.store import StoreUnavailableError
from shared.voices.voice import Options, Voice, create, new_voice_id


async def test_a_voice_of_which_nothing_is_heard_is_given_up() -> None:
    voices = MemoryVoices()
    voice = create(new_voice_id(), "mei", Options(), now=datetime.now(UTC))
    await voices.create(voice)

    async with httpx.AsyncClient() as client:
        visitor = Visitor(client, "http://api.test", voices, news_seconds=0.2)
        with pytest.raises(RequestRefusedError, match="timed_out: nothing was heard"):
            await asyncio.wait_for(visitor.watch(voice.voice_id, lambda _voice: None), 20)


class LateVoices(MemoryVoices):
    """A store that answers only the third request, or none."""

    def __init__(self, failures: float) -> None:
        super().__init__()
        self._failures = failures

    async def create(self, voice: Voice) -> None:
        if self._failures > 0:
            self._failures -= 1
            raise StoreUnavailableError("connection refused")
        await super().create(voice)


@pytest.mark.parametrize("failures", [2, math.inf])
async def test_an_emulator_that_starts_slowly_is_waited_for_but_not_for_ever(
    failures: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulated, "READY_SECONDS", 0.2)
    monkeypatch.setattr(emulated, "_WARM_UP_PAUSE_SECONDS", 0.01)

    warming_up = emulated.warm_up_firestore(LateVoices(failures))
    if math.isfinite(failures):
        await warming_up
    else:
        with pytest.raises(StartError, match="Firestore's emulator does not answer"):
            await warming_up
