from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from functions.api.limits import RequestLimits
from functions.api.uploads import BODY_SECONDS, COPIES, UploadMemory
from shared.voices.objects import ObjectExistsError
from shared.voices.store import document_path
from shared.voices.voice import ErrorCode, Status, Voice, new_voice_id
from tests.support.buckets import MemoryBucket
from tests.support.logs import log_book
from tests.support.virtual_time import in_virtual_time, settle
from tests.support.voices import EVERY_STATE, a_waiting, is_sentence
from tests.unit.api.stage import FORM, MAX_BYTES, WEBM, ApiStage, UidTokens, problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

    import httpx

    from shared.voices.objects import ObjectFacts


URL = "/api/v1/voices"


async def put(
    client: httpx.AsyncClient,
    voice_id: str,
    content: bytes = WEBM,
    content_type: str = "audio/webm;codecs=opus",
    **headers: str,
) -> httpx.Response:
    return await client.put(
        URL,
        data={"voice_id": voice_id},
        files={"file": ("recording.webm", content, content_type)},
        headers=headers,
    )


async def waiting(stage: ApiStage, owner: str | None = None) -> Voice:
    return await stage.add(a_waiting(owner=owner))


async def error_of(stage: ApiStage, voice: Voice) -> ErrorCode | None:
    stored = await stage.voice(voice.voice_id)
    return stored.error.code if stored.error else None


async def test_a_recording_is_stored_as_after_a_signed_upload(stage: ApiStage) -> None:
    voice = await waiting(stage)

    response = await put(stage.http, voice.voice_id)

    assert response.status_code == 202
    assert response.json() == {
        "voice_id": voice.voice_id,
        "document": document_path(voice.voice_id),
    }
    stored = stage.uploads.objects[voice.voice_id]
    assert (stored.data, stored.content_type) == (WEBM, "audio/webm;codecs=opus")
    assert (await stage.voice(voice.voice_id)).status is Status.WAITING


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (WEBM + b"other", "audio/webm;codecs=opus"),
        (WEBM[:-1] + b"\x01", "audio/webm;codecs=opus"),
        (WEBM, "audio/webm"),
    ],
    ids=["longer", "of the same size", "of another type"],
)
async def test_a_recording_that_is_sent_again_is_taken_in_once_and_another_is_refused(
    stage: ApiStage, content: bytes, content_type: str
) -> None:
    voice = await waiting(stage)
    await put(stage.http, voice.voice_id)
    stored = stage.uploads.objects[voice.voice_id]

    assert (await put(stage.http, voice.voice_id)).status_code == 202
    refused = await put(stage.http, voice.voice_id, content, content_type)

    detail = problem(refused, 409, "already_uploaded")
    assert "create a new voice" in detail
    assert is_sentence(detail)
    assert stage.uploads.objects[voice.voice_id] == stored


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_recording_whose_name_is_found_used_is_accepted_if_it_is_stored_there(
    tmp_path: Path, *, is_stored: bool
) -> None:
    """Storage's answer to a write was lost, and the library's repetition finds the name used."""

    class Forgetful(MemoryBucket):
        async def write(self, name: str, content: BinaryIO, **more: Any) -> ObjectFacts:
            if is_stored:
                await super().write(name, content, **more)
            raise ObjectExistsError(name)

    stage = ApiStage(folder=tmp_path, uploads=Forgetful("uploads"))
    voice = await waiting(stage)

    response = await put(stage.http, voice.voice_id)

    if is_stored:
        assert response.status_code == 202
        assert stage.uploads.objects[voice.voice_id].data == WEBM
    else:
        problem(response, 409, "already_uploaded")


async def test_a_voice_that_has_its_recording_takes_no_other(stage: ApiStage) -> None:
    for state in EVERY_STATE.keys() - {"waiting"}:
        voice = await stage.add(EVERY_STATE[state]())

        problem(await put(stage.http, voice.voice_id), 409, "already_uploaded")
        assert stage.uploads.objects == {}
        assert await stage.voice(voice.voice_id) == voice


@pytest.mark.parametrize("more", [1, 400_000])
async def test_the_largest_recording_is_stored_and_a_larger_one_fails_its_voice(
    stage: ApiStage, more: int
) -> None:
    voice, other = await waiting(stage), await waiting(stage)
    largest = WEBM + b"\x01" * (MAX_BYTES - len(WEBM))

    stored = await put(stage.http, other.voice_id, largest)
    response = await put(stage.http, voice.voice_id, largest + b"\x01" * more)

    assert (stored.status_code, stage.uploads.objects[other.voice_id].data) == (202, largest)
    assert str(MAX_BYTES) in problem(response, 413, "too_large")
    assert await error_of(stage, voice) is ErrorCode.TOO_LARGE
    assert stage.uploads.objects.keys() == {other.voice_id}


async def test_a_stream_without_end_is_cut_off(stage: ApiStage) -> None:
    voice, sent = await waiting(stage), 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        yield (
            b'--b\r\nContent-Disposition: form-data; name="voice_id"\r\n\r\n'
            + voice.voice_id.encode()
            + b'\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
        )
        while True:
            sent += 10_000
            yield b"\x01" * 10_000

    response = await stage.http.put(URL, content=body(), headers=FORM)

    problem(response, 413, "too_large")
    assert sent < 2 * MAX_BYTES
    assert await error_of(stage, voice) is ErrorCode.TOO_LARGE


async def test_an_oversized_file_fails_no_unknown_and_nobody_elses_voice(stage: ApiStage) -> None:
    stage.verifier = UidTokens()
    voice = await waiting(stage, owner="me")

    for voice_id in (new_voice_id(), "x", "", voice.voice_id):
        problem(await put(stage.http, voice_id, WEBM * 2000), 413, "too_large")

    assert await error_of(stage, voice) is None


@pytest.mark.parametrize(
    ("content", "content_type", "code"),
    [
        (b"<html>", "audio/webm", "unsupported_format"),
        (b"", "audio/webm", "no_audio"),
        (WEBM, "audio/wav", "content_type_mismatch"),
        (b"fLaC" + b"\x00" * 50, "audio/webm", "content_type_mismatch"),
    ],
)
async def test_a_file_of_another_type_fails_its_voice(
    *, stage: ApiStage, content: bytes, content_type: str, code: str
) -> None:
    voice = await waiting(stage)

    problem(await put(stage.http, voice.voice_id, content, content_type), 415, code)

    assert await error_of(stage, voice) == code
    assert stage.uploads.objects == {}


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [(b"<html>", 415, "unsupported_format"), (WEBM * 2000, 413, "too_large")],
)
async def test_a_bad_file_does_not_fail_a_voice_whose_good_recording_is_stored_already(
    *, stage: ApiStage, content: bytes, status: int, code: str
) -> None:
    voice = await waiting(stage)
    assert (await put(stage.http, voice.voice_id)).status_code == 202
    stored = dict(stage.uploads.objects)

    problem(await put(stage.http, voice.voice_id, content), status, code)

    assert await error_of(stage, voice) is None
    assert stage.uploads.objects == stored


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b"x", {"Content-Type": "multipart/form-data"}),
        (b"x", FORM),
        (b"--b--\r\n", FORM),
        (b"--b\r\n\r\nx\r\n--b--\r\n", FORM),
        (b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--b--\r\n', FORM),
        (b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\ncut', FORM),
    ],
)
async def test_a_malformed_form_is_refused(
    stage: ApiStage, content: bytes, headers: dict[str, str]
) -> None:
    response = await stage.http.put(URL, content=content, headers=headers)

    problem(response, 422, "invalid_request")
    assert stage.uploads.objects == {}


@pytest.mark.parametrize(
    "content_type",
    [
        *("", "application/json"),
        # Some of Python's codecs take minutes, others raise unexpected errors.
        *(f"{FORM['Content-Type']}; charset={name}" for name in ("punycode", "a\0b", "\xff")),
    ],
)
async def test_only_a_form_in_utf_8_is_read(stage: ApiStage, content_type: str) -> None:
    voice = await waiting(stage)
    form = Upload(voice.voice_id)
    form.goes_on.set()
    headers = {b"content-type": content_type.encode("latin-1")}

    refused = await stage.http.put(URL, content=form.body(), headers=headers)
    named = {"Content-Type": f"{FORM['Content-Type']}; charset=UTF-8"}
    taken = await stage.http.put(URL, content=form.body(), headers=named)

    problem(refused, 415, "unsupported_content_type")
    assert taken.status_code == 202


async def test_only_the_owner_uploads_for_a_voice_that_has_one(stage: ApiStage) -> None:
    stage.verifier = UidTokens()
    voice = await waiting(stage, owner="me")

    problem(await put(stage.http, voice.voice_id), 403, "not_owner")
    other = await put(stage.http, voice.voice_id, Authorization="Bearer uid:other")
    problem(other, 403, "not_owner")
    problem(await put(stage.http, voice.voice_id, Authorization="Bearer x"), 401, "token_refused")
    assert stage.uploads.objects == {}
    mine = await put(stage.http, voice.voice_id, Authorization="Bearer uid:me")
    assert mine.status_code == 202


async def test_storage_out_of_reach_loses_nothing(stage: ApiStage) -> None:
    voice = await waiting(stage)
    stage.uploads.is_out_of_reach = True
    problem(await put(stage.http, voice.voice_id), 503, "unavailable")
    assert await error_of(stage, voice) is None

    stage.uploads.is_out_of_reach = False
    assert (await put(stage.http, voice.voice_id)).status_code == 202


class Upload:
    """A form that stops after `size` bytes, and ends when the test allows it."""

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


def stage_for(recordings: int) -> ApiStage:
    """An api with memory for recordings of so many bytes."""
    memory = UploadMemory(MAX_BYTES, most=COPIES * recordings or 1)
    return ApiStage(upload_memory=memory)


async def an_upload(stage: ApiStage, size: int = 0) -> Upload:
    voice = await stage.add(a_waiting())
    return Upload(voice.voice_id, size)


def send(
    client: httpx.AsyncClient, upload: Upload, headers: Mapping[str, str]
) -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(client.put(URL, content=upload.body(), headers=dict(headers)))


async def test_a_recording_without_room_is_sent_away_unread_until_there_is_room() -> None:
    stage = stage_for(2 * MAX_BYTES)
    first, second, third = [await an_upload(stage, MAX_BYTES - 100) for _ in range(3)]
    third.goes_on.set()
    under_way = [send(stage.http, each, FORM) for each in (first, second)]
    await settle()

    with log_book() as book:
        refused = await stage.http.put(URL, content=third.body(), headers=FORM)
    was_read = third.is_read.is_set()
    first.goes_on.set()
    taken = [await under_way[0], await send(stage.http, third, FORM)]
    second.goes_on.set()
    taken.append(await under_way[1])

    assert "try again" in problem(refused, 503, "unavailable")
    assert int(refused.headers["retry-after"]) > 0
    assert not was_read
    assert len(book.of("unavailable")) == 1
    assert [answer.status_code for answer in taken] == [202, 202, 202]


@pytest.mark.parametrize("announced", ["", "-1", "1e9", "1" * 5000])
async def test_what_announces_no_length_that_can_be_counts_as_the_largest(announced: str) -> None:
    stage = stage_for(MAX_BYTES)
    first, second = await an_upload(stage), await an_upload(stage)
    second.goes_on.set()
    under_way = send(stage.http, first, FORM)
    await settle()

    refused = await send(stage.http, second, FORM | {"Content-Length": announced})
    first.goes_on.set()

    problem(refused, 503, "unavailable")
    assert (await under_way).status_code == 202


async def test_a_recording_larger_than_the_room_is_let_in_alone_and_leaves_it() -> None:
    stage = stage_for(0)
    upload = await an_upload(stage)
    upload.goes_on.set()

    for _ in range(2):
        problem(await stage.http.put(URL, content=b"x", headers=FORM), 422, "invalid_request")
        assert (await send(stage.http, upload, FORM)).status_code == 202


async def test_uploads_that_announce_much_and_send_nothing_leave_the_memory_to_others() -> None:
    stage = stage_for(2 * MAX_BYTES)
    stalled = [await an_upload(stage) for _ in range(10)]
    upload = await an_upload(stage)
    much = FORM | {"Content-Length": str(MAX_BYTES)}
    under_way = [send(stage.http, each, much) for each in stalled]
    await settle()

    upload.goes_on.set()
    answer = await send(stage.http, upload, upload.announced)
    for each in stalled:
        each.goes_on.set()

    assert {each.status_code for each in [answer, *await asyncio.gather(*under_way)]} == {202}


async def test_one_client_has_only_so_many_uploads_open(tmp_path: Path) -> None:
    stage = ApiStage(
        folder=tmp_path, limits=RequestLimits(per_minute=0, waiting=3, trusted_proxies=1)
    )
    stalled = [await an_upload(stage) for _ in range(3)]
    mine, others = (FORM | {"X-Forwarded-For": f"203.0.113.{number}"} for number in (9, 10))
    another = await an_upload(stage)
    another.goes_on.set()
    under_way = [send(stage.http, each, mine) for each in stalled]
    await settle()

    refused = await send(stage.http, another, mine)
    let_in = await send(stage.http, another, others)
    for each in stalled:
        each.goes_on.set()

    assert "3 recordings" in problem(refused, 429, "rate_limited")
    assert {each.status_code for each in [let_in, *await asyncio.gather(*under_way)]} == {202}


async def test_a_recording_that_outgrows_the_memory_is_refused_and_leaves_its_memory() -> None:
    stage = stage_for(MAX_BYTES + 10_000)
    small, large = await an_upload(stage, 20_000), await an_upload(stage, MAX_BYTES - 100)
    large.goes_on.set()
    under_way = send(stage.http, small, FORM)
    await settle()

    # It announces less than it sends, which a server would cut off.
    refused = await send(stage.http, large, FORM | {"Content-Length": "1000"})
    small.goes_on.set()
    taken = [await under_way, await send(stage.http, large, FORM)]

    problem(refused, 503, "unavailable")
    assert [answer.status_code for answer in taken] == [202, 202]


@in_virtual_time
async def test_a_recording_that_does_not_arrive_in_time_is_given_up_and_leaves_its_memory() -> None:
    stage = stage_for(MAX_BYTES)
    stalled, next_one = await an_upload(stage, 50_000), await an_upload(stage)
    next_one.goes_on.set()

    late = await send(stage.http, stalled, FORM)
    assert asyncio.get_running_loop().time() == BODY_SECONDS
    taken = await send(stage.http, next_one, FORM)

    assert "60 seconds" in problem(late, 408, "request_timeout")
    assert taken.status_code == 202
