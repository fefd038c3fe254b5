"""Tries a bundle that was made of a visitor's recordings, and puts it into the bucket."""

from __future__ import annotations

import asyncio
import io
from contextlib import suppress
from typing import TYPE_CHECKING

from shared.characters.bucket import graph_name, manifest_name, shared_graph_name
from shared.characters.manifest import MANIFEST
from shared.voices.objects import ObjectExistsError
from speech.bundles.files import find_graph
from speech.bundles.reading import load_character
from speech.engines.registry import ENGINES, build_engine
from speech.networks.settings import SessionSettings

if TYPE_CHECKING:
    from pathlib import Path

    from shared.characters.manifest import CharacterManifest
    from shared.ports.bucket import Bucket


async def try_bundle(folder: Path) -> CharacterManifest:
    """Check a bundle as the service does when it loads one, and run its graphs.

    Raises:
        BundleError: it does not work.
    """

    def try_it() -> CharacterManifest:
        character = load_character(folder, ENGINES)
        build_engine(character, SessionSettings())
        return character.manifest

    return await asyncio.to_thread(try_it)


async def publish(bucket: Bucket, manifest: CharacterManifest) -> None:
    """Put a bundle that was tried into the bucket: graphs and portrait first, the manifest last."""
    for graph in manifest.graphs.values():
        path = find_graph(manifest.folder, graph.file, graph.sha256)
        is_shared = path.parent != manifest.folder
        name = shared_graph_name(graph) if is_shared else graph_name(manifest.id, graph)
        await _write_once(bucket, name, path.read_bytes(), "application/octet-stream")
    portrait = manifest.preview.portrait
    if portrait is not None:
        name = f"{manifest.id}/{portrait}"
        await bucket.delete(name)
        await _write_once(bucket, name, (manifest.folder / portrait).read_bytes(), "image/svg+xml")
    content = (manifest.folder / MANIFEST).read_bytes()
    # An attempt that was taken over may have published other graphs.
    await bucket.delete(manifest_name(manifest.id))
    await _write_once(bucket, manifest_name(manifest.id), content, "application/json")


async def _write_once(bucket: Bucket, name: str, content: bytes, content_type: str) -> None:
    with suppress(ObjectExistsError):
        await bucket.write(name, io.BytesIO(content), content_type=content_type, size=len(content))
