from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from infra.local.cloud.memory import MemoryVoices
from shared.conversion.characters import (
    SAMPLE_RATE,
    SECONDS,
    LoadedCharacter,
    connect,
    make_hum,
    rehearse_conversion,
    rehearse_decoding,
)
from shared.voices.media import Container, sniff
from shared.voices.objects import StorageUnavailableError
from tests.support.buckets import MemoryBucket
from tests.support.characters import a_manifest
from tests.support.conversion import FakeDecoder, FakeEngine
from tests.support.logs import log_book

if TYPE_CHECKING:
    from shared.speech.decoding.decoder import Decoder

RATE = 16_000


async def test_the_decoder_decodes_a_recording() -> None:
    decoder = FakeDecoder()

    await rehearse_decoding(cast("Decoder", decoder))

    assert [sniff(data) for data in decoder.decoded] == [Container.WAV]
    assert decoder.limits is not None
    assert decoder.limits.min_seconds <= SECONDS


async def test_a_decoder_that_fails_is_logged_and_does_not_stop_the_start() -> None:
    decoder = FakeDecoder()
    decoder.error = OSError("no process")

    with log_book() as book:
        await rehearse_decoding(cast("Decoder", decoder))

    (entry,) = book.of("rehearsal_failed")
    assert "no process" in entry["message"]


def test_a_character_converts_a_recording_of_its_own() -> None:
    engine = FakeEngine()

    rehearse_conversion(LoadedCharacter(a_manifest("mei"), engine))

    assert engine.converted == [(SECONDS * SAMPLE_RATE, SAMPLE_RATE)]
    assert [options.pitch_shift for options in engine.asked] == [None]


def test_a_character_that_fails_is_named_and_does_not_stop_the_start() -> None:
    broken = FakeEngine(ValueError("no voice"))

    with log_book() as book:
        rehearse_conversion(LoadedCharacter(a_manifest("mei"), broken))

    (entry,) = book.of("rehearsal_failed")
    assert entry["character"] == "mei"
    assert "no voice" in entry["message"]


def test_the_hum_is_loud_enough_to_count_as_speech() -> None:
    hum = make_hum()

    assert hum.dtype == np.float32
    assert len(hum) == SECONDS * SAMPLE_RATE
    assert 0.02 < np.sqrt(np.mean(hum**2)) < np.abs(hum).max() < 1.0


async def test_connecting_requests_missing_objects_and_leaves_nothing() -> None:
    voices, uploads, results = MemoryVoices(), MemoryBucket("uploads"), MemoryBucket("results")

    with log_book() as book:
        await connect(voices, uploads, results)

    assert book.of("not_connected") == []
    assert (uploads.objects, results.objects) == ({}, {})


@pytest.mark.parametrize("missing", ["uploads", "results"])
async def test_an_unreachable_service_is_logged_and_does_not_stop_the_start(missing: str) -> None:
    buckets = {name: MemoryBucket(name) for name in ("uploads", "results")}
    buckets[missing].is_out_of_reach = True

    with log_book() as book:
        await connect(MemoryVoices(), **buckets)

    entries = book.of("not_connected")
    assert entries
    assert all(StorageUnavailableError.__name__ in entry["message"] for entry in entries)
