"""Requesting the conversion of a voice: publish the message first, then record it.

A crash between the two repeats the message, which the conversion recognises as a duplicate. In the
other order a crash would lose the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.ports.store import change

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from shared.ports.store import Snapshot, VoiceStore
    from shared.ports.topic import Publisher
    from shared.voices.messages import ConversionMessage
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
    """Publish a conversion message and record it in the voice's document.

    Args:
        conversions: the topic of the conversion messages.
        voices: the voices' documents.
        message: which voice is to be converted, from which upload.
        record: the transition that records the request.
        attributes: attributes of the message beside the voice_id.
        known: the voice as it was just read; saves a read.

    Raises:
        PublishError: nothing was published, and nothing recorded.
        UnknownVoiceError: published, but the voice was deleted meanwhile.
        ConflictError, StoreUnavailableError: published, but perhaps not recorded.
        Exception: published, but `record` refused.
    """
    own = {"voice_id": message.voice_id}
    await conversions.publish(message.encode(), own | dict(attributes or {}))
    await change(voices, message.voice_id, record, known)
