"""Voices of visitors' own characters, which their owners may withdraw at any time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from shared.voices import voice as voices_of
from shared.voices.store import StoreUnavailableError
from shared.voices.voice import ErrorCode, Status
from tests.support.own_character_contract import MANY, a_ready, a_shared
from tests.support.virtual_time import in_virtual_time
from tests.support.voices import NOW, a_queued, a_text, an_upload

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.characters.own.own_character import OwnCharacter
    from shared.voices.voice import Voice
    from tests.support.conversion import WorkerStage


def a_queued_text() -> Voice:
    voice = a_text()
    return voices_of.queue(voice, NOW, an_upload(voice.voice_id))


of_recordings_and_texts = pytest.mark.parametrize("make_voice", [a_queued, a_queued_text])


async def put(stage: WorkerStage, character: OwnCharacter) -> OwnCharacter:
    await stage.own_characters.create(character, limits=MANY, by="somebody")
    return character


@pytest.mark.parametrize(("is_deleted", "is_owner"), [(False, False), (True, False), (True, True)])
@of_recordings_and_texts
@in_virtual_time
async def test_a_voice_of_a_withdrawn_or_deleted_character_fails(
    stage: WorkerStage, make_voice: Callable[[], Voice], *, is_deleted: bool, is_owner: bool
) -> None:
    character = a_ready() if is_deleted else await put(stage, a_ready())
    voice = replace(make_voice(), character=character.character_id, owns_character=is_owner)

    message = await stage.add(voice)
    await stage.worker.handle(message)

    assert await stage.error_code(message) is ErrorCode.UNKNOWN_CHARACTER
    assert stage.characters.asked == []
    assert stage.conversion.recordings_discarded == 1


@pytest.mark.parametrize(("character", "is_owner"), [(a_shared(), False), (a_ready(), True)])
@of_recordings_and_texts
@in_virtual_time
async def test_a_voice_of_a_shared_character_or_of_its_owner_is_converted(
    stage: WorkerStage, make_voice: Callable[[], Voice], character: OwnCharacter, *, is_owner: bool
) -> None:
    await put(stage, character)
    voice = replace(make_voice(), character=character.character_id, owns_character=is_owner)

    message = await stage.add(voice)
    await stage.worker.handle(message)

    assert await stage.status(message) is Status.DONE
    assert stage.own_characters.reads == 1


@in_virtual_time
async def test_while_the_store_is_out_of_reach_the_message_comes_again(stage: WorkerStage) -> None:
    character = await put(stage, a_shared())
    message = await stage.add(replace(a_queued(), character=character.character_id))
    stage.own_characters.is_down = True
    with pytest.raises(StoreUnavailableError):
        await stage.worker.handle(message)
    await stage.require_free(message)
    assert (await stage.voice(message)).counted_attempts == 0

    stage.own_characters.is_down = False
    await stage.worker.handle(message)

    assert await stage.status(message) is Status.DONE


@in_virtual_time
async def test_other_characters_cost_no_read(stage: WorkerStage) -> None:
    await stage.handle_new()

    assert stage.own_characters.reads == 0
