from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from functions.dead_letter.giving_up import DeadLetterHandler
from infra.local.memory_voices import MemoryVoices
from shared.topics import PushMessage
from shared.voice import LEASE, ErrorCode, LeaseHeldError, Status, new_voice_id
from tests.support.logs import LogBook, log_book
from tests.support.messages import conversion_message, upload_notification
from tests.support.voices import (
    EVERY_STATE,
    NOW,
    SECOND,
    a_converting,
    a_queued,
    a_waiting,
    an_upload,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shared.voice import Voice


def about_upload(voice: Voice) -> PushMessage:
    return upload_notification(an_upload(voice.voice_id))


def about_conversion(voice: Voice) -> PushMessage:
    return conversion_message(voice.voice_id)


@pytest.fixture
def book() -> Iterator[LogBook]:
    with log_book() as kept:
        yield kept


@pytest.fixture
def voices() -> MemoryVoices:
    return MemoryVoices(now=lambda: NOW + LEASE + SECOND)


@pytest.mark.parametrize("about", [about_upload, about_conversion])
@pytest.mark.parametrize("state", ["waiting", "queued", "converting"])
async def test_the_voice_of_a_dead_letter_is_failed(
    voices: MemoryVoices, book: LogBook, about: Callable[[Voice], PushMessage], state: str
) -> None:
    voice = EVERY_STATE[state]()
    await voices.create(voice)

    await DeadLetterHandler(voices).handle(about(voice))

    failed = (await voices.read(voice.voice_id)).voice
    assert (failed.status, failed.lease_expires_at) == (Status.FAILED, None)
    assert failed.error is not None
    assert failed.error.code is ErrorCode.ATTEMPTS_EXHAUSTED
    assert "record again" in failed.error.message
    assert [entry["voice_id"] for entry in book.of("dead_lettered")] == [voice.voice_id]
    assert [entry["severity"] for entry in book.of("dead_lettered")] == ["ERROR"]


@pytest.mark.parametrize("about", [about_upload, about_conversion])
async def test_a_dead_letter_that_comes_twice_changes_nothing_more(
    voices: MemoryVoices, book: LogBook, about: Callable[[Voice], PushMessage]
) -> None:
    voice = a_queued()
    await voices.create(voice)
    handler = DeadLetterHandler(voices)

    await handler.handle(about(voice))
    first = await voices.read(voice.voice_id)
    await handler.handle(about(voice))

    assert await voices.read(voice.voice_id) == first
    assert len(book.of("duplicate")) == 1


@pytest.mark.parametrize("state", ["done", "failed"])
async def test_a_voice_that_is_over_keeps_its_end(voices: MemoryVoices, state: str) -> None:
    voice = EVERY_STATE[state]()
    await voices.create(voice)

    await DeadLetterHandler(voices).handle(about_conversion(voice))

    assert (await voices.read(voice.voice_id)).voice == voice


async def test_while_a_worker_has_the_voice_the_dead_letter_comes_again() -> None:
    voices, voice = MemoryVoices(now=lambda: NOW + SECOND), a_converting()
    await voices.create(voice)

    with pytest.raises(LeaseHeldError):
        await DeadLetterHandler(voices).handle(about_conversion(voice))

    assert (await voices.read(voice.voice_id)).voice == voice


async def test_a_dead_letter_of_a_deleted_voice_is_over(
    voices: MemoryVoices, book: LogBook
) -> None:
    await DeadLetterHandler(voices).handle(about_conversion(a_waiting()))

    assert (len(book.of("dead_lettered")), len(book.of("duplicate"))) == (1, 1)


@pytest.mark.parametrize(
    "message",
    [
        PushMessage(b""),
        PushMessage(b"garbage"),
        PushMessage(b"{}"),
        upload_notification(an_upload(new_voice_id(), object="stray")),
    ],
)
async def test_a_dead_letter_that_names_no_voice_is_seen_all_the_same(
    voices: MemoryVoices, book: LogBook, message: PushMessage
) -> None:
    await DeadLetterHandler(voices).handle(message)

    (entry,) = book.of("dead_lettered")
    assert entry["message"] == "dead letter that names no voice"
