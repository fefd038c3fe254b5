"""Several buckets used as one, because a new bucket takes only a thousand writes a second.

The voice_id, with which an object's name begins, chooses the bucket. After a change of the number
of buckets, objects of voices under way lie where they were written. So an object that is not where
it should be is looked for in the other buckets, too.
"""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from shared.voices.objects import ObjectMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from shared.ports import Bucket
    from shared.voices.objects import ObjectFacts, SignedUpload


def shard_names(name: str, shards: int) -> list[str]:
    """Return the names of the buckets; the first is the only one without shards."""
    return [name, *(f"{name}-{number}" for number in range(1, shards))]


def shard_of(voice_id: str, shards: int) -> int:
    """Return the number of the bucket in which a voice's objects belong."""
    return zlib.crc32(voice_id.encode()) % shards


class ShardedBucket:
    """A `Bucket` made of several, in the order of `shard_names`."""

    def __init__(self, shards: Sequence[Bucket]) -> None:
        self._shards = shards

    @property
    def name(self) -> str:
        return self._shards[0].name

    async def connect(self) -> None:
        await asyncio.gather(*(shard.connect() for shard in self._shards))

    async def sign_upload(
        self, name: str, *, content_type: str, max_bytes: int, lifetime: timedelta
    ) -> SignedUpload:
        return await self._own(name).sign_upload(
            name, content_type=content_type, max_bytes=max_bytes, lifetime=lifetime
        )

    async def sign_download(
        self, name: str, *, lifetime: timedelta, filename: str
    ) -> tuple[str, datetime]:
        return await self._own(name).sign_download(name, lifetime=lifetime, filename=filename)

    async def read(self, name: str, generation: int, *, max_bytes: int) -> bytes:
        for shard in self._everywhere(name):
            with suppress(ObjectMissingError):
                return await shard.read(name, generation, max_bytes=max_bytes)
        raise ObjectMissingError(f"{self.name}/{name}#{generation} is not there")

    async def write(
        self,
        name: str,
        content: BinaryIO,
        *,
        content_type: str,
        size: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectFacts:
        return await self._own(name).write(
            name, content, content_type=content_type, size=size, metadata=metadata
        )

    async def find(self, name: str) -> ObjectFacts:
        for shard in self._everywhere(name):
            with suppress(ObjectMissingError):
                return await shard.find(name)
        raise ObjectMissingError(f"{self.name}/{name} is not there")

    async def list(self, prefix: str = "", *, most: int | None = None) -> Sequence[ObjectFacts]:
        found = await asyncio.gather(*(shard.list(prefix, most=most) for shard in self._shards))
        every = (facts for each in found for facts in each)
        return sorted(every, key=lambda facts: facts.name)[:most]

    async def delete(self, name: str, generation: int | None = None) -> None:
        await asyncio.gather(*(shard.delete(name, generation) for shard in self._shards))

    async def empty(self, name: str, generation: int | None = None) -> None:
        """Empty an object in its bucket; without a generation, for an erasure, in all buckets."""
        await self._own(name).empty(name, generation)
        if generation is None:
            for shard in list(self._everywhere(name))[1:]:
                with suppress(ObjectMissingError):
                    await shard.empty(name, (await shard.find(name)).generation)

    async def delete_all(self, prefix: str, *, except_for: str = "") -> None:
        await asyncio.gather(
            *(shard.delete_all(prefix, except_for=except_for) for shard in self._shards)
        )

    def _own(self, name: str) -> Bucket:
        return self._shards[shard_of(name.partition("/")[0], len(self._shards))]

    def _everywhere(self, name: str) -> Iterator[Bucket]:
        """Yield the bucket in which an object belongs, and then the others."""
        own = self._own(name)
        yield own
        yield from (shard for shard in self._shards if shard is not own)
