"""The intake of voices, where the api's routes do not lead to it at the right moment."""

from __future__ import annotations

import asyncio
import io
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pytest

from functions.api import problems
from functions.api.dependencies import LiveOffer
from functions.api.intake import VoiceIntake
from functions.api.problems import LARGEST_BYTES, Problem
from infra.local.cloud.memory import MemoryVoices
from shared.voices.store import document_path
from shared.voices.tickets import Tickets
from shared.voices.voice import Options, OutputFormat, Status, parse_voice_id
from tests.support.buckets import MemoryBucket
from tests.support.logs import log_book, logged_as
from tests.support.messages import RecordingPublisher
from tests.support.voices import ERROR, a_queued, a_text, a_waiting, stored
from tests.unit.api.stage import MAX_BYTES, SITE, WEBM, ApiStage, UidTokens, WatchedVoices, problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from functions.api.catalogue import Catalogue
    from shared.voices.objects import ObjectFacts
    from shared.voices.voice import Voice


def intake_of(voices: MemoryVoices, uploads: MemoryBucket) -> VoiceIntake:
    return VoiceIntake(
        voices=voices,
        uploads=uploads,
        results=MemoryBucket("results"),
        conversions=RecordingPublisher,
        catalogue=cast("Catalogue", None),
        max_bytes=1000,
        max_characters=10,
        upload_lifetime=timedelta(minutes=10),
    )


async def test_a_voice_that_is_queued_or_deleted_meanwhile_neither_fails_nor_expires() -> None:
    voices, queued = MemoryVoices(), a_queued()
    intake = intake_of(voices, MemoryBucket("uploads"))
    await stored(voices, queued)

    for voice in (queued, a_waiting()):
        await intake.fail(voice, ERROR)
        await intake.expire(voice)

    assert (await voices.read(queued.voice_id)).voice == queued


async def test_a_text_takes_no_recording() -> None:
    uploads = MemoryBucket("uploads")

    with pytest.raises(Problem, match="has its recording already") as caught:
        await intake_of(MemoryVoices(), uploads).accept_recording(
            a_text(), io.BytesIO(WEBM), len(WEBM), "audio/webm"
        )

    assert (caught.value.status, uploads.objects) == (409, {})


async def test_a_late_cleaning_leaves_a_newer_object_alone() -> None:
    class Changing(MemoryBucket):
        async def find(self, name: str) -> ObjectFacts:
            found = await super().find(name)
            self.put(name, b"newer")
            return found

    uploads, voice = Changing("uploads"), a_waiting()
    uploads.put(voice.voice_id, b"recording")

    await intake_of(MemoryVoices(), uploads).erase_objects(voice.voice_id)

    assert uploads.objects[voice.voice_id].data == b"newer"


async def test_a_voice_is_created_with_everything_at_its_default(stage: ApiStage) -> None:
    with log_book() as book:
        response = await stage.http.post("/api/v1/voices")

    created = response.json()
    voice_id = parse_voice_id(created["voice_id"])
    voice = await stage.voice(voice_id)
    assert response.status_code == 201
    assert (voice.status, voice.character, voice.owner) == (Status.WAITING, "mei", None)
    assert voice.options == Options(None, OutputFormat.WAV, "audio/webm")
    assert voice.client is not None
    assert created["document"] == document_path(voice_id)
    assert stage.container.warm_ups == 1
    assert [(e["voice"], e["character"]) for e in book.of("voice_created")] == [
        (logged_as(voice_id), "mei")
    ]


async def test_the_requested_options_are_in_the_document_and_the_upload_address(
    stage: ApiStage,
) -> None:
    content_type = "audio/mp4;codecs=mp4a.40.2"
    body = {"character": "taro", "pitch_shift": -3.5, "output_format": "mp3"}

    created = (
        await stage.http.post("/api/v1/voices", json=body | {"content_type": content_type})
    ).json()

    voice = await stage.voice(created["voice_id"])
    assert voice.character == "taro"
    assert voice.options == Options(-3.5, OutputFormat.MP3, content_type)
    upload = created["upload"]
    assert created["voice_id"] in upload["url"]
    assert (upload["method"], upload["max_bytes"]) == ("PUT", MAX_BYTES)
    assert upload["headers"] == {
        "Content-Type": content_type,
        "x-goog-content-length-range": f"0,{MAX_BYTES}",
        "x-goog-if-generation-match": "0",
    }
    remaining = datetime.fromisoformat(upload["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=9) < remaining <= timedelta(minutes=10)


async def test_a_pitch_that_cannot_be_steered_is_refused_and_automatic_is_not(
    stage: ApiStage,
) -> None:
    refused = await stage.http.post("/api/v1/voices", json={"character": "kobo", "pitch_shift": 0})
    left_behind = stage.voices.count
    automatic = await stage.http.post(
        "/api/v1/voices", json={"character": "kobo", "pitch_shift": "auto"}
    )

    detail = problem(refused, 422, "pitch_not_adjustable")
    assert "'kobo'" in detail
    assert "'auto'" in detail
    assert left_behind == 0
    voice = await stage.voice(automatic.json()["voice_id"])
    assert (voice.character, voice.options.pitch_shift) == ("kobo", None)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"pitch_shift": 25}, "pitch_shift"),
        ({"pitch_shift": "3"}, "pitch_shift"),
        ({"output_format": "aiff"}, "output_format"),
        ({"character": "x" * 65}, "character"),
        ({"content_type": "x" * 201}, "content_type"),
        ({"colour": "red"}, "colour"),
        ([], "the body"),
    ],
)
async def test_an_invalid_request_is_refused_with_its_field_named(
    stage: ApiStage, body: Any, named: str
) -> None:
    response = await stage.http.post("/api/v1/voices", json=body)

    assert named in problem(response, 422, "invalid_request")
    assert stage.voices.count == 0  # nothing may be left behind


async def test_an_endless_request_is_not_read_to_its_end(stage: ApiStage) -> None:
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"character": "'
        while True:
            sent += 1000
            yield b"x" * 1000

    headers = {"Content-Type": "application/json", "Origin": SITE}
    response = await stage.http.post("/api/v1/voices", content=body(), headers=headers)

    assert str(LARGEST_BYTES) in problem(response, 413, "too_large")
    assert sent <= LARGEST_BYTES + 1000
    assert response.headers["access-control-allow-origin"] == SITE


async def test_a_body_that_does_not_come_is_not_waited_for(
    stage: ApiStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is known, or counted, before the whole body is there."""
    monkeypatch.setattr(problems, "BODY_SECONDS", 0.2)

    async def body() -> AsyncIterator[bytes]:
        yield b'{"character": '
        while True:
            await asyncio.sleep(0.05)
            yield b" "

    headers = {"Content-Type": "application/json", "Origin": SITE}
    async with asyncio.timeout(10):
        response = await stage.http.post("/api/v1/voices", content=body(), headers=headers)

    assert "0.2 seconds" in problem(response, 408, "request_timeout")
    assert response.headers["access-control-allow-origin"] == SITE


@pytest.mark.parametrize(
    ("body", "status", "code", "named"),
    [
        (
            {"character": "nobody"},
            422,
            "unknown_character",
            "There is no character 'nobody'; choose one of mei, taro, sango, nobu, kobo.",
        ),
        ({"content_type": "text/html"}, 415, "unsupported_content_type", "audio/webm"),
    ],
)
async def test_a_page_reads_why_a_voice_is_refused(
    *, stage: ApiStage, body: dict[str, str], status: int, code: str, named: str
) -> None:
    response = await stage.http.post("/api/v1/voices", json=body, headers={"Origin": SITE})

    assert named in problem(response, status, code)
    assert response.headers["access-control-allow-origin"] == SITE
    assert response.headers["access-control-expose-headers"] == "Retry-After, X-Unread-Text"


async def test_if_nothing_can_be_signed_no_document_is_left(stage: ApiStage) -> None:
    stage.uploads.is_out_of_reach = True

    response = await stage.http.post("/api/v1/voices")

    problem(response, 503, "unavailable")
    assert response.headers["retry-after"] == "2"
    assert stage.voices.count == 0  # nothing may be left behind


async def test_a_signed_in_visitor_owns_the_voice(stage: ApiStage) -> None:
    me = {"Authorization": "Bearer uid:me"}
    without_sign_in = await ApiStage(voices=stage.voices).http.post("/api/v1/voices", headers=me)
    stage.verifier = UidTokens()
    mine = await stage.http.post("/api/v1/voices", headers=me)
    anonymous = await stage.http.post("/api/v1/voices")
    refused = await stage.http.post("/api/v1/voices", headers={"Authorization": "Bearer x"})

    owners = [
        (await stage.voice(response.json()["voice_id"])).owner
        for response in (without_sign_in, mine, anonymous)
    ]
    assert owners == [None, "me", None]
    assert "Sign in again" in problem(refused, 401, "token_refused")
    assert refused.headers["www-authenticate"] == "Bearer"


async def test_unknown_paths_and_methods_are_problems_too(stage: ApiStage) -> None:
    problem(await stage.http.get("/api/v1/nothing"), 404, "not_found")
    response = await stage.http.patch("/api/v1/voices")

    problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "POST, PUT"


async def test_an_unexpected_error_is_logged_and_not_shown_to_the_visitor(stage: ApiStage) -> None:
    class BrokenVoices(WatchedVoices):
        async def create(self, voice: Voice) -> None:
            raise RuntimeError(f"a secret detail of {voice.voice_id}")

    stage.voices = BrokenVoices()
    with log_book() as book:
        response = await stage.http.post("/api/v1/voices", headers={"Origin": SITE})

    assert "secret" not in problem(response, 500, "internal")
    assert response.headers["access-control-allow-origin"] == SITE
    assert "a secret detail" in book.of("unexpected_error")[0]["stack_trace"]


async def test_the_page_that_describes_the_api_loads_nothing_from_elsewhere(
    stage: ApiStage,
) -> None:
    page = (await stage.http.get("/docs")).text

    loaded = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(loaded) == 2
    assert not [each for each in loaded if "//" in each]
    answers = [await stage.http.get(f"/{each}") for each in loaded]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert "SwaggerUIBundle" in answers[1].text


async def test_an_answer_is_not_kept_shown_in_a_frame_or_taken_for_another_kind_of_file(
    stage: ApiStage,
) -> None:
    """They have keys and signed addresses."""
    answers = [
        await stage.http.post("/api/v1/voices"),
        await stage.http.get(f"/api/v1/conversion/{uuid4()}"),
        await stage.http.get("/api/v1/no-such-route"),
    ]
    assert {each.headers["Cache-Control"] for each in answers} == {"no-store"}
    answers += [await stage.http.get(path) for path in ("/docs", "/healthz", "/no")]
    assert {each.headers["X-Content-Type-Options"] for each in answers} == {"nosniff"}
    for each in answers:
        policies = each.headers.get_list("content-security-policy")
        assert "frame-ancestors 'none'" in policies


async def test_where_live_is_offered_the_answer_has_its_address_and_a_ticket(
    stage: ApiStage,
) -> None:
    tickets = Tickets(["k" * 32])
    stage.live = LiveOffer("wss://live.test/live", tickets, timedelta(minutes=10))
    created = (await stage.http.post("/api/v1/voices")).json()

    live = created["live"]
    assert live["url"] == "wss://live.test/live"
    assert tickets.verify(live["ticket"]) == created["voice_id"]
    assert datetime.fromisoformat(live["expires_at"]) > datetime.now(UTC)
