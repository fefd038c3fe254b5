"""Voices that are made from a text."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shared.voices.messages import PushMessage, parse_conversion_message
from shared.voices.store import document_path
from shared.voices.voice import Speaking, Status
from tests.unit.api.stage import MAX_CHARACTERS, WEBM, ApiStage, problem

if TYPE_CHECKING:
    from httpx import Response

    from shared.voices.voice import Voice

TEXT = "今日はいい天気ですね。"
TYPE = "text/plain; charset=utf-8"


async def post(stage: ApiStage, **fields: Any) -> Response:
    headers = {"Content-Type": "application/json"}
    content = json.dumps({"text": TEXT} | fields)
    return await stage.http.post("/api/v1/voices", content=content, headers=headers)


async def voices_in(stage: ApiStage) -> list[Voice]:
    later = datetime.now(UTC) + timedelta(days=1)
    pages = [await stage.voices.find_unchanged(each, since=later, limit=9) for each in Status]
    return [snapshot.voice for page in pages for snapshot in page.snapshots]


async def test_a_text_is_stored_and_its_conversion_requested() -> None:
    stage = ApiStage()

    answer = await post(stage, character="nobu", speed=1.5, pauses=0.5, output_format="mp3")

    created = answer.json()
    voice_id = created["voice_id"]
    assert (answer.status_code, created["upload"]) == (201, None)
    assert created["document"] == document_path(voice_id)
    stored = stage.uploads.objects[voice_id]
    assert (stored.data.decode(), stored.content_type) == (TEXT, TYPE)
    voice = await stage.voice(voice_id)
    assert (voice.status, voice.character) == (Status.QUEUED, "nobu")
    assert voice.options.speaking == Speaking(speed=1.5, pauses=0.5)
    assert voice.options.output_format == "mp3"
    ((data, attributes),) = stage.conversions.published
    message = parse_conversion_message(PushMessage(data))
    assert (message.voice_id, message.upload) == (voice_id, voice.input)
    assert message.client is not None
    assert message.client == voice.client
    assert message.upload.generation == stored.generation
    assert attributes["voice_id"] == voice_id
    assert stage.container.warm_ups == 1


async def test_the_answer_names_what_no_voice_reads_of_a_text() -> None:
    texts = (TEXT, f"{TEXT}안녕하세요。", "¿Dónde está la playa? Hello.")
    answers = [(await post(ApiStage(), text=text)).json() for text in texts]

    assert [answer["unread"] for answer in answers] == [None, "Korean", "Spanish"]


async def test_the_text_is_in_no_document_message_or_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = ApiStage()
    with caplog.at_level(logging.DEBUG):
        created = (await post(stage)).json()

    document = repr(await stage.voices.read(created["voice_id"]))
    logged = "".join(str(vars(record)) for record in caplog.records if record.name[:5] != "httpx")
    for place in (document, repr(stage.conversions.published), json.dumps(created), logged):
        assert TEXT[:4] not in place


async def test_the_first_character_that_speaks_text_is_taken_and_one_of_its_styles() -> None:
    stage = ApiStage()

    created = (await post(stage, style=7)).json()

    voice = await stage.voice(created["voice_id"])
    assert voice.character == "sango"
    assert voice.options.speaking == Speaking(style=7)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"character": "mei"}, "text_not_taken"),
        ({"character": "nobody"}, "unknown_character"),
        ({"style": 8}, "unknown_style"),
        ({"character": "nobu", "style": 7}, "unknown_style"),
        ({"text": " \n　"}, "nothing_to_say"),
        ({"text": "あ" * (MAX_CHARACTERS + 1)}, "text_too_long"),
        ({"text": None}, "invalid_request"),
        ({"text": "あ\ud800"}, "text_unreadable"),
        ({"speed": 0.4}, "invalid_request"),
        ({"speed": "1"}, "invalid_request"),
        ({"style": 1.5}, "invalid_request"),
        ({"pitch_shift": 3}, "invalid_request"),
    ],
)
async def test_what_cannot_be_spoken_is_refused_and_leaves_nothing(
    fields: dict[str, Any], code: str
) -> None:
    stage = ApiStage()

    detail = problem(await post(stage, **fields), 422, code)

    assert TEXT[:4] not in detail
    assert not stage.uploads.objects
    assert not stage.conversions.published
    assert not await voices_in(stage)


async def test_a_character_of_texts_refuses_recordings_which_have_no_options_of_a_text() -> None:
    http = ApiStage().http
    answer = await http.post("/api/v1/voices", json={"character": "sango"})

    assert "choose one of mei" in problem(answer, 422, "speech_not_taken")
    problem(await http.post("/api/v1/voices", json={"speed": 2}), 422, "invalid_request")


async def test_if_the_topic_is_out_of_reach_there_is_no_voice() -> None:
    stage = ApiStage()
    stage.conversions.failures_left = 1

    problem(await post(stage), 503, "unavailable")

    assert not await voices_in(stage)
    assert not stage.uploads.objects


async def test_if_the_bucket_is_out_of_reach_sweep_still_finds_the_voice() -> None:
    stage = ApiStage()
    stage.uploads.is_out_of_reach = True

    problem(await post(stage), 503, "unavailable")

    [voice] = await voices_in(stage)
    assert voice.status is Status.WAITING
    assert not stage.conversions.published


async def test_deleting_the_voice_erases_its_text_and_no_recording_is_accepted_for_it() -> None:
    stage = ApiStage()
    voice_id = (await post(stage)).json()["voice_id"]
    files = {"file": ("a.webm", WEBM, "audio/webm")}

    refused = await stage.http.put("/api/v1/voices", data={"voice_id": voice_id}, files=files)
    answer = await stage.http.delete(f"/api/v1/voices/{voice_id}")

    problem(refused, 409, "already_uploaded")
    assert answer.status_code == 204
    assert [each.data for each in stage.uploads.objects.values()] == [b""]
    assert not await voices_in(stage)
