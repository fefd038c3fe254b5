"""Several buckets that are used as one, because each takes a thousand writes a second at first.

The bucket of an object is chosen by the voice's id, with which its name begins. After the number of
buckets was changed, objects of voices that are on their way lie where they were written. So what is
not found where it should be is looked for in the other buckets, too.
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
    """Return the names of the buckets; the first is the one that there is without shards."""
    return [name, *(f"{name}-{number}" for number in range(1, shards))]


def shard_of(voice_id: str, shards: int) -> int:
    """Compute the bucket, of so many, in which a voice's objects belong."""
    return zlib.crc32(voice_id.encode()) % shards


class ShardedBucket:
    """A `Bucket` made of several; see the port for what its methods do.

    Args:
        shards: the buckets, in the order of `shard_names`.
    """

    def __init__(self, shards: Sequence[Bucket]) -> None:
        self._shards = shards

    @property
    def name(self) -> str:
        """The name of the first one."""
        return self._shards[0].name

    async def connect(self) -> None:
        """Open a connection to each ahead of time."""
        await asyncio.gather(*(shard.connect() for shard in self._shards))

    async def sign_upload(
        self, name: str, *, content_type: str, max_bytes: int, lifetime: timedelta
    ) -> SignedUpload:
        """Make the address for one upload of at most `max_bytes` to a name not yet used."""
        return await self._own(name).sign_upload(
            name, content_type=content_type, max_bytes=max_bytes, lifetime=lifetime
        )

    async def sign_download(
        self, name: str, *, lifetime: timedelta, filename: str
    ) -> tuple[str, datetime]:
        """Return an address to read an object from, and when that address expires."""
        return await self._own(name).sign_download(name, lifetime=lifetime, filename=filename)

    async def read(self, name: str, generation: int, *, max_bytes: int) -> bytes:
        """Read one generation of an object, at most `max_bytes + 1` bytes of it.

        Raises:
            ObjectMissingError: none of the buckets has this generation.
        """
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
        """Write an object of a name not yet used in its own bucket.

        Raises:
            ObjectExistsError: the name is used.
        """
        return await self._own(name).write(
            name, content, content_type=content_type, size=size, metadata=metadata
        )

    async def find(self, name: str) -> ObjectFacts:
        """Find the facts of an object.

        Raises:
            ObjectMissingError: none of the buckets has one of this name.
        """
        for shard in self._everywhere(name):
            with suppress(ObjectMissingError):
                return await shard.find(name)
        raise ObjectMissingError(f"{self.name}/{name} is not there")

    async def list(self, prefix: str = "", *, most: int | None = None) -> Sequence[ObjectFacts]:
        """Return the objects whose names begin with `prefix`; see `Bucket`."""
        found = await asyncio.gather(*(shard.list(prefix, most=most) for shard in self._shards))
        every = (facts for each in found for facts in each)
        return sorted(every, key=lambda facts: facts.name)[:most]

    async def delete(self, name: str, generation: int | None = None) -> None:
        """Delete an object, or one generation of it; it is no error if it does not exist."""
        await asyncio.gather(*(shard.delete(name, generation) for shard in self._shards))

    async def empty(self, name: str, generation: int | None = None) -> None:
        """Replace an object's content by nothing, so that its name stays used.

        With a generation that is one call. Without one somebody erases a voice, and whatever
        another bucket has of it is emptied, too.
        """
        await self._own(name).empty(name, generation)
        if generation is None:
            for shard in list(self._everywhere(name))[1:]:
                with suppress(ObjectMissingError):
                    await shard.empty(name, (await shard.find(name)).generation)

    async def delete_all(self, prefix: str, *, except_for: str = "") -> None:
        """Delete every object whose name begins with `prefix`, except the one named."""
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
