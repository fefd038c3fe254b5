"""The characters in their bucket, and the ids of visitors' own characters."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from shared.characters.manifest import (
    ENCODERS,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    CharacterManifest,
    GraphFile,
    ManifestError,
    parse_manifest,
)
from shared.runtime.quoting import printable, quoted
from shared.voices.objects import ObjectMissingError
from shared.voices.voice import PassingError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from shared.ports import Bucket
    from shared.voices.objects import ObjectFacts


PREFIX: Final = "own-"
_RANDOM_BYTES: Final = 16
_ID: Final = re.compile(f"{PREFIX}[a-z2-7]{{26}}")


def new_character_id() -> str:
    """Draw an id of 128 random bits, so that nobody can guess it."""
    drawn = base64.b32encode(secrets.token_bytes(_RANDOM_BYTES)).decode()
    return PREFIX + drawn.rstrip("=").lower()


def is_own_character(character_id: str) -> bool:
    return _ID.fullmatch(character_id) is not None


_LOG = logging.getLogger(__name__)

MOST_OBJECTS: Final = 50_000  # that are listed, so that a full bucket does not fill memory
ID: Final = re.compile("[a-z][a-z0-9-]{0,31}")  # a folder of another name is no character


class NoSuchCharacterError(LookupError):
    pass


class IncompleteCharacterError(PassingError):
    """A part of the character is not in the bucket yet, or no longer."""


@dataclass(frozen=True, slots=True)
class PublishedCharacter:
    """A character in the bucket; `portrait` is None if the object is missing."""

    manifest: CharacterManifest
    revision: int
    graphs: Mapping[str, ObjectFacts]
    portrait: ObjectFacts | None = None


class CharacterBucket:
    """The bundles in a bucket.

    Every method raises `StorageUnavailableError` when Cloud Storage does not answer.
    """

    def __init__(self, open_bucket: Callable[[], Bucket]) -> None:
        self._open_bucket = open_bucket
        # By the name of the object: its generation, and its manifest or the problem with it.
        self._manifests: dict[str, tuple[int, CharacterManifest | str]] = {}
        # By the name of a manifest that is not listed: the problem that was logged.
        self._logged: dict[str, str] = {}

    @cached_property
    def _bucket(self) -> Bucket:
        return self._open_bucket()

    async def revision(self, character_id: str) -> int:
        """Return a character's revision, with one small request."""
        return (await self._find_manifest(character_id)).generation

    async def read(self, character_id: str) -> PublishedCharacter:
        """Return a character.

        Raises:
            NoSuchCharacterError: it is not in the bucket.
            ManifestError: its manifest is wrong.
            IncompleteCharacterError: one of its graphs is missing.
        """
        found = await self._find_manifest(character_id)
        own, shared, manifest = await asyncio.gather(
            self._bucket.list(f"{character_id}/", most=MOST_OBJECTS),
            self._bucket.list(f"{ENCODERS}/", most=MOST_OBJECTS),
            self._read_manifest(found),
        )
        return _published(found, manifest, {each.name: each for each in (*own, *shared)})

    async def list(
        self, *, with_own: Collection[str] = frozenset()
    ) -> Mapping[str, PublishedCharacter]:
        """Return every complete character, by id and in the order of the ids.

        A wrong or incomplete one is left out and logged, once for each problem. Visitors' own
        characters are left out unless `with_own` names them: their owners decide who may use them.
        """
        objects = await self._bucket.list(most=MOST_OBJECTS)
        if len(objects) == MOST_OBJECTS:
            self._log_once("", f"the bucket has over {MOST_OBJECTS} objects; others are left out")
        manifests = [
            each
            for each in objects
            if (character_id := id_of_manifest(each.name)) is not None
            and (not is_own_character(character_id) or character_id in with_own)
        ]
        by_name = {each.name: each for each in objects}
        found = await asyncio.gather(*(self._find_published(each, by_name) for each in manifests))
        published = [each for each in found if each is not None]
        names = {each.name for each in manifests}
        self._manifests = {name: read for name, read in self._manifests.items() if name in names}
        self._logged = {name: each for name, each in self._logged.items() if name in {"", *names}}
        return MappingProxyType({each.manifest.id: each for each in published})

    async def read_graph(self, character: PublishedCharacter, role: str) -> bytes:
        """Return a graph, at most one byte more of it than its manifest says."""
        found = character.graphs[role]
        return await self._read_object(found, found.bytes)

    async def read_portrait(self, character: PublishedCharacter, max_bytes: int) -> bytes:
        """Return a portrait, at most one byte more of it than the limit."""
        if character.portrait is None:
            raise IncompleteCharacterError(f"{character.manifest.id} has no portrait")
        return await self._read_object(character.portrait, max_bytes)

    async def _read_object(self, found: ObjectFacts, max_bytes: int) -> bytes:
        try:
            return await self._bucket.read(found.name, found.generation, max_bytes=max_bytes)
        except ObjectMissingError as error:
            # It was replaced or removed just now.
            raise IncompleteCharacterError(str(error)) from error

    async def _find_published(
        self, found: ObjectFacts, objects: Mapping[str, ObjectFacts]
    ) -> PublishedCharacter | None:
        try:
            return _published(found, await self._known_manifest(found), objects)
        except (ManifestError, IncompleteCharacterError) as error:
            self._log_once(
                found.name, f"character {id_of_manifest(found.name)} is not listed: {error}"
            )
            return None

    def _log_once(self, name: str, problem: str) -> None:
        """Log why the list lacks something, if that is new: it is read every few seconds."""
        if self._logged.get(name) == problem:
            return
        self._logged[name] = problem
        extra = {"event": "character_not_listed", "character": id_of_manifest(name)}
        _LOG.warning("%s", problem, extra=extra)

    async def _known_manifest(self, found: ObjectFacts) -> CharacterManifest:
        """Read a manifest once, even if the whole list is abandoned."""
        generation, known = self._manifests.get(found.name, (None, None))
        if known is None or generation != found.generation:
            try:
                known = await self._read_manifest(found)
            except ManifestError as error:
                known = str(error)
            self._manifests[found.name] = found.generation, known
        if isinstance(known, str):
            raise ManifestError(known)
        return known

    async def _find_manifest(self, character_id: str) -> ObjectFacts:
        if ID.fullmatch(character_id) is None or character_id == ENCODERS:
            raise NoSuchCharacterError(character_id)
        try:
            return await self._bucket.find(manifest_name(character_id))
        except ObjectMissingError as error:
            raise NoSuchCharacterError(character_id) from error

    async def _read_manifest(self, found: ObjectFacts) -> CharacterManifest:
        content = await self._read_object(found, MAX_MANIFEST_BYTES)
        folder = Path(found.name).parent
        manifest = parse_manifest(content, folder)
        if manifest.id != folder.name:
            raise ManifestError(
                f"{printable(found.name)}: field 'id': expected {quoted(folder.name)},"
                f" found {quoted(manifest.id)}."
            )
        return manifest


def manifest_name(character_id: str) -> str:
    return f"{character_id}/{MANIFEST}"


def graph_name(character_id: str, graph: GraphFile) -> str:
    """Return the name under which the command uploads a character's own graph."""
    return f"{character_id}/{graph.sha256}.onnx"


def shared_graph_name(graph: GraphFile) -> str:
    return f"{ENCODERS}/{graph.sha256}.onnx"


def id_of_manifest(name: str) -> str | None:
    """Return the id of the character whose manifest has this name; None for any other object."""
    folder, _, file = name.rpartition("/")
    is_manifest = file == MANIFEST and ID.fullmatch(folder) is not None and folder != ENCODERS
    return folder if is_manifest else None


def _published(
    found: ObjectFacts, manifest: CharacterManifest, objects: Mapping[str, ObjectFacts]
) -> PublishedCharacter:
    graphs = {
        role: find_stored_graph(manifest.id, graph, objects)
        for role, graph in manifest.graphs.items()
    }
    portrait = objects.get(f"{manifest.id}/{manifest.preview.portrait}")
    return PublishedCharacter(manifest, found.generation, MappingProxyType(graphs), portrait)


def find_stored_graph(
    character_id: str, graph: GraphFile, objects: Mapping[str, ObjectFacts]
) -> ObjectFacts:
    """Find a graph where the command puts it, or under its own name where it was copied."""
    names = (
        graph_name(character_id, graph),
        shared_graph_name(graph),
        f"{character_id}/{graph.file}",
    )
    for name in names:
        if name in objects and objects[name].bytes == graph.bytes:
            return objects[name]
    raise IncompleteCharacterError(
        f"{manifest_name(character_id)} names {graph.file}, which is not there with"
        f" {graph.bytes} bytes; upload the graphs first, the manifest last"
    )
