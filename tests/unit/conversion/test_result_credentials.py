"""Signed statements in results, and results that go out without one in time."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from conversion.origin.credentials import PAUSE_SECONDS, ResultCredentials
from infra.local.configuration.origin import CERTIFICATES
from shared.voices.voice import OutputFormat
from speech.results.credentials.reading import Credentials, read_credentials
from tests.unit.speech.credentials.test_credentials import KEYS, MARKING, MEI, SIGNER
from tests.unit.speech.credentials.test_credentials import encoded as encoded_as

if TYPE_CHECKING:
    from collections.abc import Iterator

WAV = encoded_as(OutputFormat.WAV)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class SilentSigner:
    """Signs nothing until it is released."""

    def __init__(self) -> None:
        self.asked = 0
        self.released = threading.Event()

    def sign(self, data: bytes) -> bytes:
        self.asked += 1
        self.released.wait(20)
        raise ConnectionError(len(data))


@pytest.fixture
def silent() -> Iterator[SilentSigner]:
    signer = SilentSigner()
    yield signer
    signer.released.set()


async def test_a_result_is_signed() -> None:
    credentials = ResultCredentials(SIGNER, seconds=5.0)
    result = await credentials.add(WAV, MEI, MARKING)
    credentials.close()

    found = read_credentials(result.data, result.content_type, KEYS[CERTIFICATES])
    assert found.state is Credentials.OURS
    assert replace(result, data=WAV.data) == WAV


async def test_a_format_without_a_place_for_it_stays_as_it_is() -> None:
    ogg = encoded_as(OutputFormat.OGG)

    assert await ResultCredentials(SIGNER, seconds=5.0).add(ogg, MEI, MARKING) is ogg


async def test_a_signer_out_of_reach_delays_one_result_by_its_limit_and_the_next_by_nothing(
    silent: SilentSigner, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    signer = replace(SIGNER, sign=silent.sign)
    credentials = ResultCredentials(signer, seconds=0.2, clock=clock)
    await asyncio.to_thread(signer.load)
    loop = asyncio.get_running_loop()

    with caplog.at_level(logging.WARNING):
        began = loop.time()
        first = await credentials.add(WAV, MEI, MARKING)
        waited = loop.time() - began
        second = await credentials.add(WAV, MEI, MARKING)

    assert first is second is WAV
    assert 0.2 <= waited < 2.0
    assert silent.asked == 1
    assert [vars(each)["event"] for each in caplog.records] == ["result_unsigned"] * 2

    clock.seconds = PAUSE_SECONDS
    await credentials.add(WAV, MEI, MARKING)
    assert silent.asked == 2
    credentials.close()


async def test_a_signer_that_refuses_is_told_apart_from_a_conversion_that_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(data: bytes) -> bytes:
        raise PermissionError(len(data))

    credentials = ResultCredentials(replace(SIGNER, sign=refuse), seconds=5.0)
    with caplog.at_level(logging.WARNING):
        assert await credentials.add(WAV, MEI, MARKING) is WAV

    assert "not signed" in caplog.text
    credentials.close()
