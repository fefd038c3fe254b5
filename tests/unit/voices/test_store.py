from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.cloud.memory import MemoryVoices
from shared.voices.store import (
    COMPETITION_LIMIT,
    ConflictError,
    LatestState,
    Snapshot,
    StoreUnavailableError,
    UnknownVoiceError,
    change,
    document_path,
    from_document,
    to_document,
)
from shared.voices.voice import LEASE, LeaseHeldError, lease
from tests.support.stores import CountedVoices
from tests.support.voices import (
    EVERY_STATE,
    NOW,
    a_done,
    a_failed,
    a_queued,
    a_text,
    a_waiting,
    an_upload,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shared.voices.voice import Voice


class ContestedVoices(MemoryVoices):
    """A store in which another writer changes the document a given number of times."""

    def __init__(self, rivals: int) -> None:
        super().__init__()
        self.rivals_left = rivals

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        if self.rivals_left:
            self.rivals_left -= 1
            theirs = replace(snapshot.voice, attempt=snapshot.voice.attempt + 1)
            await super().replace(snapshot, theirs)
        return await super().replace(snapshot, voice)


def rename(voice: Voice, _now: datetime) -> Voice:
    return replace(voice, character="new")


async def test_a_change_is_made_on_top_of_what_rivals_wrote_and_gives_up_if_it_always_loses() -> (
    None
):
    store, voice = ContestedVoices(COMPETITION_LIMIT - 1), a_waiting()
    await store.create(voice)

    snapshot = await change(store, voice.voice_id, rename)
    store.rivals_left = COMPETITION_LIMIT
    with pytest.raises(ConflictError, match=f"{COMPETITION_LIMIT} times in a row"):
        await change(store, voice.voice_id, rename)

    assert (snapshot.voice.character, snapshot.voice.attempt) == ("new", COMPETITION_LIMIT - 1)


@pytest.mark.parametrize("changes", [{}, {"attempt": 7}])
async def test_a_voice_that_was_read_just_now_is_read_again_only_if_it_has_changed_since(
    changes: dict[str, Any],
) -> None:
    store, voice = CountedVoices(), a_waiting()
    await store.create(voice)
    known = await store.read(voice.voice_id)
    if changes:
        await store.replace(known, replace(voice, **changes))

    snapshot = await change(store, voice.voice_id, rename, known)

    wanted = rename(replace(voice, **changes), NOW)
    assert (snapshot.voice, store.reads) == (wanted, 2 if changes else 1)


class ForgetfulVoices(CountedVoices):
    """Writes, but loses its first answer, so that the repeated write conflicts."""

    has_answered = False

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        written = await super().replace(snapshot, voice)
        if not self.has_answered:
            self.has_answered = True
            raise ConflictError("the retry of a write that had succeeded")
        return written


async def test_a_change_whose_answer_was_lost_is_not_made_again() -> None:
    store, voice = ForgetfulVoices(), a_waiting()
    await store.create(voice)

    snapshot = await change(
        store, voice.voice_id, lambda each, _now: replace(each, attempt=each.attempt + 1)
    )

    assert (snapshot.voice.attempt, store.reads) == (1, 2)
    # It can be written upon.
    assert (await store.replace(snapshot, voice)).voice == voice


async def test_only_one_of_two_simultaneous_workers_gets_the_lease() -> None:
    store, voice = MemoryVoices(now=lambda: NOW), a_queued()
    await store.create(voice)

    def take_for(length: timedelta) -> Callable[[Voice, datetime], Voice]:
        return lambda each, now: lease(each, now, an_upload(each.voice_id), length=length)

    first, second = (LEASE - timedelta(microseconds=number) for number in (1, 2))
    known = await store.read(voice.voice_id)
    outcomes = await asyncio.gather(
        *(change(store, voice.voice_id, take_for(each), known) for each in (first, second)),
        return_exceptions=True,
    )

    assert sorted(isinstance(outcome, LeaseHeldError) for outcome in outcomes) == [False, True]


async def test_a_transition_gets_the_stores_time_and_may_refuse() -> None:
    store, voice = MemoryVoices(), a_waiting()
    with pytest.raises(UnknownVoiceError):
        await change(store, voice.voice_id, rename)
    await store.create(voice)
    before = (await store.read(voice.voice_id)).read_at

    def refuse(_voice: Voice, now: datetime) -> Voice:
        assert now >= before
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await change(store, voice.voice_id, refuse)
    assert (await store.read(voice.voice_id)).voice == voice


DOCUMENTS = EVERY_STATE | {"text": a_text}


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    else:
        yield value


@pytest.mark.parametrize("state", DOCUMENTS)
def test_a_voice_survives_its_document_which_holds_only_what_firestore_stores(state: str) -> None:
    voice = DOCUMENTS[state]()

    document = to_document(voice)

    assert from_document(voice.voice_id, document) == voice
    kinds = {type(leaf) for leaf in leaves(document)}
    assert kinds <= {str, int, float, bool, type(None), datetime}


def test_the_path_and_the_fields_are_those_that_clients_read() -> None:
    document = to_document(a_done())

    assert " ".join(document) == (
        "character created_at updated_at expire_at status options owner owns_character client input"
        " attempt handed_back lease_expires_at stage result error timings"
    )
    assert (document["status"], document["created_at"]) == ("done", NOW)
    assert set(document["result"]) >= {"bucket", "object", "url", "url_expires_at", "sha256"}
    assert document["options"] == {
        "pitch_shift": None,
        "output_format": "wav",
        "content_type": "audio/webm",
        "speaking": None,
    }
    error = {"code": "silent", "message": "There is no voice in the recording."}
    assert to_document(a_failed())["error"] == error
    assert document_path("abc") == "shards/2/voices/abc"


def test_a_document_of_another_form_or_without_a_necessary_field_is_not_read() -> None:
    whole = to_document(a_waiting())
    wrong: list[dict[str, Any]] = [
        {"status": "lost"},
        {"options": None},
        {"input": {"x": 1}},
        {"result": {}},
        {"error": {"code": "unheard_of", "message": ""}},
    ]
    without = [
        {key: value for key, value in whole.items() if key != name}
        for name in ("character", "created_at", "options", "status")
    ]
    for document in [*(whole | changes for changes in wrong), *without]:
        with pytest.raises((KeyError, TypeError, ValueError)):
            from_document("x", document)


def test_fields_of_later_versions_are_ignored() -> None:
    voice = a_done()
    document = to_document(voice) | {"mood": "good", "voice_id": "of another voice"}
    for part in ("options", "input", "result"):
        document[part] |= {"mood": "good"}

    assert from_document(voice.voice_id, document) == voice


async def test_the_newest_state_is_returned_until_an_error_ends_the_waiting() -> None:
    latest, newest = LatestState(), a_queued()
    latest.put(a_waiting())
    latest.put(newest)

    async with aclosing(latest.states()) as states:
        assert await anext(states) == newest
        latest.put(None)
        assert await anext(states) is None
        latest.put(newest)
        latest.fail(StoreUnavailableError("gone"))
        with pytest.raises(StoreUnavailableError, match="gone"):
            await anext(states)
