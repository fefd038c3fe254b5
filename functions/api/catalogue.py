"""Which character a visitor's voice is for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from functions.api.problems import Problem
from shared.characters.bucket import (
    IncompleteCharacterError,
    NoSuchCharacterError,
    is_own_character,
)
from shared.characters.manifest import MAX_PORTRAIT_BYTES, CharacterName, ManifestError
from shared.runtime.process import read_at_most
from shared.voices.objects import StorageUnavailableError
from shared.voices.voice import ErrorCode, PassingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared.characters.bucket import CharacterBucket, PublishedCharacter
    from shared.characters.manifest import CharacterManifest


@dataclass(frozen=True, slots=True)
class CharacterChooser:
    """Who wants a character."""

    uid: str | None = None
    key: str | None = None


ANYBODY: Final = CharacterChooser()


class OwnCharacterNames(Protocol):
    """Says which visitors' own characters there are; see functions.api.own_characters."""

    async def name_for(self, character_id: str, visitor: CharacterChooser) -> str | None:
        """Return a character's name; None if there is none that this visitor may speak with."""
        ...

    async def public(self) -> Mapping[str, str]:
        """Return the names of the characters that everybody may see, by id."""
        ...


class VoiceSource(Enum):
    """The source of a voice: a recording or a text."""

    SPEECH = "speech"
    TEXT = "text"

    def is_taken_by(self, character: CharacterManifest) -> bool:
        """Return whether a character makes voices from this."""
        return character.takes_text if self is VoiceSource.TEXT else character.takes_speech

    @property
    def refusal(self) -> ErrorCode:
        """The code with which a character that does not take it is refused."""
        return ErrorCode.TEXT_NOT_TAKEN if self is VoiceSource.TEXT else ErrorCode.SPEECH_NOT_TAKEN

    @property
    def verb(self) -> str:
        """The ability that a character needs for it, in words."""
        return "speak text" if self is VoiceSource.TEXT else "convert recordings"


def choose_character(
    characters: Mapping[str, CharacterManifest], name: str | None, source: VoiceSource
) -> CharacterManifest:
    """Find the character of an id, or the first that takes the source if none is named.

    Raises:
        Problem: `unknown_character`, `text_not_taken` or `speech_not_taken`.
    """
    fitting = {key: each for key, each in characters.items() if source.is_taken_by(each)}
    if name is None and fitting:
        return next(iter(fitting.values()))
    if name is not None and name not in characters:
        known = ", ".join(characters)
        detail = f"There is no character {name!r}; choose one of {known}."
        raise Problem(422, ErrorCode.UNKNOWN_CHARACTER, detail)
    if name is None or name not in fitting:
        others = f"; choose one of {', '.join(fitting)}" if fitting else ""
        who = "No character here can" if name is None else f"{name!r} does not"
        raise Problem(422, source.refusal, f"{who} {source.verb}{others}.")
    return fitting[name]


_LOG = logging.getLogger(__name__)

UNKNOWN_OLD_SECONDS: Final = 3.0
"""After how long the list is read again when a character is asked for that it does not have.

It may have been uploaded just now.
"""

READING_SECONDS: Final = 5.0
"""How long to wait for the list."""


class Catalogue:
    """Lists the characters, and finds the one that a visitor asks for.

    Nothing waits for the bucket that can do without: where a built-in character is wanted, it is
    not asked. On a person's own machine a built-in character goes with its folder.

    Args:
        built_in: the manifests of the characters of the image, by id.
        bucket: the further characters; None if there is no bucket.
        default: the character of voices that name none, if it takes what they are made from; the
            first one if None.
        now: a clock in seconds that never goes back.
        own: says which visitors' own characters there are; None where they are not offered.
    """

    def __init__(
        self,
        built_in: Mapping[str, CharacterManifest],
        bucket: CharacterBucket | None = None,
        refresh_seconds: float = 20.0,
        default: str | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        own: OwnCharacterNames | None = None,
    ) -> None:
        self._all_built_in = built_in
        self._folders = {name for name, each in built_in.items() if each.folder.is_dir()}
        self._bucket = bucket
        self._refresh_seconds = refresh_seconds
        self._default = default
        self._now = now
        self._own = own
        self._fetched: Mapping[str, PublishedCharacter] = MappingProxyType({})
        self._names: Mapping[str, str] = MappingProxyType({})
        self._tried_at = float("-inf")
        self._failure: StorageUnavailableError | None = None
        self._one_reading = asyncio.Lock()
        self._portraits: dict[str, tuple[int, bytes | None]] = {}
        self._one_portrait: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def list(self) -> Mapping[str, CharacterManifest]:
        """Return all characters by id: the default one, the other built-in ones, the others.

        If the bucket does not answer, those are returned that it had before.
        """
        await self._read_if_older_than(self._refresh_seconds)
        return self._all()

    async def choose(
        self, name: str | None, source: VoiceSource, visitor: CharacterChooser = ANYBODY
    ) -> CharacterManifest:
        """Find the character of an id, or the first that takes the source if none is named.

        Raises:
            Problem: `unknown_character`, `text_not_taken` or `speech_not_taken`.
            StorageUnavailableError: it may be in the bucket, which does not answer.
        """
        if name is None and self._default is not None:
            name = await self._usable_default(self._default, source)
        if name is not None and is_own_character(name):
            own = await self._find_own(name, visitor)
            if own is None:
                detail = (
                    f"There is no character {name!r}; it was deleted, or its owner withdrew it."
                )
                raise Problem(422, ErrorCode.UNKNOWN_CHARACTER, detail)
            return choose_character({name: own}, name, source)
        built_in = self._built_in()
        has_default = any(source.is_taken_by(each) for each in built_in.values())
        if name in built_in or (name is None and has_default):
            return choose_character(built_in, name, source)
        await self._read_if_older_than(self._refresh_seconds)
        if name not in self._fetched:
            await self._read_if_older_than(min(UNKNOWN_OLD_SECONDS, self._refresh_seconds))
            if self._failure is not None:
                raise self._failure
        return choose_character(self._all(), name, source)

    async def find(
        self, character_id: str, visitor: CharacterChooser = ANYBODY
    ) -> CharacterManifest:
        """Find a character by its id, whether or not the list has it.

        Raises:
            Problem: `unknown_character`.
            StorageUnavailableError: it may be in the bucket, which does not answer.
        """
        if is_own_character(character_id):
            found = await self._find_own(character_id, visitor)
        else:
            found = (await self.list()).get(character_id)
        if found is None:
            raise Problem(404, ErrorCode.UNKNOWN_CHARACTER, "There is no such character.")
        return found

    async def _find_own(
        self, character_id: str, visitor: CharacterChooser
    ) -> CharacterManifest | None:
        """Find a visitor's own character; None if there is none that this visitor may use."""
        if self._bucket is None or self._own is None:
            return None
        name = await self._own.name_for(character_id, visitor)
        manifest = None if name is None else await _read_own(self._bucket, character_id)
        return None if name is None or manifest is None else _called(manifest, name)

    async def _usable_default(self, default: str, source: VoiceSource) -> str | None:
        """Return the default character if it is there and takes the source."""
        if default not in self._built_in():
            await self._read_if_older_than(self._refresh_seconds)
        manifest = self._all().get(default)
        return default if manifest is not None and source.is_taken_by(manifest) else None

    def to_load(self, name: str | None) -> str | None:
        """Return the character if a converter has to load it before it can convert with it."""
        wanted = name or self._default
        is_fetched = wanted in self._fetched or (wanted is not None and is_own_character(wanted))
        return wanted if is_fetched else None

    async def portrait(self, character_id: str) -> bytes | None:
        """Return a character's portrait, an SVG, or None if there is none.

        One of the bucket is read once, and again when it was replaced, for all who ask meanwhile.

        Raises:
            StorageUnavailableError: the bucket does not answer.
        """
        manifest = (await self.list()).get(character_id)
        if manifest is None or manifest.preview.portrait is None:
            return None
        fetched = self._fetched.get(character_id)
        if fetched is None or self._bucket is None:
            return await asyncio.to_thread(_built_in_portrait, manifest)
        if fetched.portrait is None:
            return None
        async with self._one_portrait[character_id]:
            known = self._portraits.get(character_id)
            if known is None or known[0] != fetched.portrait.generation:
                try:
                    async with asyncio.timeout(READING_SECONDS):
                        portrait = await _read_portrait(self._bucket, fetched)
                except TimeoutError as error:
                    raise StorageUnavailableError("the portrait does not come") from error
                known = fetched.portrait.generation, portrait
                self._portraits[character_id] = known
        return known[1]

    def _built_in(self) -> Mapping[str, CharacterManifest]:
        """Look which built-in characters are there; the disk is asked for each."""
        return {
            name: each
            for name, each in self._all_built_in.items()
            if name not in self._folders or each.folder.is_dir()
        }

    def _all(self) -> Mapping[str, CharacterManifest]:
        fetched = {
            character_id: _called(each.manifest, self._names.get(character_id))
            for character_id, each in self._fetched.items()
        }
        found = {**self._built_in(), **fetched}
        return {name: found[name] for name in sorted(found, key=lambda name: name != self._default)}

    async def _read_if_older_than(self, seconds: float) -> None:
        if self._bucket is None:
            return
        async with self._one_reading:
            if self._now() - self._tried_at < seconds:
                return
            try:
                async with asyncio.timeout(READING_SECONDS):
                    public = {} if self._own is None else await self._own.public()
                    found = await self._bucket.list(with_own=public.keys())
            except (PassingError, TimeoutError) as error:
                _LOG.warning(
                    "the characters of the bucket are not read: %s",
                    error,
                    extra={"event": "characters_not_read"},
                )
                self._failure = StorageUnavailableError("the bucket of the characters")
            else:
                self._names = public
                self._fetched = self._without_built_in(found)
                self._portraits = {
                    name: known for name, known in self._portraits.items() if name in self._fetched
                }
                self._failure = None
            self._tried_at = self._now()

    def _without_built_in(
        self, found: Mapping[str, PublishedCharacter]
    ) -> Mapping[str, PublishedCharacter]:
        built_in = self._built_in()
        for name in sorted(built_in.keys() & found.keys()):
            extra = {"event": "character_not_listed", "character": name}
            _LOG.warning("%s of the bucket is hidden by the built-in one", name, extra=extra)
        others = {name: each for name, each in found.items() if name not in built_in}
        return MappingProxyType(others)


def _called(manifest: CharacterManifest, name: str | None) -> CharacterManifest:
    """Return a manifest with the name that its owner gave it later, if any."""
    if name is None:
        return manifest
    return manifest.model_copy(update={"name": CharacterName(ja=name, en=name)})


async def _read_own(bucket: CharacterBucket, name: str) -> CharacterManifest | None:
    """Read a visitor's own character, which no list has; None if there is none."""
    try:
        return (await bucket.read(name)).manifest
    except (NoSuchCharacterError, ManifestError) as error:
        if isinstance(error, ManifestError):
            extra = {"event": "character_not_listed"}
            _LOG.warning("a visitor's own character is not used: %s", error, extra=extra)
        return None


def _built_in_portrait(manifest: CharacterManifest) -> bytes | None:
    path = manifest.folder / str(manifest.preview.portrait)
    try:
        return read_at_most(path, MAX_PORTRAIT_BYTES)
    except OSError as error:
        extra = {"event": "portrait_not_shown", "character": manifest.id}
        _LOG.warning("the portrait of %s is not shown: %s", manifest.id, error, extra=extra)
        return None


async def _read_portrait(bucket: CharacterBucket, character: PublishedCharacter) -> bytes | None:
    try:
        portrait = await bucket.read_portrait(character, MAX_PORTRAIT_BYTES)
    except IncompleteCharacterError:
        return None
    return portrait if len(portrait) <= MAX_PORTRAIT_BYTES else None
