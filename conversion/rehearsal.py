"""Converts a made-up recording in every new process, so that the first visitor waits less.

The first conversion of a process takes half as long again as the next one: modules are imported,
tables computed, memory allocated, connections opened. Here this happens before a recording comes.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import numpy as np

from conversion.characters.loading import build_characters
from shared.ports.store import UnknownVoiceError
from shared.voices.voice import OutputFormat, new_voice_id
from speech.decoding.recordings.recording import DecodeLimits
from speech.engines.interface.engine import ConversionOptions
from speech.results.encoding import encode
from speech.results.marking import Marking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conversion.characters.lending import LoadedCharacter
    from shared.ports.bucket import Bucket
    from shared.ports.store import VoiceStore
    from speech.bundles.preloading import Content
    from speech.decoding.decoder import Decoder
    from speech.networks.settings import SessionSettings
    from speech.results.watermark.marked import Marker
    from speech.signal.arrays import Samples

_LOG = logging.getLogger(__name__)

SAMPLE_RATE: Final = 48_000
SECONDS: Final = 1.0
_HERTZ: Final = 150.0
_HARMONICS: Final = 12
_SYLLABLES_PER_SECOND: Final = 3.0
_LOUDNESS: Final = 0.1
_MARKING: Final = Marking("rehearsal", "Rehearsal", "nobody")


def build_and_rehearse(
    folder: Path,
    session: SessionSettings,
    max_bytes: int,
    marker: Marker | None,
    read: Callable[[Path], Content],
) -> dict[str, LoadedCharacter]:
    """Build the characters, and convert a hum with each of them."""
    characters = build_characters(folder, session, max_bytes, marker, read)
    for character in characters.values():
        rehearse_conversion(character)
    return characters


def rehearse_conversion(character: LoadedCharacter) -> None:
    """Convert and encode a hum with a character that takes speech.

    A failure is only logged: the first real recording shows whether it was more than bad luck.
    """
    if not character.manifest.takes_speech:
        return
    try:
        engine = character.engine
        samples = engine.convert(make_hum(), SAMPLE_RATE, ConversionOptions())
        encode(samples, engine.sample_rate, OutputFormat.WAV, character.marking)
    except Exception as error:  # noqa: BLE001 - the process may still serve, whatever it was
        extra = {"event": "rehearsal_failed", "character": character.manifest.id}
        _LOG.warning("rehearsal failed: %r", error, extra=extra)


async def rehearse_decoding(decoder: Decoder) -> None:
    """Decode a hum; a failure is only logged."""
    try:
        hum = await asyncio.to_thread(encode, make_hum(), SAMPLE_RATE, OutputFormat.WAV, _MARKING)
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
    """Open all connections by reading a voice that does not exist and signing an address.

    A failure is only logged: the first conversion tries again.
    """
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
