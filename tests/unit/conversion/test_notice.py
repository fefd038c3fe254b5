"""The spoken notice: its settings, what the statement says of it, and a character that says it."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import c2pa
import numpy as np
import pytest
from pydantic import ValidationError

from conversion.characters.loading import build_character
from conversion.origin.credentials import ResultCredentials
from conversion.origin.notice import NoticePlace, NoticeSettings, SpokenNotice, open_notice
from conversion.threads import Threads
from shared.voices.voice import OutputFormat
from speech.bundles.reading import load_characters
from speech.engines.registry import ENGINES
from speech.networks.settings import SessionSettings
from speech.results.credentials.statement import CHARACTER_LABEL
from tests.unit.speech.credentials.test_credentials import MARKING, MEI, SIGNER
from tests.unit.speech.credentials.test_credentials import encoded as encoded_as

CHARACTERS = Path(__file__).parents[3] / "characters"


def test_there_is_no_notice_unless_it_is_asked_for() -> None:
    assert open_notice(NoticeSettings()) is None
    assert open_notice(NoticeSettings(notice="after", notice_languages=("en",))) is not None


@pytest.mark.parametrize(
    "wrong", [{"notice": "always"}, {"notice_languages": ("fr",)}, {"notice_languages": ()}]
)
def test_a_wrong_setting_of_the_notice_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        NoticeSettings(**wrong)


@pytest.mark.parametrize("place", ["off", "before", "after"])
async def test_the_statement_says_where_the_notice_is(place: NoticePlace) -> None:
    credentials = ResultCredentials(SIGNER, seconds=5.0)
    result = await credentials.add(encoded_as(OutputFormat.WAV), MEI, MARKING, place)
    credentials.close()

    with c2pa.Reader(result.content_type, BytesIO(result.data)) as reader:
        report = json.loads(reader.json())
    assertions = report["manifests"][report["active_manifest"]]["assertions"]
    (said,) = (each["data"] for each in assertions if each["label"] == CHARACTER_LABEL)
    assert said["notice"] == place


async def test_a_character_says_the_notice_in_both_languages_in_its_own_voice() -> None:
    mei = build_character(load_characters(CHARACTERS, ENGINES)["mei"], SessionSettings())
    run = Threads().run
    result = np.zeros(100, np.float32)
    speaker = mei.text_engine
    both, place = await SpokenNotice("before", ["ja", "en"]).add(result, 48_000, speaker, run)
    english, _ = await SpokenNotice("before", ["en"]).add(result, 48_000, speaker, run)

    assert place == "before"
    assert 1.0 < len(english) / 48_000 < 4.0
    assert len(english) / 48_000 + 1.0 < len(both) / 48_000 < 8.0
    assert np.square(both).mean() > 1e-4
