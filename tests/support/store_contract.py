"""The contract of `VoiceStore`: each adapter's tests inherit it and define the fixture `store`."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from shared.voices import voice as voices_of
from shared.voices.store import (
    ConflictError,
    UnknownVoiceError,
    VoiceExistsError,
    change,
)
from shared.voices.voice import LeaseHeldError, Status
from tests.support.voices import (
    EVERY_STATE,
    NOW,
    a_done,
    a_queued,
    a_waiting,
    an_upload,
    stored,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.voices.store import VoiceStore
    from shared.voices.voice import Voice


async def until(states: AsyncIterator[Voice | None], wanted: Status | None) -> Voice | None:
    """Read states until one has the wanted status; None waits for the document's deletion."""
    async for voice in states:
        if (voice.status if voice else None) is wanted:
            return voice
    raise AssertionError("the iteration ended")


class VoiceStoreContract:
    @pytest.mark.parametrize("state", EVERY_STATE)
    async def test_a_voice_is_read_as_it_was_created(self, store: VoiceStore, state: str) -> None:
        voice = EVERY_STATE[state]()

        await store.create(voice)

        assert (await store.read(voice.voice_id)).voice == voice

    async def test_a_voice_is_created_once(self, store: VoiceStore) -> None:
        voice = a_waiting()
        await store.create(voice)
        # Its answer was lost, and the creation is tried again.
        await store.create(voice)

        with pytest.raises(VoiceExistsError, match=voice.voice_id):
            await store.create(replace(voice, character="other"))

        assert (await store.read(voice.voice_id)).voice == voice

    async def test_an_unknown_voice_is_named(self, store: VoiceStore) -> None:
        voice_id = voices_of.new_voice_id()

        with pytest.raises(UnknownVoiceError, match=voice_id) as caught:
            await store.read(voice_id)

        assert caught.value.voice_id == voice_id

    async def test_a_voice_is_replaced_by_the_one_who_read_it(self, store: VoiceStore) -> None:
        voice = a_waiting()
        first = await stored(store, voice)
        queued = voices_of.queue(voice, NOW, an_upload(voice.voice_id))

        second = await store.replace(first, queued)
        failed = voices_of.fail(queued, NOW, voices_of.VoiceError(voices_of.ErrorCode.CORRUPT, "x"))
        third = await store.replace(second, failed)

        assert (second.voice, third.voice) == (queued, failed)
        assert (await store.read(voice.voice_id)).voice == failed

    async def test_whoever_read_an_older_state_changes_nothing(self, store: VoiceStore) -> None:
        voice = a_waiting()
        old = await stored(store, voice)
        queued = voices_of.queue(voice, NOW, an_upload(voice.voice_id))
        await store.replace(old, queued)

        with pytest.raises(ConflictError, match=voice.voice_id):
            await store.replace(old, replace(voice, character="late"))

        assert (await store.read(voice.voice_id)).voice == queued

    async def test_of_two_who_read_the_same_one_replaces_it(self, store: VoiceStore) -> None:
        snapshot = await stored(store, a_waiting())
        wishes = [replace(snapshot.voice, character=name) for name in ("one", "two")]

        outcomes = await asyncio.gather(
            *(store.replace(snapshot, wish) for wish in wishes), return_exceptions=True
        )

        assert sorted(isinstance(outcome, ConflictError) for outcome in outcomes) == [False, True]
        winner = next(
            wish
            for wish, end in zip(wishes, outcomes, strict=True)
            if not isinstance(end, BaseException)
        )
        assert (await store.read(snapshot.voice.voice_id)).voice == winner

    async def test_a_deleted_voice_does_not_come_back(self, store: VoiceStore) -> None:
        snapshot = await stored(store, a_waiting())
        voice_id = snapshot.voice.voice_id

        await store.delete(voice_id)
        await store.delete(voice_id)

        with pytest.raises(ConflictError):
            await store.replace(snapshot, snapshot.voice)
        with pytest.raises(UnknownVoiceError):
            await store.read(voice_id)

    async def test_the_unchanged_voices_of_a_status_come_oldest_first(
        self, store: VoiceStore
    ) -> None:
        # A time of their own, because the store may hold the voices of other tests.
        begin = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(minutes=random.randrange(10**6))  # noqa: S311 - no secret
        ages = [2, 0, 1, 3]
        waiting = [a_waiting(now=begin + timedelta(seconds=age)) for age in ages]
        queued = replace(a_queued(), updated_at=begin)
        for voice in [*waiting, queued]:
            await store.create(voice)

        since = begin + timedelta(seconds=3)
        found = (await store.find_unchanged(Status.WAITING, since=since, limit=1000)).snapshots

        ours = [snapshot.voice for snapshot in found if snapshot.voice in waiting]
        assert ours == [waiting[1], waiting[2], waiting[0]]
        assert all(snapshot.voice.updated_at < since for snapshot in found)
        assert all(snapshot.voice.status is Status.WAITING for snapshot in found)

    async def test_a_search_goes_on_where_the_last_one_ended(self, store: VoiceStore) -> None:
        begin = datetime(1980, 1, 1, tzinfo=UTC) + timedelta(minutes=random.randrange(10**6))  # noqa: S311 - no secret
        # Two voices with the same time on both sides of each page break.
        voices = [a_waiting(now=begin + timedelta(seconds=number // 2)) for number in range(9)]
        for voice in voices:
            await store.create(voice)

        found: list[Voice] = []
        end: object = None
        while True:
            page = await store.find_unchanged(
                Status.WAITING, since=begin + timedelta(minutes=1), limit=3, after=end
            )
            assert len(page.snapshots) <= 3
            found += [each.voice for each in page.snapshots if each.voice.updated_at >= begin]
            end = page.end
            if end is None:
                break

        assert sorted(voice.voice_id for voice in found) == sorted(v.voice_id for v in voices)
        assert [voice.updated_at for voice in found] == [voice.updated_at for voice in voices]

    async def test_an_unchanged_voice_can_be_replaced(self, store: VoiceStore) -> None:
        voice = replace(a_waiting(), updated_at=NOW - timedelta(days=9000))
        await store.create(voice)
        since = voice.updated_at + timedelta(seconds=1)
        found = await store.find_unchanged(Status.WAITING, since=since, limit=1000)
        (snapshot,) = (s for s in found.snapshots if s.voice == voice)

        await store.replace(snapshot, replace(voice, character="other"))

        assert (await store.read(voice.voice_id)).voice.character == "other"
        with pytest.raises(ConflictError):
            await store.replace(snapshot, voice)

    async def test_times_are_the_stores_own_and_never_go_back(self, store: VoiceStore) -> None:
        first = await stored(store, a_waiting())
        second = await store.replace(first, replace(first.voice, character="other"))
        third = await store.read(first.voice.voice_id)

        assert first.read_at <= second.read_at <= third.read_at
        assert third.read_at.utcoffset() == timedelta(0)

    async def test_of_two_workers_one_gets_the_lease(self, store: VoiceStore) -> None:
        voice = a_queued()
        await store.create(voice)

        def take(current: Voice, now: datetime) -> Voice:
            return voices_of.lease(current, now, an_upload(voice.voice_id))

        outcomes = await asyncio.gather(
            change(store, voice.voice_id, take),
            change(store, voice.voice_id, take),
            return_exceptions=True,
        )

        assert sorted(isinstance(outcome, LeaseHeldError) for outcome in outcomes) == [False, True]
        assert (await store.read(voice.voice_id)).voice.attempt == 1

    async def test_a_watcher_gets_the_present_state_and_every_last_one(
        self, store: VoiceStore
    ) -> None:
        voice = a_waiting()
        snapshot = await stored(store, voice)

        async with store.watch(voice.voice_id) as states:
            assert await anext(states) == voice
            queued = voices_of.queue(voice, NOW, an_upload(voice.voice_id))
            snapshot = await store.replace(snapshot, queued)
            assert await anext(states) == queued
            done = replace(a_done(), voice_id=voice.voice_id)
            await store.replace(snapshot, done)
            assert await anext(states) == done

    async def test_a_watcher_learns_of_a_voice_created_later(self, store: VoiceStore) -> None:
        voice = a_waiting()

        async with store.watch(voice.voice_id) as states:
            assert await anext(states) is None
            await store.create(voice)
            assert await anext(states) == voice

    async def test_a_watcher_learns_of_a_deletion(self, store: VoiceStore) -> None:
        voice = a_waiting()
        await store.create(voice)

        async with store.watch(voice.voice_id) as states:
            assert await anext(states) == voice
            await store.delete(voice.voice_id)
            assert await anext(states) is None

    async def test_whoever_watches_late_gets_the_present_state_too(self, store: VoiceStore) -> None:
        voice = a_waiting()
        await store.create(voice)

        async with store.watch(voice.voice_id) as early:
            assert await anext(early) == voice
            async with store.watch(voice.voice_id) as late:
                assert await anext(late) == voice

    async def test_every_watcher_is_told_and_one_who_leaves_disturbs_nobody(
        self, store: VoiceStore
    ) -> None:
        voice = a_waiting()
        snapshot = await stored(store, voice)
        queued = voices_of.queue(voice, NOW, an_upload(voice.voice_id))

        async with AsyncExitStack() as stack:
            watching = [
                await stack.enter_async_context(store.watch(voice.voice_id)) for _ in range(3)
            ]
            async with store.watch(voice.voice_id) as leaving:
                assert await anext(leaving) == voice
            await store.replace(snapshot, queued)
            seen = await asyncio.gather(*(until(states, Status.QUEUED) for states in watching))

        assert seen == [queued] * 3

    async def test_of_many_quick_states_the_last_one_is_never_missed(
        self, store: VoiceStore
    ) -> None:
        snapshot = await stored(store, a_waiting())

        async with store.watch(snapshot.voice.voice_id) as states:
            for number in range(20):
                wish = replace(snapshot.voice, stage=str(number))
                snapshot = await store.replace(snapshot, wish)
            async for voice in states:
                assert voice is not None
                if voice.stage == "19":
                    break
