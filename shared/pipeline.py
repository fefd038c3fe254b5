"""Requesting the conversion of a voice, and storing its recording."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.voices.objects import ObjectExistsError, ObjectMissingError, upload_name
from shared.voices.store import change

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import BinaryIO

    from shared.ports import Bucket, Publisher
    from shared.voices.messages import ConversionMessage
    from shared.voices.objects import ObjectFacts
    from shared.voices.store import Snapshot, VoiceStore
    from shared.voices.voice import Voice


async def request_conversion(
    conversions: Publisher,
    voices: VoiceStore,
    message: ConversionMessage,
    record: Callable[[Voice, datetime], Voice],
    *,
    attributes: Mapping[str, str] | None = None,
    known: Snapshot | None = None,
) -> None:
    """Publish a conversion message, then record it in the voice's document.

    A crash between the two repeats the message, which the conversion recognises as a duplicate. In
    the other order a crash would lose it.

    Raises:
        PublishError: nothing was published, and nothing recorded.
        UnknownVoiceError: published, but the voice was deleted meanwhile.
        ConflictError, StoreUnavailableError: published, but perhaps not recorded.
        Exception: published, but `record` refused.
    """
    own = {"voice_id": message.voice_id}
    await conversions.publish(message.encode(), own | dict(attributes or {}))
    await change(voices, message.voice_id, record, known)


LIVE: Final = {"way": "live"}
"""The metadata of a recording that `live` has stored: `live` leases the voice itself."""


async def store_recording(
    uploads: Bucket,
    voice_id: str,
    content: BinaryIO,
    *,
    size: int,
    content_type: str,
    metadata: Mapping[str, str] | None = None,
) -> ObjectFacts:
    """Store a voice's recording of `size` bytes, unless this very recording is stored.

    It is if the answer to our own write was lost, or if the client did not get our answer and sends
    the recording again. `ObjectExistsError` means that the voice has another recording.
    """
    name = upload_name(voice_id)
    try:
        return await uploads.write(
            name, content, content_type=content_type, size=size, metadata=metadata
        )
    except ObjectExistsError:
        stored = await _find_same(uploads, name, content, size, content_type)
        if stored is None:
            raise
        return stored


async def _find_same(
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
