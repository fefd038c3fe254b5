"""Files of a training in the buckets: checkpoints, the bundle, and the card."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from shared.characters.bucket import graph_name, manifest_name, shared_graph_name
from shared.characters.bundle_files import find_graph
from shared.characters.manifest import MANIFEST
from shared.characters.own.recordings import CARD, card_prefix, progress_prefix
from shared.speech.engines.registry import ENGINES, build_engine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from shared.voices.objects import ObjectExistsError
from shared.voices.voice import PassingError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from shared.characters.manifest import CharacterManifest
    from shared.ports import Bucket
    from shared.voices.objects import ObjectFacts


_LOG = logging.getLogger(__name__)

STAMP: Final = "made_of.txt"
"""The training command's file with a digest of the inputs of all files beside it."""

SAVE_SECONDS: Final = 10.0
MAX_KEPT_BYTES: Final = 400_000_000
_KEPT_ENDINGS: Final = (".pickle", ".pt")
_QUICK: Final = frozenset({"strangers.pickle"})
"""A hundred megabytes that the command reads again faster than they are fetched."""

_NAME: Final = re.compile(r"(?P<stamp>[0-9a-f]{64})/(?P<order>\d{6}-\d{6})-(?P<file>[\w.-]+)")


class Checkpoints:
    """The files of a training that outlive an attempt, so that another one can go on elsewhere.

    The training command has a folder of its own, in which it replaces whole files; a stamp beside
    them identifies their inputs. Each version of a file becomes an object of its own,
    `{character}/kept/{stamp}/{attempt}-{number}-{file}`. An attempt that was taken over has a
    smaller number than its successor, so that the successor's files win, and files of different
    recordings never come together.
    """

    def __init__(self, bucket: Bucket, character_id: str, attempt: int, folder: Path) -> None:
        self._bucket = bucket
        self._prefix = progress_prefix(character_id)
        self._attempt = attempt
        self._folder = folder
        self._number = 0
        self._saved: dict[str, tuple[int, int]] = {}
        self._objects: dict[str, ObjectFacts] = {}
        self._stamp = ""

    async def restore(self) -> None:
        kept = [
            (named, each)
            for each in await self._bucket.list(self._prefix)
            if (named := _NAME.fullmatch(each.name.removeprefix(self._prefix)))
        ]
        if not kept:
            return
        ordered = sorted(kept, key=lambda one: one[0]["order"])
        self._stamp = ordered[-1][0]["stamp"]
        newest = {named["file"]: each for named, each in ordered if named["stamp"] == self._stamp}
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, found in newest.items():
            if found.bytes > MAX_KEPT_BYTES:
                # A part of it would end every attempt; without it, the training makes it again.
                continue
            data = await self._bucket.read(found.name, found.generation, max_bytes=MAX_KEPT_BYTES)
            await asyncio.to_thread((self._folder / name).write_bytes, data)
            self._objects[name] = found
            self._saved[name] = _version(self._folder / name)
        (self._folder / STAMP).write_text(self._stamp)
        _LOG.info("training goes on", extra={"event": "training_resumed", "files": len(newest)})

    async def keep(self) -> None:
        """Save every few seconds; never returns."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            try:
                await self.save()
            except PassingError as error:
                _LOG.warning("checkpoint not kept: %s", error, extra={"event": "unavailable"})

    async def save(self) -> None:
        stamp = self._folder / STAMP
        if not stamp.exists():
            return
        if stamp.read_text() != self._stamp:
            self._stamp = stamp.read_text()
            self._saved.clear()
        for file in sorted(self._folder.iterdir()):
            # The training removes what was made of other recordings.
            with suppress(FileNotFoundError):
                is_kept = (
                    file.suffix in _KEPT_ENDINGS
                    and file.name not in _QUICK
                    and file.stat().st_size <= MAX_KEPT_BYTES
                )
                if is_kept and self._saved.get(file.name) != _version(file):
                    await self._put(file)

    async def _put(self, file: Path) -> None:
        version = _version(file)
        data = await asyncio.to_thread(file.read_bytes)
        self._number += 1
        name = f"{self._prefix}{self._stamp}/{self._attempt:06}-{self._number:06}-{file.name}"
        written = await self._bucket.write(
            name, io.BytesIO(data), content_type="application/octet-stream", size=len(data)
        )
        before = self._objects.get(file.name)
        self._saved[file.name], self._objects[file.name] = version, written
        if before is not None:
            await self._bucket.delete(before.name, before.generation)


def _version(file: Path) -> tuple[int, int]:
    facts = file.stat()
    return facts.st_mtime_ns, facts.st_size


async def publish_card(
    bucket: Bucket, character_id: str, folder: Path, *, has_own_sounds: bool
) -> None:
    prefix = card_prefix(character_id)
    await bucket.delete_all(prefix)
    whose = ("own", "other") if has_own_sounds else ("other",)
    for name, content in await asyncio.to_thread(_read, folder, whose):
        kind = "application/json" if name == CARD else "audio/wav"
        await bucket.write(
            f"{prefix}{name}", io.BytesIO(content), content_type=kind, size=len(content)
        )


def _read(folder: Path, whose: Sequence[str]) -> Sequence[tuple[str, bytes]]:
    if not (folder / CARD).is_file():
        return []
    sounds = (file for each in whose for file in sorted(folder.glob(f"{each}-*.wav")))
    return [(file.name, file.read_bytes()) for file in (*sounds, folder / CARD)]


async def try_bundle(folder: Path) -> CharacterManifest:
    def try_it() -> CharacterManifest:
        character = load_character(folder, ENGINES)
        build_engine(character, SessionSettings())
        return character.manifest

    return await asyncio.to_thread(try_it)


async def publish(bucket: Bucket, manifest: CharacterManifest) -> None:
    """Write a tested bundle to the bucket: graphs and portrait first, the manifest last."""
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
