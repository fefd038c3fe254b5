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


async def test_a_recording_longer_than_memory_holds_comes_whole(stage: ApiStage) -> None:
    voice = await waiting(stage)
    content = WEBM + b"\x01" * (MAX_BYTES - len(WEBM))

    response = await put(stage.http, voice.voice_id, content)

    assert response.status_code == 202
    assert stage.uploads.objects[voice.voice_id].data == content


async def test_a_second_recording_for_a_voice_is_refused(stage: ApiStage) -> None:
    voice = await waiting(stage)
    await put(stage.http, voice.voice_id)

    response = await put(stage.http, voice.voice_id, WEBM + b"other")

    detail = problem(response, 409, "already_uploaded")
    assert "create a new voice" in detail
    assert is_sentence(detail)
    assert stage.uploads.objects[voice.voice_id].data == WEBM


async def test_another_recording_of_the_same_size_is_refused(stage: ApiStage) -> None:
    voice = await waiting(stage)
    await put(stage.http, voice.voice_id, WEBM + b"one")

    problem(await put(stage.http, voice.voice_id, WEBM + b"two"), 409, "already_uploaded")
    assert stage.uploads.objects[voice.voice_id].data == WEBM + b"one"


async def test_a_recording_announced_as_another_type_is_another(stage: ApiStage) -> None:
    voice = await waiting(stage)
    await put(stage.http, voice.voice_id)

    response = await put(stage.http, voice.voice_id, content_type="audio/webm")

    problem(response, 409, "already_uploaded")


async def test_a_recording_is_accepted_although_storages_answer_was_lost(tmp_path: Path) -> None:
    class Forgetful(MemoryBucket):
        """Loses the answer to a write, and the library's repetition finds the name used."""

        async def write(self, name: str, content: BinaryIO, **more: Any) -> ObjectFacts:
            await super().write(name, content, **more)
            raise ObjectExistsError(name)

    stage = ApiStage(folder=tmp_path, uploads=Forgetful("uploads"))
    voice = await waiting(stage)

    response = await put(stage.http, voice.voice_id)

    assert response.status_code == 202
    assert stage.uploads.objects[voice.voice_id].data == WEBM


async def test_a_recording_that_is_sent_again_is_taken_in_once(stage: ApiStage) -> None:
    voice = await waiting(stage)
    await put(stage.http, voice.voice_id)
    generation = stage.uploads.objects[voice.voice_id].generation

    assert (await put(stage.http, voice.voice_id)).status_code == 202
    assert stage.uploads.objects[voice.voice_id].generation == generation


async def test_a_recording_erased_during_the_check_does_not_count_as_stored(
    tmp_path: Path,
) -> None:
    class Erased(MemoryBucket):
        async def write(self, name: str, content: BinaryIO, **_more: Any) -> ObjectFacts:
            del content
            raise ObjectExistsError(name)

    stage = ApiStage(folder=tmp_path, uploads=Erased("uploads"))
    voice = await waiting(stage)

    problem(await put(stage.http, voice.voice_id), 409, "already_uploaded")


@pytest.mark.parametrize("state", [state for state in EVERY_STATE if state != "waiting"])
async def test_a_voice_that_has_its_recording_takes_no_other(stage: ApiStage, state: str) -> None:
    voice = await stage.add(EVERY_STATE[state]())

    problem(await put(stage.http, voice.voice_id), 409, "already_uploaded")
    assert stage.uploads.objects == {}
    assert await stage.voice(voice.voice_id) == voice


@pytest.mark.parametrize("more", [1, 20_000, 400_000])
async def test_a_recording_that_is_too_large_fails_its_voice(stage: ApiStage, more: int) -> None:
    voice = await waiting(stage)

    response = await put(
        stage.http, voice.voice_id, WEBM + b"\x01" * (MAX_BYTES - len(WEBM) + more)
    )

    assert str(MAX_BYTES) in problem(response, 413, "too_large")
    assert await error_of(stage, voice) is ErrorCode.TOO_LARGE
    assert stage.uploads.objects == {}


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


async def test_an_oversized_file_for_an_unknown_voice_is_also_too_large(stage: ApiStage) -> None:
    for voice_id in (new_voice_id(), "x", ""):
        problem(await put(stage.http, voice_id, WEBM * 2000), 413, "too_large")


async def test_an_oversized_file_does_not_fail_anothers_voice(stage: ApiStage) -> None:
    stage.verifier = UidTokens()
    voice = await waiting(stage, owner="me")

    problem(await put(stage.http, voice.voice_id, WEBM * 2000), 413, "too_large")

    assert await error_of(stage, voice) is None


@pytest.mark.parametrize(
    ("content", "content_type", "code"),
    [
        (b"<html>", "audio/webm", "unsupported_format"),
        (b"", "audio/webm", "no_audio"),
        (WEBM, "audio/wav", "content_type_mismatch"),
        (WEBM, "text/plain", "content_type_mismatch"),
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


async def test_an_unknown_or_malformed_voice_id_is_told_apart(stage: ApiStage) -> None:
    voice_id = new_voice_id()

    assert voice_id in problem(await put(stage.http, voice_id), 404, "unknown_voice")
    problem(await put(stage.http, "x"), 422, "invalid_voice_id")
    problem(await put(stage.http, voice_id.upper()), 422, "invalid_voice_id")


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"", {}, 415, "unsupported_content_type"),
        (b"{}", {"Content-Type": "application/json"}, 415, "unsupported_content_type"),
        (b"x", {"Content-Type": "multipart/form-data"}, 422, "invalid_request"),
        (b"x", FORM, 422, "invalid_request"),
        (b"--b--\r\n", FORM, 422, "invalid_request"),
        (b"--b\r\n\r\nx\r\n--b--\r\n", FORM, 422, "invalid_request"),
        (
            b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--b--\r\n',
            FORM,
            422,
            "invalid_request",
        ),
        (
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\ncut',
            FORM,
            422,
            "invalid_request",
        ),
    ],
)
async def test_a_malformed_form_is_refused(
    *, stage: ApiStage, content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    problem(await stage.http.put(URL, content=content, headers=headers), status, code)
    assert stage.uploads.objects == {}


@pytest.mark.parametrize("charset", ["undefined", "idna", "punycode", "a\0b", "utf-16", "\xff"])
async def test_no_character_set_but_the_usual_is_looked_up(stage: ApiStage, charset: str) -> None:
    content_type = f"multipart/form-data; boundary=b; charset={charset}".encode("latin-1")
    field = b'--b\r\nContent-Disposition: form-data; name="voice_id"\r\n\r\nx-aaaa\r\n--b--\r\n'

    response = await stage.http.put(URL, content=field, headers={b"content-type": content_type})

    assert "must be UTF-8" in problem(response, 415, "unsupported_content_type")


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", "us-ascii"])
async def test_a_form_may_name_utf_8_as_its_character_set(stage: ApiStage, charset: str) -> None:
    voice = await waiting(stage)
    form = (
        (
            f'--b\r\nContent-Disposition: form-data; name="voice_id"\r\n\r\n{voice.voice_id}\r\n'
            '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n'
            "Content-Type: audio/webm\r\n\r\n"
        ).encode()
        + WEBM
        + b"\r\n--b--\r\n"
    )
    headers = {"Content-Type": f"multipart/form-data; boundary=b; charset={charset}"}

    assert (await stage.http.put(URL, content=form, headers=headers)).status_code == 202


async def test_two_files_in_one_form_are_refused(stage: ApiStage) -> None:
    files = [("file", ("a", WEBM, "audio/webm")), ("file", ("b", WEBM, "audio/webm"))]

    response = await stage.http.put(URL, data={"voice_id": new_voice_id()}, files=files)

    assert "malformed" in problem(response, 422, "invalid_request")


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
    """A form whose end is sent only when the test allows it.

    Args:
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


async def an_upload(stage: ApiStage, size: int = 0) -> Upload:
    voice = await stage.add(a_waiting())
    return Upload(voice.voice_id, size)


def send(
    client: httpx.AsyncClient, upload: Upload, headers: Mapping[str, str]
) -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(client.put(URL, content=upload.body(), headers=dict(headers)))


async def test_a_recording_without_room_is_sent_away_unread_until_there_is_room(
    tmp_path: Path,
) -> None:
    stage = ApiStage(
        folder=tmp_path, upload_memory=UploadMemory(MAX_BYTES, most=2 * COPIES * MAX_BYTES)
    )
    first, second, third = [await an_upload(stage, MAX_BYTES - 100) for _ in range(3)]
    third.goes_on.set()
    under_way = [send(stage.http, each, FORM) for each in (first, second)]
    for each in (first, second):
        await each.is_read.wait()
    await settle()

    with log_book() as book:
        refused = await stage.http.put(URL, content=third.body(), headers=FORM)
    was_read = third.is_read.is_set()
    first.goes_on.set()
    taken = [await under_way[0]]
    taken.append(await stage.http.put(URL, content=third.body(), headers=FORM))
    second.goes_on.set()
    taken.append(await under_way[1])

    assert "try again" in problem(refused, 503, "unavailable")
    assert int(refused.headers["retry-after"]) > 0
    assert not was_read
    assert len(book.of("unavailable")) == 1
    assert [answer.status_code for answer in taken] == [202, 202, 202]


async def test_many_short_recordings_have_the_room_of_one_long_one(tmp_path: Path) -> None:
    stage = ApiStage(
        folder=tmp_path, upload_memory=UploadMemory(MAX_BYTES, most=COPIES * MAX_BYTES)
    )
    uploads = [await an_upload(stage) for _ in range(20)]
    under_way = [send(stage.http, each, each.announced) for each in uploads]
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
    stage = ApiStage(folder=tmp_path, upload_memory=memory)
    first, second = await an_upload(stage), await an_upload(stage)
    second.goes_on.set()
    length = {"Content-Length": announced}
    under_way = send(stage.http, first, FORM)
    await first.is_read.wait()
    await settle()
    refused = await stage.http.put(URL, content=second.body(), headers=FORM | length)
    first.goes_on.set()
    taken = await under_way

    problem(refused, 503, "unavailable")
    assert taken.status_code == 202


async def test_a_recording_larger_than_the_room_is_let_in_alone(tmp_path: Path) -> None:
    stage = ApiStage(folder=tmp_path, upload_memory=UploadMemory(MAX_BYTES, most=1))
    upload = await an_upload(stage)
    upload.goes_on.set()

    answers = [await stage.http.put(URL, content=upload.body(), headers=FORM) for _ in range(2)]

    assert {answer.status_code for answer in answers} == {202}


async def test_a_form_that_is_refused_leaves_its_room(tmp_path: Path) -> None:
    stage = ApiStage(
        folder=tmp_path, upload_memory=UploadMemory(MAX_BYTES, most=COPIES * MAX_BYTES)
    )

    for _ in range(3):
        problem(await stage.http.put(URL, content=b"x", headers=FORM), 422, "invalid_request")


async def test_uploads_that_announce_much_and_send_nothing_leave_the_memory_to_others(
    tmp_path: Path,
) -> None:
    memory = UploadMemory(MAX_BYTES, most=2 * COPIES * MAX_BYTES)
    stage = ApiStage(folder=tmp_path, upload_memory=memory)
    stalled = [await an_upload(stage) for _ in range(10)]
    upload = await an_upload(stage)
    upload.goes_on.set()
    much = FORM | {"Content-Length": str(MAX_BYTES)}
    under_way = [send(stage.http, each, much) for each in stalled]
    await settle()

    answer = await stage.http.put(URL, content=upload.body(), headers=dict(upload.announced))

    for each in stalled:
        each.goes_on.set()
    others = await asyncio.gather(*under_way)

    assert answer.status_code == 202
    assert {each.status_code for each in others} == {202}


async def test_one_client_has_only_so_many_uploads_open(tmp_path: Path) -> None:
    stage = ApiStage(
        folder=tmp_path, limits=RequestLimits(per_minute=0, waiting=3, trusted_proxies=1)
    )
    stalled = [await an_upload(stage) for _ in range(3)]
    mine = FORM | {"Content-Length": str(MAX_BYTES), "X-Forwarded-For": "203.0.113.9"}
    another = await an_upload(stage)
    another.goes_on.set()
    under_way = [send(stage.http, each, mine) for each in stalled]
    await settle()

    refused = await stage.http.put(URL, content=another.body(), headers=mine)
    others = {**another.announced, "X-Forwarded-For": "203.0.113.10"}
    let_in = await stage.http.put(URL, content=another.body(), headers=others)

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
    stage = ApiStage(folder=tmp_path, upload_memory=memory)
    small, large = await an_upload(stage, 20_000), await an_upload(stage, MAX_BYTES - 100)
    large.goes_on.set()
    # It announces less than it sends, which a server would cut off.
    little = FORM | {"Content-Length": "1000"}
    under_way = send(stage.http, small, FORM)
    await small.is_read.wait()
    await settle()

    refused = await stage.http.put(URL, content=large.body(), headers=little)
    small.goes_on.set()
    taken = [await under_way]
    taken.append(await stage.http.put(URL, content=large.body(), headers=FORM))

    problem(refused, 503, "unavailable")
    assert [answer.status_code for answer in taken] == [202, 202]


def test_a_recording_that_does_not_arrive_in_time_is_given_up_and_leaves_its_memory(
    tmp_path: Path,
) -> None:
    @in_virtual_time
    async def run() -> None:
        memory = UploadMemory(MAX_BYTES, most=COPIES * MAX_BYTES)
        stage = ApiStage(folder=tmp_path, upload_memory=memory)
        stalled, next_one = await an_upload(stage, 50_000), await an_upload(stage)
        next_one.goes_on.set()
        late = await send(stage.http, stalled, FORM)
        assert asyncio.get_running_loop().time() == BODY_SECONDS
        taken = await stage.http.put(URL, content=next_one.body(), headers=FORM)

        assert "60 seconds" in problem(late, 408, "request_timeout")
        assert taken.status_code == 202

    run()
