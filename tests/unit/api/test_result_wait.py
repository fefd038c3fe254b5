from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shared.voices.store import UnreadableVoiceError
from shared.voices.voice import new_voice_id
from tests.support.logs import log_book
from tests.support.virtual_time import in_virtual_time, settle
from tests.support.voices import (
    EVERY_STATE,
    a_converting,
    a_done,
    a_failed,
    a_queued,
    a_result,
    a_waiting,
)
from tests.unit.api.stage import ApiStage, UidTokens, WatchedVoices, problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from shared.voices.voice import Voice


def url(voice_id: str) -> str:
    return f"/api/v1/conversion/{voice_id}"


async def begin_to_wait(stage: ApiStage, voice: Voice) -> asyncio.Task[httpx.Response]:
    waiting = asyncio.create_task(stage.http.get(url(voice.voice_id)))
    await stage.voices.until_watched()
    return waiting


async def finish(stage: ApiStage, voice_id: str) -> None:
    snapshot = await stage.voices.read(voice_id)
    await stage.voices.replace(snapshot, replace(a_done(), voice_id=voice_id))


async def test_a_voice_that_is_done_is_answered_at_once_and_warms_nothing_up(
    stage: ApiStage,
) -> None:
    voice = await stage.add(a_done())

    response = await stage.http.get(url(voice.voice_id))

    result = a_result(voice.voice_id)
    assert response.status_code == 200
    assert response.json() == {
        "voice_id": voice.voice_id,
        "status": "done",
        "input": {"seconds": 2.5, "damaged": False, "missing_seconds": 0.0},
        "result": {
            "url": result.url,
            "url_expires_at": result.url_expires_at.isoformat().replace("+00:00", "Z"),
            "content_type": "audio/wav",
            "bytes": 1234,
            "seconds": 2.5,
            "sha256": "ab" * 32,
            "synthetic": {"comment": "Synthetic speech", "character": "mei"},
            "phones": "",
        },
        "timings": {"decode": 1.5, "network": 20.0},
    }
    assert stage.container.warm_ups == 0


async def test_a_failed_voice_is_answered_with_its_error_code(stage: ApiStage) -> None:
    voice = await stage.add(a_failed())

    response = await stage.http.get(url(voice.voice_id))

    assert problem(response, 422, "silent") == "There is no voice in the recording."


@pytest.mark.parametrize("state", ["waiting", "queued", "converting"])
async def test_waiting_warms_up_and_ends_when_the_voice_is_done(
    stage: ApiStage, state: str
) -> None:
    voice = await stage.add(replace(EVERY_STATE[state](), created_at=datetime.now(UTC)))

    waiting = await begin_to_wait(stage, voice)
    assert not waiting.done()
    await finish(stage, voice.voice_id)
    response = await waiting

    assert (response.status_code, stage.container.warm_ups) == (200, 1)
    assert stage.voices.reads == 1  # by `finish`: the listener saves the read of the document


@in_virtual_time
async def test_a_store_that_does_not_report_the_voice_counts_as_unavailable() -> None:
    class Mute(WatchedVoices):
        @asynccontextmanager
        async def watch(self, _voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
            async def nothing() -> AsyncIterator[Voice | None]:
                await asyncio.Event().wait()
                yield None

            yield nothing()

    response = await ApiStage(wait_seconds=50.0, voices=Mute()).http.get(url(new_voice_id()))

    problem(response, 503, "unavailable")
    assert asyncio.get_running_loop().time() < 50.0


async def test_waiting_for_an_unreadable_voice_ends_at_once() -> None:
    class Unreadable(WatchedVoices):
        @asynccontextmanager
        async def watch(self, voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
            async def broken() -> AsyncIterator[Voice | None]:
                if voice_id:
                    raise UnreadableVoiceError(voice_id, KeyError("options"))
                yield None

            yield broken()

    response = await ApiStage(voices=Unreadable()).http.get(url(new_voice_id()))

    assert "create a new one" in problem(response, 409, "unreadable_voice")


@in_virtual_time
async def test_a_client_that_waits_too_long_may_call_again() -> None:
    stage, voice = ApiStage(wait_seconds=50.0), a_converting()
    await stage.voices.create(voice)

    response = await stage.http.get(url(voice.voice_id))

    assert "call again" in problem(response, 504, "still_converting")
    assert response.headers["retry-after"] == "1"
    assert asyncio.get_running_loop().time() >= 50.0


async def test_an_unknown_or_malformed_voice_id_is_told_apart(stage: ApiStage) -> None:
    problem(await stage.http.get(url(new_voice_id())), 404, "unknown_voice")
    problem(await stage.http.get(url("x")), 422, "invalid_voice_id")
    problem(await stage.http.get(url("x" * 65)), 422, "invalid_request")


async def test_a_voice_deleted_while_it_is_waited_for_is_unknown(stage: ApiStage) -> None:
    voice = await stage.add(a_queued())

    waiting = await begin_to_wait(stage, voice)
    await stage.voices.delete(voice.voice_id)

    problem(await waiting, 404, "unknown_voice")


async def test_a_voice_expires_only_if_no_recording_came_in_time(stage: ApiStage) -> None:
    begin = datetime.now(UTC) - timedelta(minutes=21)
    late, stored = await stage.add(a_waiting(now=begin)), await stage.add(a_waiting(now=begin))
    stage.uploads.put(stored.voice_id, b"a recording whose message is late")
    queued = await stage.add(replace(a_queued(), created_at=begin))

    response = await stage.http.get(url(late.voice_id))
    assert "record again" in problem(response, 422, "upload_expired")
    for voice in (stored, queued):
        waiting = await begin_to_wait(stage, voice)
        await settle()
        assert await stage.voice(voice.voice_id) == voice
        await finish(stage, voice.voice_id)
        assert (await waiting).status_code == 200


async def test_only_the_owner_waits_for_a_voice_that_has_one(stage: ApiStage) -> None:
    stage.verifier = UidTokens()
    voice = await stage.add(replace(a_done(), owner="me"))
    queued = await stage.add(replace(a_queued(), owner="me"))
    me, another = ({"Authorization": f"Bearer uid:{uid}"} for uid in ("me", "x"))

    problem(await stage.http.get(url(voice.voice_id)), 403, "not_owner")
    # A stranger does not wait until it is done, and warms nothing up.
    problem(await stage.http.get(url(queued.voice_id), headers=another), 403, "not_owner")
    assert (stage.container.warm_ups, stage.voices.watchers) == (0, 0)
    assert (await stage.http.get(url(voice.voice_id), headers=me)).status_code == 200

    where_nobody_signs_in = ApiStage(voices=stage.voices).http
    problem(await where_nobody_signs_in.get(url(voice.voice_id), headers=me), 403, "not_owner")


async def call(app: Any, path: str, gone: asyncio.Event) -> list[dict[str, Any]]:
    """Call an application like a server whose client closes the connection."""
    requests = [{"type": "http.request", "body": b"", "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if requests:
            return requests.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    await app(scope, receive, send)
    return sent


async def test_waiting_ends_when_the_client_disconnects(stage: ApiStage) -> None:
    voice, gone = a_queued(), asyncio.Event()
    await stage.voices.create(voice)

    with log_book() as book:
        calling = asyncio.create_task(call(stage.app(), url(voice.voice_id), gone))
        await stage.voices.until_watched()
        gone.set()
        sent = await calling

    assert sent[0]["status"] == 499
    assert stage.voices.watchers == 0
    assert book.of("unexpected_error") == []
