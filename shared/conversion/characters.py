"""The characters that can convert: their loan, their load, and the rehearsal of a start."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from shared.characters.manifest import MAX_BUNDLE_BYTES
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES, build_engine, build_text_engine
from shared.speech.graphs.bundle import Graph
from shared.speech.graphs.bundle_folders import (
    assemble_character,
    check_size,
    load_characters,
    verify_graph,
)
from shared.speech.graphs.onnx_files import read_content
from shared.speech.graphs.sessions import find_session
from shared.speech.results.audio_files import encode_result
from shared.speech.results.statement import Marking
from shared.voices.store import UnknownVoiceError
from shared.voices.voice import ErrorCode, OutputFormat, VoiceError, new_voice_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from shared.characters.bucket import CharacterBucket, PublishedCharacter
    from shared.characters.manifest import CharacterManifest, GraphFile
    from shared.ports import Bucket
    from shared.speech.decoding.decoder import Decoder
    from shared.speech.engines.interface import Engine
    from shared.speech.engines.text_interface import PhraseEngine
    from shared.speech.graphs.bundle import CharacterBundle
    from shared.speech.graphs.onnx_files import GraphContent
    from shared.speech.graphs.sessions import GraphSession, SessionSettings
    from shared.speech.results.watermark_engines import Marker
    from shared.speech.signal.sound import Samples
    from shared.voices.store import VoiceStore


_LOG = logging.getLogger(__name__)

SAMPLE_RATE: Final = 48_000
SECONDS: Final = 1.0
_HERTZ: Final = 150.0
_HARMONICS: Final = 12
_SYLLABLES_PER_SECOND: Final = 3.0
_LOUDNESS: Final = 0.1
_MARKING: Final = Marking("rehearsal", "Rehearsal", "nobody")


@dataclass(frozen=True, slots=True)
class LoadedCharacter:
    """A character that can convert; without a text engine it takes no texts."""

    manifest: CharacterManifest
    engine: Engine
    text_engine: PhraseEngine | None = None

    @property
    def marking(self) -> Marking:
        return Marking(self.manifest.id, self.manifest.name.en, self.manifest.credit)

    @property
    def text_marking(self) -> Marking:
        return replace(self.marking, is_from_text=True)


class CharacterLender(Protocol):
    def lend(self, character_id: str) -> AbstractAsyncContextManager[LoadedCharacter]:
        """Lend a character, which may have to be loaded, for the time inside the context.

        It stays as it is until it is returned.

        Raises:
            VoiceError: `unknown_character`, or the character will not work.
            PassingError: it cannot be loaded now.
        """
        ...


class BuiltInCharacters:
    """The characters of the image: all of them are loaded."""

    def __init__(self, characters: Mapping[str, LoadedCharacter]) -> None:
        self._characters = characters

    def __contains__(self, character_id: str) -> bool:
        return character_id in self._characters

    @asynccontextmanager
    async def lend(self, character_id: str) -> AsyncIterator[LoadedCharacter]:
        character = self._characters.get(character_id)
        if character is None:
            raise unknown_character(character_id)
        yield character


def unknown_character(character_id: str) -> VoiceError:
    message = f"There is no character {character_id!r}; choose one of those that the api lists."
    return VoiceError(ErrorCode.UNKNOWN_CHARACTER, message)


@dataclass(frozen=True, slots=True)
class CharacterLoader:
    """A loader of characters from the bucket; a graph that runs already is not read again."""

    bucket: CharacterBucket
    settings: SessionSettings
    max_bytes: int
    marker: Marker | None = None

    def hold_shared(self, character: PublishedCharacter) -> Mapping[str, GraphSession]:
        """Return the open sessions of a character's networks by SHA-256; the result holds them."""
        found = {
            graph.sha256: find_session(graph.sha256, self.settings)
            for graph in character.manifest.graphs.values()
        }
        return {sha256: session for sha256, session in found.items() if session is not None}

    async def load(self, character: PublishedCharacter) -> LoadedCharacter:
        """Load a character.

        Raises:
            BundleError: it will not work.
            PassingError: a part of it is gone or was replaced meanwhile, or Cloud Storage is down.
        """
        manifest = character.manifest
        check_size(manifest, self.max_bytes)
        running = self.hold_shared(character)
        roles = {graph.sha256: role for role, graph in manifest.graphs.items()}
        contents = {
            sha256: await self.bucket.read_graph(character, role)
            for sha256, role in roles.items()
            if sha256 not in running
        }

        def find(graph: GraphFile) -> Graph:
            session = running.get(graph.sha256)
            if session is not None:
                return Graph(graph.file, b"", session.facts, graph.sha256)
            return verify_graph(graph, contents[graph.sha256])

        def build() -> LoadedCharacter:
            character = assemble_character(manifest, ENGINES, find, self.max_bytes)
            return build_character(character, self.settings, self.marker)

        loaded = await asyncio.to_thread(build)
        await asyncio.to_thread(return_memory)
        return loaded


def build_character(
    character: CharacterBundle, settings: SessionSettings, marker: Marker | None = None
) -> LoadedCharacter:
    """Build the engines of a verified character; raises BundleError if a graph does not work."""
    engine = build_engine(character, settings)
    text_engine = build_text_engine(character, engine, settings)
    if marker is not None:
        name = character.manifest.id
        # After both are built: one speaks texts with the other, which would mark them twice.
        engine = marker.engine(name, engine)
        text_engine = text_engine and marker.text_engine(name, text_engine)
    return LoadedCharacter(character.manifest, engine, text_engine)


def build_characters(
    folder: Path,
    session: SessionSettings,
    max_bytes: int = MAX_BUNDLE_BYTES,
    marker: Marker | None = None,
    read: Callable[[Path], GraphContent] = read_content,
) -> dict[str, LoadedCharacter]:
    """Build the engines of every bundle of a folder; raises BundleError if one does not work."""
    return {
        name: build_character(character, session, marker=marker)
        for name, character in load_characters(folder, ENGINES, max_bytes, read).items()
    }


def return_memory() -> None:
    """Return freed memory to the operating system.

    glibc would keep it: 240 MB after a network of 100 MB had been loaded, run and dropped.
    """
    if sys.platform == "linux":
        # malloc_trim(3) is glibc's; another C library may not have it.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def build_and_rehearse(
    folder: Path,
    session: SessionSettings,
    max_bytes: int,
    marker: Marker | None,
    read: Callable[[Path], GraphContent],
) -> dict[str, LoadedCharacter]:
    characters = build_characters(folder, session, max_bytes, marker, read)
    for character in characters.values():
        rehearse_conversion(character)
    return characters


def rehearse_conversion(character: LoadedCharacter) -> None:
    """Convert and encode a hum; a failure is only logged, because it may not last."""
    if not character.manifest.takes_speech:
        return
    try:
        engine = character.engine
        samples = engine.convert(make_hum(), SAMPLE_RATE, ConversionOptions())
        encode_result(samples, engine.sample_rate, OutputFormat.WAV, character.marking)
    except Exception as error:  # noqa: BLE001 - the process may still serve, whatever it was
        extra = {"event": "rehearsal_failed", "character": character.manifest.id}
        _LOG.warning("rehearsal failed: %r", error, extra=extra)


async def rehearse_decoding(decoder: Decoder) -> None:
    """Decode a hum; a failure is only logged."""
    try:
        hum = await asyncio.to_thread(
            encode_result, make_hum(), SAMPLE_RATE, OutputFormat.WAV, _MARKING
        )
        await decoder.decode(hum.data, limits=DecodeLimits())
    except Exception as error:  # noqa: BLE001 - see rehearse_conversion
        extra = {"event": "rehearsal_failed"}
        _LOG.warning("rehearsal of decoding failed: %r", error, extra=extra)


def make_hum() -> Samples:
    """Return hummed syllables, voiced like speech: float32 [SECONDS * SAMPLE_RATE]."""
    at = np.arange(round(SECONDS * SAMPLE_RATE)) / SAMPLE_RATE
    harmonics = np.arange(1, _HARMONICS + 1)[:, None]
    # One period, which is a whole number of samples, and then the same again.
    period = at[: round(SAMPLE_RATE / _HERTZ)]
    once = (np.sin(2 * np.pi * _HERTZ * harmonics * period) / harmonics).sum(axis=0)
    hum = np.resize(once, len(at))
    syllables = np.clip(np.sin(2 * np.pi * _SYLLABLES_PER_SECOND * at) + 0.5, 0.0, 1.0)
    samples: Samples = (_LOUDNESS * hum * syllables).astype(np.float32)
    return samples


async def connect(voices: VoiceStore, uploads: Bucket, results: Bucket) -> None:
    """Open all connections, by requests about a voice that does not exist; log a failure."""
    nobody = new_voice_id()
    answers = await asyncio.gather(
        voices.read(nobody),
        uploads.connect(),
        results.connect(),
        results.sign_download(nobody, lifetime=timedelta(minutes=1), filename=nobody),
        return_exceptions=True,
    )
    for answer in answers:
        if isinstance(answer, Exception) and not isinstance(answer, UnknownVoiceError):
            _LOG.warning("not connected yet: %r", answer, extra={"event": "not_connected"})
