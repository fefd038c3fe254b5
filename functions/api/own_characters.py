"""What an owner does with a character of the own voice: begin, bring recordings, train, delete."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from functions.api.own_character_schemas import Card, CardFigures
from functions.api.problems import Problem
from shared.characters.bucket import is_own_character, manifest_name, new_character_id
from shared.characters.consent import draw_sentence
from shared.characters.own import own_character
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
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from functions.api.catalogue import CharacterChooser
    from functions.api.own_character_schemas import (
        NewOwnCharacter,
        NewRecording,
        OwnCharacterChange,
    )
    from shared.characters.own.store import DayLimits, OwnCharacterStore
    from shared.ports import Bucket
    from shared.voices.objects import ObjectFacts, SignedUpload


_LOG = logging.getLogger(__name__)

_KEY_BYTES: Final = 24
_DAY_LIMITS: Final = {
    DayLimit.ALL: ("too_many_own_characters", "can be made"),
    DayLimit.OWNER: ("too_many_own_characters_of_owner", "one visitor can make"),
}
_MOST_CARD_BYTES: Final = 2_000_000
_MOST_LISTED: Final = 50
_WAV: Final = ".wav"
_RECORDING_ID: Final = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class OwnCharacterServices:
    """What the making of characters speaks to."""

    store: OwnCharacterStore
    recordings: Bucket
    open_characters: Callable[[], Bucket]
    wake_trainer: Callable[[], None]


class OwnCharacterService:
    """Characters of visitors' own voices."""

    def __init__(
        self,
        services: OwnCharacterServices,
        *,
        limits: DayLimits,
        upload_lifetime: timedelta,
        now: Callable[[], datetime],
        allows_public: bool = False,
    ) -> None:
        self._services = services
        self._allows_public = allows_public
        self._limits = limits
        self._upload_lifetime = upload_lifetime
        self._now = now

    @property
    def visibilities(self) -> Sequence[Visibility]:
        """Who owners may let speak with their characters."""
        return [each for each in Visibility if each is not Visibility.PUBLIC or self._allows_public]

    @cached_property
    def _characters(self) -> Bucket:
        return self._services.open_characters()

    async def begin(
        self, wish: NewOwnCharacter, owner: str | None, client: str
    ) -> tuple[OwnCharacter, str]:
        """Begin a character; return it and the secret of its owner.

        Raises:
            Problem: `too_many_own_characters` or `too_many_own_characters_of_owner`.
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
        try:
            await self._services.store.create(character, limits=self._limits, by=owner or client)
        except DayLimitReachedError as error:
            raise _too_many(error) from None
        _LOG.info("own character begun", extra={"event": "own_character_begun"})
        return character, key

    async def find(self, character_id: str, key: str | None, uid: str | None) -> OwnCharacter:
        """Read a character for its owner: who is signed in as the one who began it, or has its key.

        A character that was begun by a visitor who was signed in is theirs, with or without the
        key; another one belongs to whoever has the key. Whoever has no right to it is told the
        same as if it were not there; with its key they are told why they have none.

        Raises:
            Problem: `unknown_own_character` or `own_character_of_another_account`.
        """
        unknown = Problem(
            404, "unknown_own_character", "There is no such character, or it is not yours."
        )
        if not is_own_character(character_id):
            raise unknown
        try:
            character = (await self._services.store.read(character_id)).character
        except UnknownOwnCharacterError:
            raise unknown from None
        if character.is_owned_by(uid, key):
            return character
        if key is not None and character.is_key(key):
            detail = "It belongs to an account; sign in with the one with which it was begun."
            raise Problem(403, "own_character_of_another_account", detail)
        raise unknown

    async def of_owner(self, uid: str) -> Sequence[OwnCharacter]:
        """Read the characters of who has signed in, at most 50, those that were begun last first.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        return await self._services.store.find_by_owner(uid, _MOST_LISTED)

    async def recordings(self, character: OwnCharacter) -> Sequence[tuple[Kind, str, ObjectFacts]]:
        """List what was uploaded: kind, id and facts of each."""
        found = await self._services.recordings.list(recordings_prefix(character.character_id))
        return [
            (Kind(kind), name, each)
            for each in recordings_among(found)
            for kind, name in [_parts(each.name)]
        ]

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
        queued = await self._apply(character, own.queue)
        self._services.wake_trainer()
        _LOG.info("own character queued", extra={"event": "own_character_queued"})
        return queued

    async def change(self, character: OwnCharacter, wish: OwnCharacterChange) -> OwnCharacter:
        """Rename, share or withdraw a character, keep its recordings or not.

        Raises:
            Problem: `own_character_busy` if it cannot be shared yet, `not_allowed_here` if the
                operator lets nobody show a character to everybody.
        """
        if wish.visibility is not None and wish.visibility not in self.visibilities:
            detail = "Characters cannot be shown to everybody here; share its link."
            raise Problem(403, "not_allowed_here", detail)

        def changed(each: OwnCharacter, now: datetime) -> OwnCharacter:
            if wish.name is not None:
                each = own_character.rename(each, wish.name, now)
            if wish.visibility is not None:
                each = own_character.share(each, wish.visibility, now)
            if wish.keeps_recordings is not None:
                wanted = wish.keeps_recordings
                each = own_character.keep_recordings(each, is_wanted=wanted, now=now)
            return each

        result = await self._apply(character, changed)
        if wish.keeps_recordings is False:
            # It deletes what nobody keeps any more.
            self._services.wake_trainer()
        _LOG.info("own character changed", extra={"event": "own_character_changed"})
        return result

    async def card(self, character: OwnCharacter) -> Card:
        """Read how a character was measured, and which sounds there are to compare.

        Raises:
            Problem: `no_card` if there is none.
        """
        prefix = card_prefix(character.character_id)
        names = [each.name.removeprefix(prefix) for each in await self._characters.list(prefix)]
        try:
            figures = CardFigures.model_validate_json(await self._of_card(character, CARD))
        except ValueError:
            raise _no_card() from None
        sounds = [each.removesuffix(_WAV) for each in names if each.endswith(_WAV)]
        return Card(**figures.model_dump(), sounds=sounds)

    async def card_sound(self, character: OwnCharacter, sound: str) -> bytes:
        """Read one of these sounds, a WAV file.

        Raises:
            Problem: `no_card` if there is none of this name.
        """
        return await self._of_card(character, f"{sound}{_WAV}")

    async def _of_card(self, character: OwnCharacter, file: str) -> bytes:
        try:
            found = await self._characters.find(f"{card_prefix(character.character_id)}{file}")
            return await self._characters.read(
                found.name, found.generation, max_bytes=_MOST_CARD_BYTES
            )
        except ObjectMissingError:
            raise _no_card() from None

    async def reopen(self, character: OwnCharacter, client: str) -> OwnCharacter:
        """Collect more recordings for a better training, with a new spoken consent.

        Args:
            client: as in `begin`.

        Raises:
            Problem: `own_character_busy` if its recordings were not kept, or as `begin`.
        """
        now = self._now()
        sentence = draw_sentence(character.sentence.language, now.date())
        # Refused before it takes a place of the day.
        _allowed(lambda: own_character.reopen(character, sentence, now))
        try:
            by = character.owner or client
            await self._services.store.take_place(limits=self._limits, by=by)
        except DayLimitReachedError as error:
            raise _too_many(error) from None
        reopened = await self._apply(
            character, lambda each, at: own_character.reopen(each, sentence, at)
        )
        prefix = recordings_prefix(character.character_id, Kind.CONSENT)
        await self._services.recordings.delete_all(prefix)
        _LOG.info("own character reopened", extra={"event": "own_character_reopened"})
        return reopened

    async def _apply(
        self, character: OwnCharacter, transition: Callable[[OwnCharacter, datetime], OwnCharacter]
    ) -> OwnCharacter:
        try:
            return await change_own(self._services.store, character.character_id, transition)
        except NotAllowedError as error:
            raise Problem(409, "own_character_busy", f"{error}.") from error
        except UnknownOwnCharacterError:
            detail = "This character was deleted meanwhile."
            raise Problem(404, "unknown_own_character", detail) from None

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
    _allowed(lambda: own.require_collecting(character))


def _allowed(act: Callable[[], object]) -> None:
    try:
        act()
    except NotAllowedError as error:
        raise Problem(409, "own_character_busy", f"{error}.") from error


def _no_card() -> Problem:
    return Problem(404, "no_card", "There is no such part of a card: it is made with a training.")


def _too_many(error: DayLimitReachedError) -> Problem:
    code, who = _DAY_LIMITS[error.limit]
    detail = f"As many characters as {who} in a day were begun; come back tomorrow."
    return Problem(429, code, detail, {"Retry-After": "3600"})


def _parts(name: str) -> tuple[str, str]:
    """Return the kind and the id in a recording's name."""
    _, kind, recording_id = name.split("/")
    return kind, recording_id


def _bytes(uploaded: Sequence[tuple[Kind, str, ObjectFacts]]) -> int:
    return sum(each.bytes for _, _, each in uploaded)


_MOST_PUBLIC: Final = 200
"""How many public ones are listed at most, those that were made public first."""


@dataclass(frozen=True, slots=True)
class OwnCharacterAccess:
    """Answers what the list of characters cannot know by the bucket alone."""

    store: OwnCharacterStore
    allows_public: bool

    async def name_for(self, character_id: str, visitor: CharacterChooser) -> str | None:
        """Return a character's name; None if there is none that this visitor may speak with.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        try:
            character = (await self.store.read(character_id)).character
        except UnknownOwnCharacterError:
            return None
        is_shared = character.visibility is not Visibility.PRIVATE
        if not is_shared and not character.is_owned_by(visitor.uid, visitor.key):
            return None
        return character.name

    async def public(self) -> Mapping[str, str]:
        """Return the names of the characters that everybody may see, by id.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        if not self.allows_public:
            return {}
        found = await self.store.find_public(_MOST_PUBLIC)
        return {each.character_id: each.name for each in found}


class TrainerCall:
    """Starts the trainer beside the answer to the character's owner.

    A request that fails is logged and not sent again: the sweep, too, looks for what waits.
    """

    def __init__(self, start: Callable[[], Awaitable[None]]) -> None:
        self._start = start
        self._under_way: set[asyncio.Task[None]] = set()

    def __call__(self) -> None:
        """Send a request; does not wait for the answer."""
        task = asyncio.create_task(self._try())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _try(self) -> None:
        try:
            await self._start()
        except PassingError as error:
            _LOG.warning("%s", error, extra={"event": "trainer_not_called"})
