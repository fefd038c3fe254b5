"""What an owner does with a character of the own voice: begin, bring recordings, train, delete."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from functions.api.answers.problems import Problem
from shared.characters.bucket import manifest_name
from shared.characters.own_ids import is_own, new_character_id
from shared.characters.spoken_consent import draw_sentence
from shared.own_characters import own_character as own
from shared.own_characters.objects import (
    MAX_RECORDING_BYTES,
    MAX_RECORDINGS,
    MAX_TOTAL_BYTES,
    Kind,
    new_recording_name,
    recording_name,
    recordings_prefix,
)
from shared.own_characters.own_character import NotAllowedError, OwnCharacter, TypedConsent
from shared.own_characters.store import UnknownOwnCharacterError, change_own
from shared.voices.media import UnsupportedContentTypeError, parse_content_type
from shared.voices.voice import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from functions.api.own_characters.bodies import NewOwnCharacter, NewRecording
    from shared.own_characters.store import OwnCharacterStore
    from shared.ports.bucket import Bucket
    from shared.voices.objects import ObjectFacts, SignedUpload

_LOG = logging.getLogger(__name__)

_KEY_BYTES: Final = 24
_RECORDING_ID: Final = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class OwnCharacterServices:
    """What the making of characters speaks to.

    Attributes:
        store: the characters' documents.
        recordings: the bucket of the owners' recordings; it must be able to sign addresses.
        open_characters: opens the bucket of the bundles.
        wake_trainer: tells the trainer that there is something to do; it also looks by itself.
    """

    store: OwnCharacterStore
    recordings: Bucket
    open_characters: Callable[[], Bucket]
    wake_trainer: Callable[[], None]


class Making:
    """Characters of visitors' own voices.

    Args:
        services: what it speaks to.
        most_per_day: how many may be begun in a day, by all visitors together.
        upload_lifetime: how long an upload address works.
        now: tells the time.
    """

    def __init__(
        self,
        services: OwnCharacterServices,
        *,
        most_per_day: int,
        upload_lifetime: timedelta,
        now: Callable[[], datetime],
    ) -> None:
        self._services = services
        self._most_per_day = most_per_day
        self._upload_lifetime = upload_lifetime
        self._now = now

    @cached_property
    def _characters(self) -> Bucket:
        return self._services.open_characters()

    async def begin(self, wish: NewOwnCharacter, owner: str | None) -> tuple[OwnCharacter, str]:
        """Begin a character; return it and the secret of its owner.

        Raises:
            Problem: `too_many_own_characters`.
        """
        key, now = secrets.token_urlsafe(_KEY_BYTES), self._now()
        character = own.begin(
            new_character_id(),
            name=wish.name,
            key=key,
            owner=owner,
            consent=TypedConsent(wish.owner, wish.contact, now.date().isoformat()),
            sentence=draw_sentence(wish.language, now.date()),
            now=now,
        )
        if not await self._services.store.create(character, most_per_day=self._most_per_day):
            detail = "As many characters as can be made in a day were begun; come back tomorrow."
            raise Problem(429, "too_many_own_characters", detail, {"Retry-After": "3600"})
        _LOG.info("own character begun", extra={"event": "own_character_begun"})
        return character, key

    async def find(self, character_id: str, key: str | None, uid: str | None) -> OwnCharacter:
        """Read a character for its owner.

        Whoever has no right to it is told the same as if it were not there.

        Raises:
            Problem: `unknown_own_character`.
        """
        unknown = Problem(
            404, "unknown_own_character", "There is no such character, or it is not yours."
        )
        if not is_own(character_id) or key is None:
            raise unknown
        try:
            character = (await self._services.store.read(character_id)).character
        except UnknownOwnCharacterError:
            raise unknown from None
        if not character.is_key(key) or character.owner != uid:
            raise unknown
        return character

    async def recordings(self, character: OwnCharacter) -> Sequence[tuple[Kind, str, ObjectFacts]]:
        """List what was uploaded: kind, id and facts of each."""
        found = await self._services.recordings.list(recordings_prefix(character.character_id))
        return [(Kind(kind), name, each) for each in found for kind, name in [_parts(each.name)]]

    async def sign_recording(
        self, character: OwnCharacter, wish: NewRecording
    ) -> tuple[str, SignedUpload]:
        """Return a new recording's id and the address to upload it to.

        Raises:
            Problem: `unsupported_format`, `too_many_recordings` or `own_character_busy`.
        """
        _require_collecting(character)
        try:
            content_type = parse_content_type(wish.content_type)
        except UnsupportedContentTypeError as error:
            raise Problem(415, ErrorCode.UNSUPPORTED_FORMAT, str(error)) from error
        uploaded = await self.recordings(character)
        if len(uploaded) >= MAX_RECORDINGS or _bytes(uploaded) >= MAX_TOTAL_BYTES:
            detail = (
                f"At most {MAX_RECORDINGS} recordings of {MAX_TOTAL_BYTES} bytes together are"
                " taken; delete one, or begin the training."
            )
            raise Problem(409, "too_many_recordings", detail)
        name = new_recording_name(character.character_id, wish.kind)
        signed = await self._services.recordings.sign_upload(
            name,
            content_type=content_type,
            max_bytes=MAX_RECORDING_BYTES,
            lifetime=self._upload_lifetime,
        )
        return _parts(name)[1], signed

    async def delete_recording(self, character: OwnCharacter, recording_id: str) -> None:
        """Delete a recording; it is no error if there is none of this id.

        Raises:
            Problem: `own_character_busy`.
        """
        _require_collecting(character)
        if _RECORDING_ID.fullmatch(recording_id) is None:
            return
        for kind in Kind:
            name = recording_name(character.character_id, kind, recording_id)
            await self._services.recordings.delete(name)

    async def train(self, character: OwnCharacter) -> OwnCharacter:
        """Ask for the training.

        Raises:
            Problem: `recordings_missing`, `too_many_recordings` or `own_character_busy`.
        """
        uploaded = await self.recordings(character)
        kinds = [kind for kind, _, _ in uploaded]
        if kinds.count(Kind.CONSENT) != 1 or Kind.SPEECH not in kinds:
            detail = (
                "Expected recordings of sentences and one of the spoken consent, found"
                f" {kinds.count(Kind.SPEECH)} and {kinds.count(Kind.CONSENT)}."
            )
            raise Problem(409, "recordings_missing", detail)
        if len(uploaded) > MAX_RECORDINGS or _bytes(uploaded) > MAX_TOTAL_BYTES:
            detail = (
                f"At most {MAX_RECORDINGS} recordings of {MAX_TOTAL_BYTES} bytes together are"
                f" taken, found {len(uploaded)} of {_bytes(uploaded)}; delete some."
            )
            raise Problem(409, "too_many_recordings", detail)
        try:
            queued = await change_own(self._services.store, character.character_id, own.queue)
        except NotAllowedError as error:
            raise Problem(409, "own_character_busy", f"{error}.") from error
        except UnknownOwnCharacterError:
            detail = "This character was deleted meanwhile."
            raise Problem(404, "unknown_own_character", detail) from None
        self._services.wake_trainer()
        _LOG.info("own character queued", extra={"event": "own_character_queued"})
        return queued

    async def delete(self, character: OwnCharacter) -> None:
        """Delete everything of a character."""
        character_id = character.character_id
        # If a bucket does not answer, the owner's next request must still find the document. A
        # trainer that finds it gone removes what it has published.
        await self._characters.delete(manifest_name(character_id))
        await asyncio.gather(
            self._characters.delete_all(f"{character_id}/"),
            self._services.recordings.delete_all(recordings_prefix(character_id)),
        )
        await self._services.store.delete(character_id)
        # What a trainer has published between the two, when its document was still there.
        await self._characters.delete_all(f"{character_id}/")
        _LOG.info("own character deleted", extra={"event": "own_character_deleted"})


def _require_collecting(character: OwnCharacter) -> None:
    try:
        own.require_collecting(character)
    except NotAllowedError as error:
        raise Problem(409, "own_character_busy", f"{error}.") from error


def _parts(name: str) -> tuple[str, str]:
    """Return the kind and the id in a recording's name."""
    _, kind, recording_id = name.split("/")
    return kind, recording_id


def _bytes(uploaded: Sequence[tuple[Kind, str, ObjectFacts]]) -> int:
    return sum(each.bytes for _, _, each in uploaded)
