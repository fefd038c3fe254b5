"""Characters that visitors make of their own voices, and who may use them."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from functions.api.own_character_schemas import Card, CardFigures
from functions.api.problems import Problem
from shared.characters.bucket import is_own_character, manifest_name, new_character_id
from shared.characters.consent import draw_sentence
from shared.characters.own import own_character as own
from shared.characters.own.own_character import (
    NotAllowedError,
    OwnCharacter,
    TypedConsent,
    Visibility,
)
from shared.characters.own.recordings import (
    CARD,
    MAX_RECORDING_BYTES,
    MAX_RECORDINGS,
    MAX_TOTAL_BYTES,
    Kind,
    card_prefix,
    new_recording_name,
    recording_name,
    recordings_among,
    recordings_prefix,
)
from shared.characters.own.store import (
    DayLimit,
    DayLimitReachedError,
    UnknownOwnCharacterError,
    change_own,
)
from shared.voices.media import UnsupportedContentTypeError, parse_content_type
from shared.voices.objects import ObjectMissingError
from shared.voices.voice import ErrorCode, PassingError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from functions.api.own_character_schemas import (
        NewOwnCharacter,
        NewRecording,
        OwnCharacterChange,
    )
    from functions.api.visitors import CharacterChooser
    from shared.characters.own.store import DayLimits, OwnCharacterStore
    from shared.ports import Bucket
    from shared.voices.objects import ObjectFacts, SignedUpload


_LOG = logging.getLogger(__name__)

_KEY_BYTES: Final = 24
_MOST_CARD_BYTES: Final = 2_000_000
_MOST_LISTED: Final = 50
_WAV: Final = ".wav"
_RECORDING_ID: Final = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class OwnCharacterServices:
    store: OwnCharacterStore
    recordings: Bucket
    open_characters: Callable[[], Bucket]
    wake_trainer: Callable[[], None]


@dataclass(frozen=True)
class OwnCharacterService:
    services: OwnCharacterServices
    limits: DayLimits
    upload_lifetime: timedelta
    now: Callable[[], datetime]
    allows_public: bool = False

    @property
    def visibilities(self) -> Sequence[Visibility]:
        return [each for each in Visibility if each is not Visibility.PUBLIC or self.allows_public]

    @cached_property
    def _characters(self) -> Bucket:
        return self.services.open_characters()

    async def begin(
        self, new: NewOwnCharacter, owner: str | None, client: str
    ) -> tuple[OwnCharacter, str]:
        """Begin a character; return it and the secret of its owner.

        Without an `owner`, a signed-in uid, the `client` counts for the limit of a day.
        """
        key, now = secrets.token_urlsafe(_KEY_BYTES), self.now()
        character = own.begin(
            new_character_id(),
            name=new.name,
            key=key,
            owner=owner,
            consent=TypedConsent(new.owner, new.contact, now.date().isoformat()),
            sentence=draw_sentence(new.language, now.date()),
            now=now,
        )
        with _day_limits():
            await self.services.store.create(character, limits=self.limits, by=owner or client)
        _LOG.info("own character begun", extra={"event": "own_character_begun"})
        return character, key

    async def find(self, character_id: str, key: str | None, uid: str | None) -> OwnCharacter:
        """Read a character for its owner.

        A character that was begun by a signed-in visitor is theirs, with or without the key; any
        other belongs to the holder of the key. Strangers get the same error as if there were no
        such character, except that the holder of the key of another account's learns the reason.
        """
        unknown = Problem(
            404, "unknown_own_character", "There is no such character, or it is not yours."
        )
        if not is_own_character(character_id):
            raise unknown
        try:
            character = (await self.services.store.read(character_id)).character
        except UnknownOwnCharacterError:
            raise unknown from None
        if character.is_owned_by(uid, key):
            return character
        if key is not None and character.is_key(key):
            detail = "It belongs to an account; sign in with the one with which it was begun."
            raise Problem(403, "own_character_of_another_account", detail)
        raise unknown

    async def of_owner(self, uid: str) -> Sequence[OwnCharacter]:
        return await self.services.store.find_by_owner(uid, _MOST_LISTED)

    async def recordings(self, character: OwnCharacter) -> Sequence[tuple[Kind, str, ObjectFacts]]:
        """List the uploaded recordings: kind, id and facts of each."""
        found = await self.services.recordings.list(recordings_prefix(character.character_id))
        parts = [(each.name.split("/"), each) for each in recordings_among(found)]
        return [(Kind(kind), recording_id, each) for (_, kind, recording_id), each in parts]

    async def sign_recording(
        self, character: OwnCharacter, new: NewRecording
    ) -> tuple[str, SignedUpload]:
        with _character_errors():
            own.require_collecting(character)
        try:
            content_type = parse_content_type(new.content_type)
        except UnsupportedContentTypeError as error:
            raise Problem(415, ErrorCode.UNSUPPORTED_FORMAT, str(error)) from error
        uploaded = await self.recordings(character)
        if len(uploaded) >= MAX_RECORDINGS or _bytes(uploaded) >= MAX_TOTAL_BYTES:
            detail = (
                f"At most {MAX_RECORDINGS} recordings of {MAX_TOTAL_BYTES} bytes together are"
                " taken; delete one, or begin the training."
            )
            raise Problem(409, "too_many_recordings", detail)
        name = new_recording_name(character.character_id, new.kind)
        signed = await self.services.recordings.sign_upload(
            name,
            content_type=content_type,
            max_bytes=MAX_RECORDING_BYTES,
            lifetime=self.upload_lifetime,
        )
        return name.rpartition("/")[2], signed

    async def delete_recording(self, character: OwnCharacter, recording_id: str) -> None:
        with _character_errors():
            own.require_collecting(character)
        if _RECORDING_ID.fullmatch(recording_id) is None:
            return
        for kind in Kind:
            name = recording_name(character.character_id, kind, recording_id)
            await self.services.recordings.delete(name)

    async def train(self, character: OwnCharacter) -> OwnCharacter:
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
        queued = await self._change(character, own.queue)
        self.services.wake_trainer()
        _LOG.info("own character queued", extra={"event": "own_character_queued"})
        return queued

    async def change(self, character: OwnCharacter, changes: OwnCharacterChange) -> OwnCharacter:
        if changes.visibility is not None and changes.visibility not in self.visibilities:
            detail = "Characters cannot be shown to everybody here; share its link."
            raise Problem(403, "not_allowed_here", detail)

        def apply(each: OwnCharacter, now: datetime) -> OwnCharacter:
            if changes.name is not None:
                each = own.rename(each, changes.name, now)
            if changes.visibility is not None:
                each = own.share(each, changes.visibility, now)
            if changes.keeps_recordings is not None:
                each = own.keep_recordings(each, is_wanted=changes.keeps_recordings, now=now)
            return each

        result = await self._change(character, apply)
        if changes.keeps_recordings is False:
            # The trainer deletes the recordings.
            self.services.wake_trainer()
        _LOG.info("own character changed", extra={"event": "own_character_changed"})
        return result

    async def card(self, character: OwnCharacter) -> Card:
        """Read the measured quality of a character and the names of the sounds to compare."""
        prefix = card_prefix(character.character_id)
        names = [each.name.removeprefix(prefix) for each in await self._characters.list(prefix)]
        try:
            figures = CardFigures.model_validate_json(await self._read_of_card(character, CARD))
        except ValueError:
            raise _no_card() from None
        sounds = [each.removesuffix(_WAV) for each in names if each.endswith(_WAV)]
        return Card(**figures.model_dump(), sounds=sounds)

    async def card_sound(self, character: OwnCharacter, sound: str) -> bytes:
        return await self._read_of_card(character, f"{sound}{_WAV}")

    async def _read_of_card(self, character: OwnCharacter, file: str) -> bytes:
        try:
            found = await self._characters.find(f"{card_prefix(character.character_id)}{file}")
            return await self._characters.read(
                found.name, found.generation, max_bytes=_MOST_CARD_BYTES
            )
        except ObjectMissingError:
            raise _no_card() from None

    async def reopen(self, character: OwnCharacter, client: str) -> OwnCharacter:
        """Collect more recordings for a better training, with a new spoken consent."""
        now = self.now()
        sentence = draw_sentence(character.sentence.language, now.date())
        # Refused before it takes a place of the day.
        with _character_errors():
            own.reopen(character, sentence, now)
        with _day_limits():
            by = character.owner or client
            await self.services.store.take_place(limits=self.limits, by=by)
        reopened = await self._change(character, lambda each, at: own.reopen(each, sentence, at))
        prefix = recordings_prefix(character.character_id, Kind.CONSENT)
        await self.services.recordings.delete_all(prefix)
        _LOG.info("own character reopened", extra={"event": "own_character_reopened"})
        return reopened

    async def _change(
        self, character: OwnCharacter, transition: Callable[[OwnCharacter, datetime], OwnCharacter]
    ) -> OwnCharacter:
        with _character_errors():
            return await change_own(self.services.store, character.character_id, transition)

    async def delete(self, character: OwnCharacter) -> None:
        character_id = character.character_id
        # If a bucket does not answer, the owner's next request must still find the document. A
        # trainer that finds it gone removes what it has published.
        await self._characters.delete(manifest_name(character_id))
        await asyncio.gather(
            self._characters.delete_all(f"{character_id}/"),
            self.services.recordings.delete_all(recordings_prefix(character_id)),
        )
        await self.services.store.delete(character_id)
        # A trainer may have published between the two, when the document was still there.
        await self._characters.delete_all(f"{character_id}/")
        _LOG.info("own character deleted", extra={"event": "own_character_deleted"})


@contextmanager
def _character_errors() -> Iterator[None]:
    try:
        yield
    except NotAllowedError as error:
        raise Problem(409, "own_character_busy", f"{error}.") from error
    except UnknownOwnCharacterError:
        detail = "This character was deleted meanwhile."
        raise Problem(404, "unknown_own_character", detail) from None


@contextmanager
def _day_limits() -> Iterator[None]:
    try:
        yield
    except DayLimitReachedError as error:
        code, who = {
            DayLimit.ALL: ("too_many_own_characters", "can be made"),
            DayLimit.OWNER: ("too_many_own_characters_of_owner", "one visitor can make"),
        }[error.limit]
        detail = f"As many characters as {who} in a day were begun; come back tomorrow."
        raise Problem(429, code, detail, {"Retry-After": "3600"}) from None


def _no_card() -> Problem:
    return Problem(404, "no_card", "There is no such part of a card: it is made with a training.")


def _bytes(uploaded: Sequence[tuple[Kind, str, ObjectFacts]]) -> int:
    return sum(each.bytes for _, _, each in uploaded)


_MOST_PUBLIC: Final = 200  # listed: those that were made public first


@dataclass(frozen=True, slots=True)
class OwnCharacterAccess:
    store: OwnCharacterStore
    allows_public: bool

    async def name_for(
        self, character_id: str, visitor: CharacterChooser
    ) -> tuple[str, bool] | None:
        """Return the name and whether it is the visitor's own; None if they may not use it."""
        try:
            character = (await self.store.read(character_id)).character
        except UnknownOwnCharacterError:
            return None
        is_owner = character.is_owned_by(visitor.uid, visitor.key)
        return (character.name, is_owner) if character.is_usable(by_owner=is_owner) else None

    async def public(self) -> Mapping[str, str]:
        found = await self.store.find_public(_MOST_PUBLIC) if self.allows_public else ()
        return {each.character_id: each.name for each in found}


class TrainerCall:
    """Starts the trainer while the character's owner gets an answer.

    A failed request is logged and not repeated, because the sweep starts the trainer, too.
    """

    def __init__(self, start: Callable[[], Awaitable[None]]) -> None:
        self._start = start
        self._under_way: set[asyncio.Task[None]] = set()

    def __call__(self) -> None:
        task = asyncio.create_task(self._try())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _try(self) -> None:
        try:
            await self._start()
        except PassingError as error:
            _LOG.warning("%s", error, extra={"event": "trainer_not_called"})
