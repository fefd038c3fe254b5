"""The contract of `OwnCharacterStore`: each adapter's tests inherit it and define `store`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from shared.characters.bucket import new_character_id
from shared.characters.consent import draw_sentence
from shared.characters.own import own_character as own
from shared.characters.own.own_character import (
    OwnCharacter,
    TakenOverError,
    TrainingErrorCode,
    TrainingFailure,
    TypedConsent,
)
from shared.characters.own.store import (
    DayLimit,
    DayLimitReachedError,
    DayLimits,
    UnknownOwnCharacterError,
    change_own,
)
from shared.voices.store import ConflictError

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.characters.own.store import OwnCharacterStore

NOW = datetime(2026, 11, 24, 12, 0, 0, 123_456, tzinfo=UTC)
PAST = NOW - timedelta(days=30)
MANY = DayLimits(1000, 1000)


def a_begun(now: datetime = NOW, **changes: Any) -> OwnCharacter:
    fields: dict[str, Any] = {
        "character_id": new_character_id(),
        "name": "エイダの声",
        "key": "a secret",
        "owner": "uid",
        "consent": TypedConsent("Ada Example", "ada@example.org", now.date().isoformat()),
        "sentence": draw_sentence("ja", now.date()),
    }
    return own.begin(**(fields | changes), now=now)


def a_queued(now: datetime = NOW) -> OwnCharacter:
    return own.queue(a_begun(now), now)


def a_leased(now: datetime = NOW) -> OwnCharacter:
    return own.lease(a_queued(now), now, 60)


def a_reported(now: datetime = NOW) -> OwnCharacter:
    return own.report(a_leased(now), 1, "learning the voice", 0.25, now=now, seconds=60)


def a_ready(now: datetime = NOW) -> OwnCharacter:
    return own.finish(a_leased(now), 1, now)


def a_failed(now: datetime = NOW) -> OwnCharacter:
    failure = TrainingFailure(TrainingErrorCode.ANOTHER_VOICE, "Two people speak.", ("r1", "r2"))
    return own.fail(a_leased(now), 1, failure, now)


def a_cleaned(now: datetime = NOW) -> OwnCharacter:
    return own.without_recordings(a_ready(now), now)


def a_shared(now: datetime = NOW) -> OwnCharacter:
    return own.share(a_ready(now), own.Visibility.LINK, now)


def a_public(now: datetime = NOW) -> OwnCharacter:
    return own.share(a_ready(now), own.Visibility.PUBLIC, now)


def a_kept(now: datetime = NOW) -> OwnCharacter:
    return own.keep_recordings(a_ready(now), is_wanted=True, now=now)


def lease(character: OwnCharacter, now: datetime) -> OwnCharacter:
    return own.lease(character, now, 60)


def refuse(character: OwnCharacter, now: datetime) -> OwnCharacter:
    failure = TrainingFailure(TrainingErrorCode.RECORDINGS_REFUSED, "They are too quiet.")
    return own.fail(character, character.attempt, failure, now)


EVERY_STATE: dict[str, Callable[[], OwnCharacter]] = {
    "begun": a_begun,
    "queued": a_queued,
    "leased": a_leased,
    "reported": a_reported,
    "ready": a_ready,
    "failed": a_failed,
    "cleaned": a_cleaned,
    "public": a_public,
    "kept": a_kept,
}


async def kept(store: OwnCharacterStore, *characters: OwnCharacter) -> list[str]:
    """Write characters in any state; their ids."""
    for each in characters:
        await store.create(each, limits=MANY, by="somebody")
    return [each.character_id for each in characters]


class OwnCharacterStoreContract:
    @pytest.mark.parametrize("state", EVERY_STATE)
    async def test_a_character_is_read_as_it_was_written(
        self, store: OwnCharacterStore, state: str
    ) -> None:
        begun, later = a_begun(), EVERY_STATE[state]()
        later = replace(later, character_id=begun.character_id)
        await kept(store, begun)

        written = await store.replace(await store.read(begun.character_id), later)

        assert written.character == later
        assert (await store.read(begun.character_id)).character == later

    async def test_a_character_that_is_not_there_is_unknown(self, store: OwnCharacterStore) -> None:
        with pytest.raises(UnknownOwnCharacterError):
            await store.read(new_character_id())

    async def test_only_the_state_that_was_read_is_replaced(self, store: OwnCharacterStore) -> None:
        begun = a_begun()
        await kept(store, begun)
        first = await store.read(begun.character_id)
        second = await store.replace(first, own.queue(begun, NOW))

        with pytest.raises(ConflictError):
            await store.replace(first, begun)
        await store.replace(second, own.lease(second.character, NOW, 60))

    async def test_what_was_deleted_is_not_written_again(self, store: OwnCharacterStore) -> None:
        begun = a_begun()
        await kept(store, begun)
        snapshot = await store.read(begun.character_id)
        await store.delete(begun.character_id)
        await store.delete(begun.character_id)

        with pytest.raises(ConflictError):
            await store.replace(snapshot, own.queue(begun, NOW))
        with pytest.raises(UnknownOwnCharacterError):
            await store.read(begun.character_id)

    async def test_of_trainers_that_want_the_same_character_one_gets_it(
        self, store: OwnCharacterStore
    ) -> None:
        queued = a_queued()
        await kept(store, queued)
        take = partial(
            change_own, store, queued.character_id, lambda each, now: own.lease(each, now, 60)
        )

        taken = await asyncio.gather(*(take() for _ in range(3)), return_exceptions=True)

        leased = [each for each in taken if isinstance(each, OwnCharacter)]
        assert [each.attempt for each in leased] == [1]

    async def test_an_attempt_that_was_taken_over_writes_nothing(
        self, store: OwnCharacterStore
    ) -> None:
        leased = a_leased(PAST)
        await kept(store, leased)
        await change_own(store, leased.character_id, lambda each, now: own.lease(each, now, 60))

        with pytest.raises(TakenOverError):
            await change_own(store, leased.character_id, lambda each, now: own.finish(each, 1, now))

    async def test_an_attempt_at_an_earlier_training_writes_nothing_in_a_later_one(
        self, store: OwnCharacterStore
    ) -> None:
        first = a_leased(PAST)
        await kept(store, first)
        for transition in (lease, refuse, own.queue, lease):
            await change_own(store, first.character_id, transition)

        with pytest.raises(TakenOverError):
            await change_own(
                store,
                first.character_id,
                lambda each, now: own.finish(each, first.attempt, now),
            )

    async def test_a_day_has_so_many_places_and_a_deletion_gives_none_back(
        self, store: OwnCharacterStore
    ) -> None:
        today, limits = datetime.now(UTC), DayLimits(by_all=2, by_owner=2)
        old, first, second, third = (a_begun(t) for t in (PAST, today, today, today))
        for number, each in enumerate((old, first, second)):
            await store.create(each, limits=limits, by=f"owner {number}")
        await store.delete(first.character_id)

        with pytest.raises(DayLimitReachedError) as refused:
            await store.create(third, limits=limits, by="another")

        assert refused.value.limit is DayLimit.ALL
        with pytest.raises(UnknownOwnCharacterError):
            await store.read(third.character_id)

    async def test_a_further_training_takes_a_place_of_the_day(
        self, store: OwnCharacterStore
    ) -> None:
        today, limits = datetime.now(UTC), DayLimits(by_all=2, by_owner=2)
        await store.take_place(limits=limits, by="ada")
        await store.create(a_begun(today), limits=limits, by="ada")
        with pytest.raises(DayLimitReachedError):
            await store.take_place(limits=limits, by="ada")
        with pytest.raises(DayLimitReachedError):
            await store.create(a_begun(today), limits=limits, by="ben")

    async def test_those_that_everybody_may_use_are_found_and_not_when_they_are_withdrawn(
        self, store: OwnCharacterStore
    ) -> None:
        newer, older = a_public(PAST + timedelta(hours=1)), a_public(PAST)
        await kept(store, newer, older, a_ready(PAST), a_begun(PAST))
        assert await store.find_public(limit=10) == [older, newer]
        assert await store.find_public(limit=1) == [older]

        await change_own(
            store,
            older.character_id,
            lambda each, now: own.share(each, own.Visibility.LINK, now),
        )

        assert await store.find_public(limit=10) == [newer]

    async def test_an_owner_finds_all_characters_of_an_account_and_nobody_elses(
        self, store: OwnCharacterStore
    ) -> None:
        hours = [PAST + timedelta(hours=each) for each in range(3)]
        ready, begun, failed = a_ready(hours[1]), a_begun(hours[2]), a_failed(hours[0])
        others = [replace(a_begun(NOW), owner=owner) for owner in ("uid2", "UID", None)]
        await kept(store, ready, *others, begun, failed)
        assert await store.find_by_owner("uid", limit=10) == [begun, ready, failed]
        assert await store.find_by_owner("uid", limit=2) == [begun, ready]
        assert await store.find_by_owner("nobody", limit=10) == []

        await store.delete(begun.character_id)

        assert await store.find_by_owner("uid", limit=10) == [ready, failed]

    async def test_an_owner_has_so_many_of_the_places_of_a_day(
        self, store: OwnCharacterStore
    ) -> None:
        today, limits = datetime.now(UTC), DayLimits(by_all=9, by_owner=2)
        for each in (PAST, today, today):
            await store.create(a_begun(each), limits=limits, by="ada")

        with pytest.raises(DayLimitReachedError) as refused:
            await store.create(a_begun(today), limits=limits, by="ada")
        await store.create(a_begun(today), limits=limits, by="ben")

        assert refused.value.limit is DayLimit.OWNER

    async def test_many_at_once_get_no_more_places_than_there_are(
        self, store: OwnCharacterStore
    ) -> None:
        now, limits = datetime.now(UTC), DayLimits(by_all=2, by_owner=2)

        begun = await asyncio.gather(
            *(store.create(a_begun(now), limits=limits, by=f"{n}") for n in range(4)),
            return_exceptions=True,
        )

        assert begun.count(None) == 2
        assert sum(isinstance(each, DayLimitReachedError) for each in begun) == 2

    async def test_those_that_a_trainer_may_take_are_found_the_oldest_first(
        self, store: OwnCharacterStore
    ) -> None:
        newer, older = a_queued(PAST + timedelta(hours=1)), a_queued(PAST)
        lapsed, held = a_leased(PAST + timedelta(hours=2)), a_leased(datetime.now(UTC))
        await kept(store, newer, older, lapsed, held, a_begun(PAST), a_ready(PAST), a_failed(PAST))

        found = [each.character for each in await store.find_waiting(limit=10)]

        assert found == [older, newer, lapsed]
        assert len(await store.find_waiting(limit=2)) == 2

    async def test_those_that_a_trainer_holds_are_found(self, store: OwnCharacterStore) -> None:
        now = datetime.now(UTC)
        held, more = a_leased(now), a_reported(now)
        await kept(store, held, more, a_leased(PAST), a_queued(now), a_ready(now), a_begun(now))

        found = {each.character.character_id for each in await store.find_in_training(limit=10)}

        assert found == {held.character_id, more.character_id}
        assert len(await store.find_in_training(limit=1)) == 1

    async def test_those_whose_recordings_are_to_go_are_found(
        self, store: OwnCharacterStore
    ) -> None:
        over, failed, ready = a_begun(PAST), a_failed(PAST), a_ready(PAST)
        today = datetime.now(UTC)
        others = (a_begun(today), a_queued(PAST), a_cleaned(PAST), a_kept(PAST))
        await kept(store, over, failed, ready, *others)

        found = {each.character.character_id for each in await store.find_to_clean(limit=10)}

        assert found == {each.character_id for each in (over, failed, ready)}
