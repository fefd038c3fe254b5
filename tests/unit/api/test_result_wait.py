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
    from pathlib import Path

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


async def test_the_listener_saves_the_read_of_the_document(stage: ApiStage) -> None:
    voice, done = a_queued(), a_done()
    await stage.voices.create(voice)
    await stage.voices.create(done)

    waiting = await begin_to_wait(stage, voice)
    at_once = await stage.http.get(url(done.voice_id))
    reads = stage.voices.reads
    await finish(stage, voice.voice_id)

    assert reads == 0
    assert [at_once.status_code, (await waiting).status_code] == [200, 200]


def test_a_store_that_does_not_report_the_voice_counts_as_unavailable(tmp_path: Path) -> None:
    class Mute(WatchedVoices):
        @asynccontextmanager
        async def watch(self, _voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
            yield self._nothing()

        async def _nothing(self) -> AsyncIterator[Voice | None]:
            await asyncio.Event().wait()
            yield None

    @in_virtual_time
    async def run() -> None:
        stage = ApiStage(folder=tmp_path, wait_seconds=50.0, voices=Mute())
        response = await stage.http.get(url(new_voice_id()))
        problem(response, 503, "unavailable")
        assert asyncio.get_running_loop().time() < 50.0

    run()


async def test_waiting_for_an_unreadable_voice_ends_at_once(tmp_path: Path) -> None:
    class Unreadable(WatchedVoices):
        @asynccontextmanager
        async def watch(self, voice_id: str) -> AsyncIterator[AsyncIterator[Voice | None]]:
            async with super().watch(voice_id) as states:
                yield self._broken(voice_id, states)

        async def _broken(
            self, voice_id: str, states: AsyncIterator[Voice | None]
        ) -> AsyncIterator[Voice | None]:
            async for _ in states:
                raise UnreadableVoiceError(voice_id, KeyError("options"))
            yield None

    async with ApiStage(folder=tmp_path, voices=Unreadable()).client() as client:
        response = await client.get(url(new_voice_id()))

    assert "create a new one" in problem(response, 409, "unreadable_voice")


async def test_many_wait_for_the_same_voice(stage: ApiStage) -> None:
    voice = await stage.add(a_queued())

    waiting = [asyncio.create_task(stage.http.get(url(voice.voice_id))) for _ in range(20)]
    await stage.voices.until_watched(20)
    await finish(stage, voice.voice_id)

    assert {response.status_code for response in await asyncio.gather(*waiting)} == {200}
    assert stage.container.warm_ups <= 20


def test_a_client_that_waits_too_long_may_call_again(tmp_path: Path) -> None:
    @in_virtual_time
    async def run() -> None:
        stage, voice = ApiStage(folder=tmp_path, wait_seconds=50.0), a_converting()
        await stage.voices.create(voice)
        response = await stage.http.get(url(voice.voice_id))
        assert "call again" in problem(response, 504, "still_converting")
        assert response.headers["retry-after"] == "1"
        assert asyncio.get_running_loop().time() >= 50.0

        again = asyncio.create_task(stage.http.get(url(voice.voice_id)))
        await asyncio.sleep(1)
        await finish(stage, voice.voice_id)
        assert (await again).status_code == 200

    run()


async def test_an_unknown_or_malformed_voice_id_is_told_apart(stage: ApiStage) -> None:
    problem(await stage.http.get(url(new_voice_id())), 404, "unknown_voice")
    problem(await stage.http.get(url("x")), 422, "invalid_voice_id")
    problem(await stage.http.get(url("x" * 65)), 422, "invalid_request")


async def test_a_voice_deleted_while_it_is_waited_for_is_unknown(stage: ApiStage) -> None:
    voice = await stage.add(a_queued())

    waiting = await begin_to_wait(stage, voice)
    await stage.voices.delete(voice.voice_id)

    problem(await waiting, 404, "unknown_voice")


async def test_a_voice_whose_upload_address_expired_unused_is_failed(stage: ApiStage) -> None:
    voice = await stage.add(a_waiting(now=datetime.now(UTC) - timedelta(minutes=21)))

    response = await stage.http.get(url(voice.voice_id))

    assert "record again" in problem(response, 422, "upload_expired")


async def test_a_voice_whose_recording_is_there_does_not_expire_though_its_message_is_late(
    stage: ApiStage,
) -> None:
    voice = await stage.add(a_waiting(now=datetime.now(UTC) - timedelta(minutes=21)))
    stage.uploads.put(voice.voice_id, b"a recording")

    waiting = await begin_to_wait(stage, voice)
    await settle()
    assert await stage.voice(voice.voice_id) == voice
    await finish(stage, voice.voice_id)

    assert (await waiting).status_code == 200


async def test_only_the_owner_waits_for_a_voice_that_has_one(stage: ApiStage) -> None:
    stage.verifier = UidTokens()
    voice = await stage.add(replace(a_done(), owner="me"))

    problem(await stage.http.get(url(voice.voice_id)), 403, "not_owner")
    mine = await stage.http.get(url(voice.voice_id), headers={"Authorization": "Bearer uid:me"})

    assert mine.status_code == 200


async def test_a_stranger_is_refused_before_the_voice_is_done_and_warms_nothing_up(
    stage: ApiStage,
) -> None:
    stage.verifier = UidTokens()
    voice = await stage.add(replace(a_queued(), owner="me"))

    refused = await stage.http.get(url(voice.voice_id), headers={"Authorization": "Bearer uid:x"})

    problem(refused, 403, "not_owner")
    assert (stage.container.warm_ups, stage.voices.watchers) == (0, 0)


async def test_without_sign_in_nobody_may_read_an_owned_voice(stage: ApiStage) -> None:
    voice = await stage.add(replace(a_done(), owner="me"))

    response = await stage.http.get(url(voice.voice_id), headers={"Authorization": "Bearer uid:me"})

    problem(response, 403, "not_owner")


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

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [],
        "client": ("127.0.0.1", 1),
        "server": ("api.test", 80),
    }
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


async def test_an_endpoint_that_is_cancelled_stops_listening(stage: ApiStage) -> None:
    voice = await stage.add(a_queued())

    calling = asyncio.create_task(call(stage.app(), url(voice.voice_id), asyncio.Event()))
    await stage.voices.until_watched()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await settle()

    assert stage.voices.watchers == 0


async def test_an_upload_that_came_in_time_is_not_expired(stage: ApiStage) -> None:
    voice = await stage.add(replace(a_queued(), created_at=datetime.now(UTC) - timedelta(hours=1)))

    waiting = await begin_to_wait(stage, voice)
    await finish(stage, voice.voice_id)

    assert (await waiting).status_code == 200
