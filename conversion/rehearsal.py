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

from shared.ports.store import UnknownVoiceError
from shared.voices.voice import OutputFormat, new_voice_id
from speech.decoding.recordings.recording import DecodeLimits
from speech.engines.interface.engine import ConversionOptions
from speech.results.encoding import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from conversion.characters.lending import LoadedCharacter
    from shared.ports.bucket import Bucket
    from shared.ports.store import VoiceStore
    from speech.decoding.decoder import Decoder
    from speech.signal.arrays import Samples

_LOG = logging.getLogger(__name__)

SAMPLE_RATE: Final = 48_000
SECONDS: Final = 1.0
_HERTZ: Final = 150.0
_HARMONICS: Final = 12
_SYLLABLES_PER_SECOND: Final = 3.0
_LOUDNESS: Final = 0.1


async def rehearse(decoder: Decoder, characters: Iterable[LoadedCharacter]) -> None:
    """Decode, convert and encode a hum with every character that takes speech.

    A failure is only logged: the first real recording shows whether it was more than bad luck.
    """
    for character in characters:
        if not character.manifest.takes_speech:
            continue
        try:
            await _rehearse_with(decoder, character)
        except Exception as error:  # noqa: BLE001 - the process may still serve, whatever it was
            extra = {"event": "rehearsal_failed", "character": character.manifest.id}
            _LOG.warning("rehearsal failed: %r", error, extra=extra)


async def _rehearse_with(decoder: Decoder, character: LoadedCharacter) -> None:
    marking = character.marking
    hum = await asyncio.to_thread(encode, make_hum(), SAMPLE_RATE, OutputFormat.WAV, marking)
    recording = await decoder.decode(hum.data, limits=DecodeLimits())

    def convert() -> None:
        rate = character.engine.sample_rate
        samples = character.engine.convert(
            recording.samples, recording.sample_rate, ConversionOptions()
        )
        encode(samples, rate, OutputFormat.WAV, marking)

    await asyncio.to_thread(convert)


def make_hum() -> Samples:
    """Return hummed syllables, voiced like speech: float32 [SECONDS * SAMPLE_RATE]."""
    at = np.arange(round(SECONDS * SAMPLE_RATE)) / SAMPLE_RATE
    harmonics = np.arange(1, _HARMONICS + 1)[:, None]
    hum = (np.sin(2 * np.pi * _HERTZ * harmonics * at) / harmonics).sum(axis=0)
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
