"""Loading characters, of the image or one from the bucket: read, check, build."""

from __future__ import annotations

import asyncio
import ctypes
import sys
from typing import TYPE_CHECKING

from conversion.characters.lending import LoadedCharacter
from shared.characters.manifest import MAX_BUNDLE_BYTES
from speech.bundles.bundle import Graph
from speech.bundles.preloading import read_content
from speech.bundles.reading import (
    assemble_character,
    check_size,
    load_characters,
    verify_graph,
)
from speech.engines.registry import ENGINES, build_engine
from speech.engines.text_registry import build_text_engine
from speech.networks.session import find_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from shared.characters.bucket import CharacterBucket, PublishedCharacter
    from shared.characters.manifest import CharacterManifest, GraphFile
    from speech.bundles.bundle import Character
    from speech.bundles.preloading import Content
    from speech.engines.interface.engine import EngineKind
    from speech.networks.session import GraphSession
    from speech.networks.settings import SessionSettings
    from speech.results.watermark.marked import Marker


class CharacterLoader:
    """Loads characters from the bucket into memory; no file of them is written.

    A graph that a loaded character runs already is not read again.

    Args:
        bucket: of the characters.
        settings: how the graphs run.
        max_bytes: how many bytes the graphs of one character may have together.
        engines: those that a manifest may name.
        marker: marks what the characters speak; None to mark nothing.
    """

    def __init__(
        self,
        bucket: CharacterBucket,
        settings: SessionSettings,
        max_bytes: int,
        engines: Mapping[str, EngineKind] = ENGINES,
        marker: Marker | None = None,
    ) -> None:
        self._bucket = bucket
        self._settings = settings
        self._max_bytes = max_bytes
        self._engines = engines
        self._marker = marker

    def hold_shared(self, character: PublishedCharacter) -> object:
        """Hold the networks that a character shares with loaded ones, while this is kept."""
        return self._running(character.manifest)

    async def load(self, character: PublishedCharacter) -> LoadedCharacter:
        """Load a character.

        Raises:
            BundleError: it will not work.
            IncompleteCharacterError: a part of it is gone or was replaced meanwhile.
            StorageUnavailableError: Cloud Storage did not answer.
        """
        manifest = character.manifest
        check_size(manifest, self._max_bytes)
        # Held until the engine is built, so that what is not read stays open.
        running = self._running(manifest)
        roles = {graph.sha256: role for role, graph in manifest.graphs.items()}
        contents = {
            sha256: await self._bucket.read_graph(character, role)
            for sha256, role in roles.items()
            if sha256 not in running
        }
        loaded = await asyncio.to_thread(self._build, manifest, running, contents)
        await asyncio.to_thread(return_memory)
        return loaded

    def _running(self, manifest: CharacterManifest) -> dict[str, GraphSession]:
        found = {
            graph.sha256: find_session(graph.sha256, self._settings)
            for graph in manifest.graphs.values()
        }
        return {sha256: session for sha256, session in found.items() if session is not None}

    def _build(
        self,
        manifest: CharacterManifest,
        running: Mapping[str, GraphSession],
        contents: Mapping[str, bytes],
    ) -> LoadedCharacter:
        def find(graph: GraphFile) -> Graph:
            session = running.get(graph.sha256)
            if session is not None:
                return Graph(graph.file, b"", session.facts, graph.sha256)
            return verify_graph(graph, contents[graph.sha256])

        character = assemble_character(manifest, self._engines, find, self._max_bytes)
        return build_character(character, self._settings, self._engines, self._marker)


def build_character(
    character: Character,
    settings: SessionSettings,
    engines: Mapping[str, EngineKind] = ENGINES,
    marker: Marker | None = None,
) -> LoadedCharacter:
    """Build the engines of a verified character.

    Args:
        character: a verified one.
        settings: how its graphs run.
        engines: those that its manifest may name.
        marker: marks what they speak; None to mark nothing.

    Raises:
        BundleError: a graph does not load, or its output is wrong.
    """
    engine = build_engine(character, settings, engines)
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
    read: Callable[[Path], Content] = read_content,
) -> dict[str, LoadedCharacter]:
    """Load every character bundle of a folder and build its engine.

    Args:
        folder: of the bundles.
        session: how their graphs run.
        max_bytes: how many bytes the graphs of one bundle may have together.
        marker: marks what they speak; None to mark nothing.
        read: reads a graph's file; see speech.bundles.preloading.

    Raises:
        BundleError: a bundle will not work, or there is none.
    """
    return {
        name: build_character(character, session, marker=marker)
        for name, character in load_characters(folder, ENGINES, max_bytes, read).items()
    }


def return_memory() -> None:
    """Give the operating system back what the process has freed.

    glibc would keep it: after a network of 100 MB had been loaded, run and dropped, the process
    still held 240 MB of it.
    """
    if sys.platform == "linux":
        # malloc_trim(3) is glibc's; another C library may not have it.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
