"""The catalogue of characters, and the choice of one for a voice."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from enum import Enum
from typing import TYPE_CHECKING, Final

from functions.api.problems import Problem
from functions.api.visitors import ANYBODY, CharacterChooser
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

    from functions.api.own_characters import OwnCharacterAccess
    from shared.characters.bucket import CharacterBucket, PublishedCharacter
    from shared.characters.manifest import CharacterManifest


class VoiceSource(Enum):
    SPEECH = "speech"
    TEXT = "text"

    def is_taken_by(self, character: CharacterManifest) -> bool:
        return character.takes_text if self is VoiceSource.TEXT else character.takes_speech


def choose_character(
    characters: Mapping[str, CharacterManifest], name: str | None, source: VoiceSource
) -> CharacterManifest:
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
        code, verb = (
            (ErrorCode.TEXT_NOT_TAKEN, "speak text")
            if source is VoiceSource.TEXT
            else (ErrorCode.SPEECH_NOT_TAKEN, "convert recordings")
        )
        raise Problem(422, code, f"{who} {verb}{others}.")
    return fitting[name]


_LOG = logging.getLogger(__name__)

UNKNOWN_OLD_SECONDS: Final = 3.0  # age of the list that is read again for an unknown character
READING_SECONDS: Final = 5.0


class Catalogue:
    """Lists the characters, and finds the one that a visitor asks for.

    The bucket of further characters is never read for a built-in one. On a person's own machine a
    built-in character disappears with its folder. Voices that name no character get `default`, if
    it takes their source, or else the first one.
    """

    def __init__(
        self,
        built_in: Mapping[str, CharacterManifest],
        bucket: CharacterBucket | None = None,
        refresh_seconds: float = 20.0,
        default: str | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        own: OwnCharacterAccess | None = None,
    ) -> None:
        self._all_built_in = built_in
        self._folders = {name for name, each in built_in.items() if each.folder.is_dir()}
        self._bucket = bucket
        self._refresh_seconds = refresh_seconds
        self._default = default
        self._now = now
        self._own = own
        self._fetched: Mapping[str, PublishedCharacter] = {}
        self._names: Mapping[str, str] = {}
        self._tried_at = float("-inf")
        self._failure: StorageUnavailableError | None = None
        self._one_reading = asyncio.Lock()
        self._portraits: dict[str, tuple[int, bytes | None]] = {}
        self._one_portrait: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def list(self) -> Mapping[str, CharacterManifest]:
        """Return all characters by id: the default one, the other built-in ones, the others.

        While the bucket does not answer, it keeps the characters that it had before.
        """
        await self._read_if_older_than(self._refresh_seconds)
        return self._all()

    async def choose(
        self, name: str | None, source: VoiceSource, visitor: CharacterChooser = ANYBODY
    ) -> tuple[CharacterManifest, bool]:
        """Find the character of an id, or the first that takes the source if none is named.

        The second value tells whether it is an own character of this visitor's.
        `StorageUnavailableError` if it may be in the bucket, which does not answer.
        """
        if name is None and self._default is not None:
            if self._default not in self._built_in():
                await self._read_if_older_than(self._refresh_seconds)
            manifest = self._all().get(self._default)
            if manifest is not None and source.is_taken_by(manifest):
                name = self._default
        if name is not None and is_own_character(name):
            own, is_owner = await self._find_own(name, visitor)
            if own is None:
                detail = (
                    f"There is no character {name!r}; it was deleted or withdrawn by its owner."
                )
                raise Problem(422, ErrorCode.UNKNOWN_CHARACTER, detail)
            return choose_character({name: own}, name, source), is_owner
        built_in = self._built_in()
        has_default = any(source.is_taken_by(each) for each in built_in.values())
        if name in built_in or (name is None and has_default):
            return choose_character(built_in, name, source), False
        await self._read_if_older_than(self._refresh_seconds)
        if name not in self._fetched:
            await self._read_if_older_than(min(UNKNOWN_OLD_SECONDS, self._refresh_seconds))
            if self._failure is not None:
                raise self._failure
        return choose_character(self._all(), name, source), False

    async def find(
        self, character_id: str, visitor: CharacterChooser = ANYBODY
    ) -> CharacterManifest:
        if is_own_character(character_id):
            found, _ = await self._find_own(character_id, visitor)
        else:
            found = (await self.list()).get(character_id)
        if found is None:
            raise Problem(404, ErrorCode.UNKNOWN_CHARACTER, "There is no such character.")
        return found

    async def _find_own(
        self, character_id: str, visitor: CharacterChooser
    ) -> tuple[CharacterManifest | None, bool]:
        if self._bucket is None or self._own is None:
            return None, False
        known = await self._own.name_for(character_id, visitor)
        if known is None:
            return None, False
        name, is_owner = known
        try:
            return _rename((await self._bucket.read(character_id)).manifest, name), is_owner
        except NoSuchCharacterError:
            pass
        except ManifestError as error:
            extra = {"event": "character_not_listed"}
            _LOG.warning("a visitor's own character is not used: %s", error, extra=extra)
        return None, False

    def to_load(self, name: str | None) -> str | None:
        """Return the character that a converter must load first, or None for a built-in one."""
        wanted = name or self._default
        is_fetched = wanted in self._fetched or (wanted is not None and is_own_character(wanted))
        return wanted if is_fetched else None

    async def portrait(self, character_id: str) -> bytes | None:
        """Return a portrait, an SVG. One in the bucket is read once for all requests."""
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
                read: bytes | None = None
                try:
                    async with asyncio.timeout(READING_SECONDS):
                        read = await self._bucket.read_portrait(fetched, MAX_PORTRAIT_BYTES)
                except IncompleteCharacterError:
                    pass
                except TimeoutError as error:
                    raise StorageUnavailableError("the portrait does not come") from error
                fits = read is not None and len(read) <= MAX_PORTRAIT_BYTES
                known = fetched.portrait.generation, read if fits else None
                self._portraits[character_id] = known
        return known[1]

    def _built_in(self) -> Mapping[str, CharacterManifest]:
        return {
            name: each
            for name, each in self._all_built_in.items()
            if name not in self._folders or each.folder.is_dir()
        }

    def _all(self) -> Mapping[str, CharacterManifest]:
        fetched = {
            character_id: _rename(each.manifest, self._names.get(character_id))
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
                extra = {"event": "characters_not_read"}
                _LOG.warning("the characters of the bucket are not read: %s", error, extra=extra)
                self._failure = StorageUnavailableError("the bucket of the characters")
            else:
                self._names = public
                built_in = self._built_in()
                for name in sorted(built_in.keys() & found.keys()):
                    extra = {"event": "character_not_listed", "character": name}
                    _LOG.warning("%s is hidden by the built-in one", name, extra=extra)
                self._fetched = {name: found[name] for name in found if name not in built_in}
                kept = self._portraits.keys() & self._fetched.keys()
                self._portraits = {name: self._portraits[name] for name in kept}
                self._failure = None
            self._tried_at = self._now()


def _rename(manifest: CharacterManifest, name: str | None) -> CharacterManifest:
    if name is None:
        return manifest
    return manifest.model_copy(update={"name": CharacterName(ja=name, en=name)})


def _built_in_portrait(manifest: CharacterManifest) -> bytes | None:
    path = manifest.folder / str(manifest.preview.portrait)
    try:
        return read_at_most(path, MAX_PORTRAIT_BYTES)
    except OSError as error:
        extra = {"event": "portrait_not_shown", "character": manifest.id}
        _LOG.warning("the portrait of %s is not shown: %s", manifest.id, error, extra=extra)
        return None
