"""What an owner decides about a character: its name, who may use it, what becomes of recordings.

This module is pure: every transition takes the time and returns the next state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shared.own_characters.own_character import NotAllowedError, OwnCharacter, Status, Visibility

if TYPE_CHECKING:
    from datetime import datetime

    from shared.characters.spoken_consent import ConsentSentence


def is_public(character: OwnCharacter) -> bool:
    """Whether its owner shows it to everybody, and it can be used."""
    return character.has_bundle and character.visibility is Visibility.PUBLIC


def rename(character: OwnCharacter, name: str, now: datetime) -> OwnCharacter:
    """Give a character another name."""
    if name == character.name:
        return character
    return replace(character, name=name, updated_at=now)


def share(character: OwnCharacter, visibility: Visibility, now: datetime) -> OwnCharacter:
    """Share a character, or withdraw it.

    Raises:
        NotAllowedError: nothing can be shared yet.
    """
    if visibility is character.visibility:
        return character
    if not character.has_bundle and visibility is not Visibility.PRIVATE:
        raise NotAllowedError("this character cannot be shared before it is ready")
    return replace(character, visibility=visibility, updated_at=now)


def keep_recordings(character: OwnCharacter, *, is_wanted: bool, now: datetime) -> OwnCharacter:
    """Keep the recordings when the training is done, or not any longer.

    A ready character that was waiting for more recordings is ready again without them.
    """
    if is_wanted == character.keeps_recordings:
        return character
    waits = character.status in {Status.COLLECTING, Status.FAILED}
    status = Status.READY if waits and character.has_bundle else character.status
    return replace(character, keeps_recordings=is_wanted, status=status, updated_at=now)


def is_to_train_again(character: OwnCharacter) -> bool:
    """Whether a character that is there can be trained anew with the recordings that were kept."""
    has_kept = character.keeps_recordings and character.has_recordings
    has_ended = character.status in {Status.READY, Status.FAILED}
    return character.has_bundle and has_ended and has_kept


def reopen(character: OwnCharacter, sentence: ConsentSentence, now: datetime) -> OwnCharacter:
    """Collect more recordings for a better training; the character stays as it is until then.

    Args:
        character: is ready, and its recordings were kept.
        sentence: with which its owner agrees aloud to the new training.
        now: the time.

    Raises:
        NotAllowedError: its recordings are deleted, or it is being made.
    """
    if not is_to_train_again(character):
        raise NotAllowedError(
            "only a character that is ready, and whose recordings were kept, is trained again"
        )
    return replace(
        character,
        status=Status.COLLECTING,
        sentence=sentence,
        trainings=0,
        error=None,
        updated_at=now,
    )
