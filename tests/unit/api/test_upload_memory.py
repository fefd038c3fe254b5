from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from functions.api.protection.limits import RequestLimits
from functions.api.taking.multipart import BODY_SECONDS
from functions.api.taking.upload_memory import COPIES, UploadMemory
from tests.support.logs import log_book
from tests.support.virtual_time import in_virtual_time, settle
from tests.support.voices import a_waiting
from tests.unit.api.stage import FORM, MAX_BYTES, WEBM, Stage, problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    import httpx

URL = "/api/v1/voices"


class Upload:
    """A form whose end is sent only when the test allows it.

    Args:
        voice_id: whose recording it is.
        size: how many bytes of it are sent before it stops.
    """

    def __init__(self, voice_id: str, size: int = 0) -> None:
        self._head = (
            '--b\r\nContent-Disposition: form-data; name="voice_id"\r\n\r\n'
            f"{voice_id}\r\n"
            '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n'
            "Content-Type: audio/webm\r\n\r\n"
        ).encode() + WEBM
        self._head += b"\x01" * (size - len(self._head))
        self._end = b"\r\n--b--\r\n"
        self.is_read = asyncio.Event()
        self.goes_on = asyncio.Event()

    @property
    def announced(self) -> Mapping[str, str]:
        return FORM | {"Content-Length": str(len(self._head + self._end))}

    async def body(self) -> AsyncIterator[bytes]:
        self.is_read.set()
        yield self._head
        await self.goes_on.wait()
        yield self._end


async def an_upload(stage: Stage, size: int = 0) -> Upload:
    voice = a_waiting()
    await stage.voices.create(voice)
    return Upload(voice.voice_id, size)


def send(
    client: httpx.AsyncClient, upload: Upload, headers: Mapping[str, str]
) -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(client.put(URL, content=upload.body(), headers=dict(headers)))


async def test_a_recording_without_room_is_sent_away_unread_until_there_is_room(
    tmp_path: Path,
) -> None:
    stage = Stage(
        folder=tmp_path, upload_memory=UploadMemory(MAX_BYTES, most=2 * COPIES * MAX_BYTES)
    )
    first, second, third = [await an_upload(stage, MAX_BYTES - 100) for _ in range(3)]
    third.goes_on.set()
    async with stage.client() as client:
        under_way = [send(client, each, FORM) for each in (first, second)]
        for each in (first, second):
            await each.is_read.wait()
        await settle()

        with log_book() as book:
            refused = await client.put(URL, content=third.body(), headers=FORM)
        was_read = third.is_read.is_set()
        first.goes_on.set()
        taken = [await under_way[0]]
        taken.append(await client.put(URL, content=third.body(), headers=FORM))
        second.goes_on.set()
        taken.append(await under_way[1])

    assert "try again" in problem(refused, 503, "unavailable")
    assert int(refused.headers["retry-after"]) > 0
    assert not was_read
    assert len(book.of("unavailable")) == 1
    assert [answer.status_code for answer in taken] == [202, 202, 202]


async def test_many_short_recordings_have_the_room_of_one_long_one(tmp_path: Path) -> None:
    stage = Stage(folder=tmp_path, upload_memory=UploadMemory(MAX_BYTES, most=COPIES * MAX_BYTES))
    uploads = [await an_upload(stage) for _ in range(20)]
    async with stage.client() as client:
        under_way = [send(client, each, each.announced) for each in uploads]
        for each in uploads:
            await each.is_read.wait()
            each.goes_on.set()
        answers = await asyncio.gather(*under_way)

    assert {answer.status_code for answer in answers} == {202}


@pytest.mark.parametrize("announced", ["", "-1", "1e9", "1" * 13, "1" * 5000])
async def test_what_announces_no_length_that_can_be_counts_as_the_largest(
    tmp_path: Path, announced: str
) -> None:
    memory = UploadMemory(MAX_BYTES, most=COPIES * MAX_BYTES)
    stage = Stage(folder=tmp_path, upload_memory=memory)
    first, second = await an_upload(stage), await an_upload(stage)
    second.goes_on.set()
    length = {"Content-Length": announced}
    async with stage.client() as client:
        under_way = send(client, first, FORM)
        await first.is_read.wait()
        await settle()
        refused = await client.put(URL, content=second.body(), headers=FORM | length)
        first.goes_on.set()
        taken = await under_way

    problem(refused, 503, "unavailable")
    assert taken.status_code == 202


async def test_a_recording_larger_than_the_room_is_let_in_alone(tmp_path: Path) -> None:
    stage = Stage(folder=tmp_path, upload_memory=UploadMemory(MAX_BYTES, most=1))
    upload = await an_upload(stage)
    upload.goes_on.set()

    async with stage.client() as client:
        answers = [await client.put(URL, content=upload.body(), headers=FORM) for _ in range(2)]

    assert {answer.status_code for answer in answers} == {202}


async def test_a_form_that_is_refused_leaves_its_room(tmp_path: Path) -> None:
    stage = Stage(folder=tmp_path, upload_memory=UploadMemory(MAX_BYTES, most=COPIES * MAX_BYTES))

    async with stage.client() as client:
        for _ in range(3):
            problem(await client.put(URL, content=b"x", headers=FORM), 422, "invalid_request")


async def test_uploads_that_announce_much_and_send_nothing_leave_the_memory_to_others(
    tmp_path: Path,
) -> None:
    memory = UploadMemory(MAX_BYTES, most=2 * COPIES * MAX_BYTES)
    stage = Stage(folder=tmp_path, upload_memory=memory)
    stalled = [await an_upload(stage) for _ in range(10)]
    upload = await an_upload(stage)
    upload.goes_on.set()
    much = FORM | {"Content-Length": str(MAX_BYTES)}
    async with stage.client() as client:
        under_way = [send(client, each, much) for each in stalled]
        await settle()

        answer = await client.put(URL, content=upload.body(), headers=dict(upload.announced))

        for each in stalled:
            each.goes_on.set()
        others = await asyncio.gather(*under_way)

    assert answer.status_code == 202
    assert {each.status_code for each in others} == {202}


async def test_one_client_has_only_so_many_uploads_open(tmp_path: Path) -> None:
    stage = Stage(folder=tmp_path, limits=RequestLimits(per_minute=0, waiting=3, trusted_proxies=1))
    stalled = [await an_upload(stage) for _ in range(3)]
    mine = FORM | {"Content-Length": str(MAX_BYTES), "X-Forwarded-For": "203.0.113.9"}
    another = await an_upload(stage)
    another.goes_on.set()
    async with stage.client() as client:
        under_way = [send(client, each, mine) for each in stalled]
        await settle()

        refused = await client.put(URL, content=another.body(), headers=mine)
        others = {**another.announced, "X-Forwarded-For": "203.0.113.10"}
        let_in = await client.put(URL, content=another.body(), headers=others)

        for each in stalled:
            each.goes_on.set()
        answers = await asyncio.gather(*under_way)

    assert "3 recordings" in problem(refused, 429, "rate_limited")
    assert let_in.status_code == 202
    assert {each.status_code for each in answers} == {202}


async def test_a_recording_that_outgrows_the_memory_is_refused_and_leaves_its_memory(
    tmp_path: Path,
) -> None:
    memory = UploadMemory(MAX_BYTES, most=COPIES * (MAX_BYTES + 10_000))
    stage = Stage(folder=tmp_path, upload_memory=memory)
    small, large = await an_upload(stage, 20_000), await an_upload(stage, MAX_BYTES - 100)
    large.goes_on.set()
    # It announces less than it sends, which a server would cut off.
    little = FORM | {"Content-Length": "1000"}
    async with stage.client() as client:
        under_way = send(client, small, FORM)
        await small.is_read.wait()
        await settle()

        refused = await client.put(URL, content=large.body(), headers=little)
        small.goes_on.set()
        taken = [await under_way]
        taken.append(await client.put(URL, content=large.body(), headers=FORM))

    problem(refused, 503, "unavailable")
    assert [answer.status_code for answer in taken] == [202, 202]


def test_a_recording_that_does_not_arrive_in_time_is_given_up_and_leaves_its_memory(
    tmp_path: Path,
) -> None:
    @in_virtual_time
    async def run() -> None:
        memory = UploadMemory(MAX_BYTES, most=COPIES * MAX_BYTES)
        stage = Stage(folder=tmp_path, upload_memory=memory)
        stalled, next_one = await an_upload(stage, 50_000), await an_upload(stage)
        next_one.goes_on.set()
        async with stage.client() as client:
            late = await send(client, stalled, FORM)
            assert asyncio.get_running_loop().time() == BODY_SECONDS
            taken = await client.put(URL, content=next_one.body(), headers=FORM)

        assert "60 seconds" in problem(late, 408, "request_timeout")
        assert taken.status_code == 202

    run()
