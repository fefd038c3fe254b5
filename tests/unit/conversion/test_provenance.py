"""Signed statements in results, and results that go out without one in time."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import c2pa
import pytest
from pydantic import ValidationError

from infra.local.configuration.keys import CERTIFICATES
from shared.conversion.provenance import (
    SIGNING_PAUSE_SECONDS,
    NoticePlace,
    NoticeSettings,
    ResultCredentials,
    open_notice,
)
from shared.speech.results.credentials import Credentials, read_credentials
from shared.speech.results.statement import CHARACTER_LABEL
from shared.voices.voice import OutputFormat
from tests.support.clock import Clock
from tests.unit.results.test_credentials import KEYS, MARKING, MEI, SIGNER
from tests.unit.results.test_credentials import encoded as encoded_as

if TYPE_CHECKING:
    from collections.abc import Iterator


WAV = encoded_as(OutputFormat.WAV)


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
    clock = Clock(0.0)
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

    clock.seconds = SIGNING_PAUSE_SECONDS
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


def test_there_is_no_notice_unless_it_is_asked_for() -> None:
    assert open_notice(NoticeSettings()) is None
    assert open_notice(NoticeSettings(notice="after", notice_languages=("en",))) is not None


@pytest.mark.parametrize(
    "wrong", [{"notice": "always"}, {"notice_languages": ("fr",)}, {"notice_languages": ()}]
)
def test_a_wrong_setting_of_the_notice_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        NoticeSettings(**wrong)


@pytest.mark.parametrize("place", ["off", "before"])
async def test_the_statement_says_where_the_notice_is(place: NoticePlace) -> None:
    credentials = ResultCredentials(SIGNER, seconds=5.0)
    result = await credentials.add(encoded_as(OutputFormat.WAV), MEI, MARKING, place)
    credentials.close()

    with c2pa.Reader(result.content_type, BytesIO(result.data)) as reader:
        report = json.loads(reader.json())
    assertions = report["manifests"][report["active_manifest"]]["assertions"]
    (said,) = (each["data"] for each in assertions if each["label"] == CHARACTER_LABEL)
    assert said["notice"] == place
