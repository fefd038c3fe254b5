"""The states of a visitor's own character, and the transitions between them.

This module is pure: a transition takes the time and returns the next state. It raises
`NotAllowedError` if the state does not permit it. One that takes an `attempt` raises
`TakenOverError` if another attempt has taken over.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from datetime import datetime

    from shared.characters.consent import ConsentSentence


MAX_TRIES: Final = 2  # the most tries of one training: a killed trainer gets one more
MAX_TRAININGS: Final = 3  # the most trainings of a character, the failed ones included
COLLECTING_DAYS: Final = 7  # the time for reading aloud; the sentence of the consent holds as long


class OwnCharacterStatus(StrEnum):
    COLLECTING = "collecting"
    QUEUED = "queued"
    TRAINING = "training"
    READY = "ready"
    FAILED = "failed"


_OPEN: Final = frozenset({OwnCharacterStatus.COLLECTING, OwnCharacterStatus.FAILED})
"""The states in which recordings can be added."""


class Visibility(StrEnum):
    """The people who may speak with a character, besides its owner."""

    PRIVATE = "private"  # nobody
    LINK = "link"  # everybody who knows the id
    PUBLIC = "public"  # everybody: it is in the list, where the operator allows that


class TrainingErrorCode(StrEnum):
    RECORDINGS_REFUSED = "recordings_refused"
    ANOTHER_VOICE = "another_voice"
    """Somebody else speaks in so many of the recordings that too little is left, or whose they are
    is doubtful."""

    ECHO = "echo"  # too little is left without those in which a room resounds
    CONSENT_REFUSED = "consent_refused"
    """The spoken consent is another's, has other words, or cannot be understood."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    BUNDLE_REFUSED = "bundle_refused"


class NotAllowedError(Exception):
    """The character's state does not permit this; the message names the state."""


class TakenOverError(Exception):
    """Another attempt trains this character now, so this one must not write any more."""


@dataclass(frozen=True, slots=True)
class TrainingFailure:
    code: TrainingErrorCode
    message: str
    recordings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TypedConsent:
    owner: str
    contact: str
    day: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCharacter:
    character_id: str
    status: OwnCharacterStatus
    name: str
    key_sha256: str
    owner: str | None  # Firebase uid; None without a sign-in
    consent: TypedConsent
    sentence: ConsentSentence
    created_at: datetime
    updated_at: datetime
    expire_at: datetime | None  # deleted then unless it is ready; None if it is
    trainings: int = 0
    attempt: int = 0  # number of the attempt that holds the lease, never reused: the fencing token
    tries: int = 0
    lease_expires_at: datetime | None = None
    stage: str | None = None
    share: float | None = None  # the part of `stage` that is done, 0 to 1
    error: TrainingFailure | None = None
    has_recordings: bool = True
    keeps_recordings: bool = False
    has_bundle: bool = False
    visibility: Visibility = Visibility.PRIVATE

    def is_key(self, key: str) -> bool:
        return hmac.compare_digest(digest_of(key), self.key_sha256)

    def is_owned_by(self, uid: str | None, key: str | None) -> bool:
        """Return whether a visitor owns it: by the sign-in, or without one by the secret."""
        if self.owner is not None:
            return uid == self.owner
        return key is not None and self.is_key(key)

    def is_usable(self, *, by_owner: bool) -> bool:
        return by_owner or self.visibility is not Visibility.PRIVATE


def digest_of(key: str) -> str:
    """Return the stored digest of an owner's secret."""
    return hashlib.sha256(key.encode()).hexdigest()


def begin(
    character_id: str,
    *,
    name: str,
    key: str,
    owner: str | None,
    consent: TypedConsent,
    sentence: ConsentSentence,
    now: datetime,
) -> OwnCharacter:
    return OwnCharacter(
        character_id=character_id,
        status=OwnCharacterStatus.COLLECTING,
        name=name,
        key_sha256=digest_of(key),
        owner=owner,
        consent=consent,
        sentence=sentence,
        created_at=now,
        updated_at=now,
        expire_at=now + timedelta(days=COLLECTING_DAYS),
    )


def require_collecting(character: OwnCharacter) -> None:
    """Refuse to change the recordings of a character that is being trained or ready."""
    if character.status not in _OPEN:
        raise NotAllowedError(
            f"this character is {character.status.value}; its recordings cannot change any more"
        )


def queue(character: OwnCharacter, now: datetime) -> OwnCharacter:
    """Request a training; a further request while it waits or runs changes nothing."""
    if character.status in {OwnCharacterStatus.QUEUED, OwnCharacterStatus.TRAINING}:
        return character
    require_collecting(character)
    if character.trainings >= MAX_TRAININGS:
        raise NotAllowedError(
            f"{MAX_TRAININGS} trainings of this character have failed; make a new one"
        )
    return replace(
        character,
        status=OwnCharacterStatus.QUEUED,
        trainings=character.trainings + 1,
        tries=0,
        error=None,
        stage=None,
        share=None,
        updated_at=now,
    )


def is_waiting(character: OwnCharacter, now: datetime) -> bool:
    """Return whether a trainer may take the character: nobody trains it, or the trainer died."""
    if character.status is OwnCharacterStatus.QUEUED:
        return True
    until = character.lease_expires_at
    return character.status is OwnCharacterStatus.TRAINING and (until is None or until <= now)


def lease(character: OwnCharacter, now: datetime, seconds: float) -> OwnCharacter:
    """Begin an attempt; after the last one, the training has failed."""
    if not is_waiting(character, now):
        raise NotAllowedError(f"this character is {character.status.value}")
    if character.tries >= MAX_TRIES:
        message = "The training was interrupted too often; please try again later."
        failure = TrainingFailure(TrainingErrorCode.ATTEMPTS_EXHAUSTED, message)
        return _end(character, OwnCharacterStatus.FAILED, now, error=failure)
    return replace(
        character,
        status=OwnCharacterStatus.TRAINING,
        attempt=character.attempt + 1,
        tries=character.tries + 1,
        lease_expires_at=now + timedelta(seconds=seconds),
        updated_at=now,
    )


def report(
    character: OwnCharacter, attempt: int, stage: str | None, share: float | None, *,
    now: datetime, seconds: float,
) -> OwnCharacter:  # fmt: skip
    """Record the progress of an attempt, and extend its lease."""
    require_attempt(character, attempt)
    return replace(
        character,
        stage=stage,
        share=share,
        lease_expires_at=now + timedelta(seconds=seconds),
        updated_at=now,
    )


def finish(character: OwnCharacter, attempt: int, now: datetime) -> OwnCharacter:
    require_attempt(character, attempt)
    return _end(character, OwnCharacterStatus.READY, now, expire_at=None, has_bundle=True)


def without_recordings(character: OwnCharacter, now: datetime) -> OwnCharacter:
    return replace(character, has_recordings=False, updated_at=now)


def clean_at(character: OwnCharacter) -> datetime | None:
    """Return the time from which the recordings of a ready or an expired one must be deleted."""
    if character.status is OwnCharacterStatus.READY:
        is_kept = character.keeps_recordings or not character.has_recordings
        return None if is_kept else character.updated_at
    return character.expire_at if character.status in _OPEN else None


def is_to_clean(character: OwnCharacter, now: datetime) -> bool:
    since = clean_at(character)
    return since is not None and since <= now


def fail(
    character: OwnCharacter, attempt: int, failure: TrainingFailure, now: datetime
) -> OwnCharacter:
    require_attempt(character, attempt)
    return _end(character, OwnCharacterStatus.FAILED, now, error=failure)


def give_back(
    character: OwnCharacter, now: datetime, *, attempt: int, counts: bool
) -> OwnCharacter:
    """End an attempt, so that the next one can begin at once."""
    require_attempt(character, attempt)
    return replace(
        character,
        status=OwnCharacterStatus.QUEUED,
        tries=character.tries if counts else character.tries - 1,
        lease_expires_at=None,
        updated_at=now,
    )


def _end(
    character: OwnCharacter, status: OwnCharacterStatus, now: datetime, **changes: Any
) -> OwnCharacter:
    return replace(
        character,
        status=status,
        lease_expires_at=None,
        stage=None,
        share=None,
        updated_at=now,
        **changes,
    )


def require_attempt(character: OwnCharacter, attempt: int) -> None:
    if character.status is not OwnCharacterStatus.TRAINING or character.attempt != attempt:
        raise TakenOverError(
            f"attempt {attempt} is over: {character.character_id} is {character.status.value},"
            f" attempt {character.attempt}"
        )


def is_public(character: OwnCharacter) -> bool:
    """Return whether its owner shows it to everybody, and it can be used."""
    return character.has_bundle and character.visibility is Visibility.PUBLIC


def rename(character: OwnCharacter, name: str, now: datetime) -> OwnCharacter:
    if name == character.name:
        return character
    return replace(character, name=name, updated_at=now)


def share(character: OwnCharacter, visibility: Visibility, now: datetime) -> OwnCharacter:
    """Share a character, or withdraw it; one without a bundle can't be shared."""
    if visibility is character.visibility:
        return character
    if not character.has_bundle and visibility is not Visibility.PRIVATE:
        raise NotAllowedError("this character cannot be shared before it is ready")
    return replace(character, visibility=visibility, updated_at=now)


def keep_recordings(character: OwnCharacter, *, is_wanted: bool, now: datetime) -> OwnCharacter:
    """Decide whether the recordings are kept when the training is done.

    A ready character that was waiting for more recordings is ready again without them.
    """
    if is_wanted == character.keeps_recordings:
        return character
    waits = character.status in _OPEN
    status = OwnCharacterStatus.READY if waits and character.has_bundle else character.status
    return replace(character, keeps_recordings=is_wanted, status=status, updated_at=now)


def is_to_train_again(character: OwnCharacter) -> bool:
    """Return whether a finished character can be retrained with its kept recordings."""
    has_kept = character.keeps_recordings and character.has_recordings
    has_ended = character.status in {OwnCharacterStatus.READY, OwnCharacterStatus.FAILED}
    return character.has_bundle and has_ended and has_kept


def reopen(character: OwnCharacter, sentence: ConsentSentence, now: datetime) -> OwnCharacter:
    """Collect more recordings for a better training; the character stays as it is until then."""
    if not is_to_train_again(character):
        raise NotAllowedError(
            "only a character that is ready, and whose recordings were kept, is trained again"
        )
    return replace(
        character,
        status=OwnCharacterStatus.COLLECTING,
        sentence=sentence,
        trainings=0,
        error=None,
        updated_at=now,
    )
