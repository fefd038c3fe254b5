"""Keeps in the bucket what a training has done, so that a killed one goes on elsewhere."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from shared.errors import PassingError
from shared.own_characters.objects import kept_prefix

if TYPE_CHECKING:
    from pathlib import Path

    from shared.ports.bucket import Bucket
    from shared.voices.objects import ObjectFacts

_LOG = logging.getLogger(__name__)

STAMP: Final = "made_of.txt"
"""The file of the training command that says what everything beside it was made of."""

SAVE_SECONDS: Final = 10.0
MAX_KEPT_BYTES: Final = 400_000_000
_KEPT_ENDINGS: Final = (".pickle", ".pt")
_QUICK: Final = frozenset({"strangers.pickle"})
"""A hundred megabytes that the command reads again sooner than they are fetched."""

_NAME: Final = re.compile(r"(?P<stamp>[0-9a-f]{64})/(?P<order>\d{6}-\d{6})-(?P<file>[\w.-]+)")


class Checkpoints:
    """What the attempts at a character keep of their training.

    The training command has a folder of its own, in which it replaces whole files; a stamp beside
    them says what they were made of. Each version of a file becomes an object of its own,
    `{character}/kept/{stamp}/{attempt}-{number}-{file}`. An attempt that was taken over has a
    smaller number than its successor, so that nothing of it is restored where the successor has
    its own, and files of different recordings never come together.

    Args:
        bucket: of the owners' recordings.
        character_id: which character.
        attempt: the number of this attempt.
        folder: of the training command; need not be there.
    """

    def __init__(self, bucket: Bucket, character_id: str, attempt: int, folder: Path) -> None:
        self._bucket = bucket
        self._prefix = kept_prefix(character_id)
        self._attempt = attempt
        self._folder = folder
        self._number = 0
        self._saved: dict[str, tuple[int, int]] = {}
        self._objects: dict[str, ObjectFacts] = {}
        self._stamp = ""

    async def restore(self) -> None:
        """Write the files that earlier attempts have kept into the folder.

        Raises:
            PassingError: the bucket does not answer.
        """
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
        """Put the files into the bucket that have changed since they were last put there.

        Raises:
            PassingError: the bucket does not answer; what is missing is put there next time.
        """
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
