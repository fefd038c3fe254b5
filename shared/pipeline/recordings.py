"""Storing a recording that came through one of our own services, once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.voices.objects import ObjectExistsError, ObjectMissingError, upload_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from shared.ports.bucket import Bucket
    from shared.voices.objects import ObjectFacts


LIVE: Final = {"way": "live"}
"""What the notification of a recording says that `live` has stored: it leases the voice itself."""


async def store_recording(
    uploads: Bucket,
    voice_id: str,
    content: BinaryIO,
    *,
    size: int,
    content_type: str,
    metadata: Mapping[str, str] | None = None,
) -> ObjectFacts:
    """Store a voice's recording, unless this very recording is stored already.

    Then the answer to our own write was lost, or the client did not get our answer and sends the
    recording again.

    Args:
        uploads: the bucket of the recordings.
        voice_id: which voice.
        content: the recording, at its beginning.
        size: its size in bytes.
        content_type: its media type.
        metadata: what its notification shall also say.

    Raises:
        ObjectExistsError: the voice has another recording.
        StorageUnavailableError: it is unknown whether it was stored.
    """
    name = upload_name(voice_id)
    try:
        return await uploads.write(
            name, content, content_type=content_type, size=size, metadata=metadata
        )
    except ObjectExistsError:
        stored = await _stored(uploads, name, content, size, content_type)
        if stored is None:
            raise
        return stored


async def _stored(
    uploads: Bucket, name: str, content: BinaryIO, size: int, content_type: str
) -> ObjectFacts | None:
    """Return the stored object if it is this recording."""
    try:
        found = await uploads.find(name)
        if (found.bytes, found.content_type) != (size, content_type):
            return None
        data = await uploads.read(name, found.generation, max_bytes=size)
    except ObjectMissingError:
        return None  # the voice was erased meanwhile
    content.seek(0)
    return found if data == await asyncio.to_thread(content.read) else None
