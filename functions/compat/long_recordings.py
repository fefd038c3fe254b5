"""Conversion of long recordings, piece by piece; each is heard while the next is converted."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from shared.speech.signal.analysis import analyse, cut_at_pauses
from shared.speech.signal.pitch_shift import log_pitch, measure_pitch
from shared.speech.signal.samples import (
    FRAMES_PER_SECOND,
    converted_length,
    decibels,
    fit_length,
    frame_power,
)
from shared.speech.signal.sound import NoClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.characters.manifest import CharacterManifest
    from shared.speech.engines.interface import ConversionOptions, Engine
    from shared.speech.signal.analysis import Chunk
    from shared.speech.signal.sound import Samples

# Up to this length a recording is converted in one piece, exactly as everywhere else.
WHOLE_SECONDS: Final = 10.0
_PIECE_FRAMES: Final = 8 * FRAMES_PER_SECOND
_HEARD_SECONDS: Final = 60.0  # of a long recording, from which its speaker's pitch is measured
_CROSSFADE_SECONDS: Final = 0.02
_SEMITONES: Final = 12 / math.log(2.0)


def convert_in_pieces(
    engine: Engine,
    manifest: CharacterManifest,
    samples: Samples,
    sample_rate: int,
    options: ConversionOptions,
) -> Iterator[Samples]:
    """Convert a recording of any length, float32 [N], to as many samples as `Engine.convert` gives.

    A long one is cut in its quietest places. Each piece is converted with 0.6 s of its neighbours
    and faded into the next within 20 ms; all pieces are moved by the same semitones.
    """
    if len(samples) <= WHOLE_SECONDS * sample_rate:
        yield engine.convert(samples, sample_rate, options)
        return
    fixed = replace(options, pitch_shift=_shift(manifest, samples, sample_rate, options))
    hop = sample_rate // FRAMES_PER_SECOND
    frames = len(samples) // hop
    levels = decibels(frame_power(samples, hop, frames))
    held = np.zeros(0, np.float32)
    sent = 0
    for chunk in cut_at_pauses(levels, _PIECE_FRAMES):
        is_last = chunk.end == frames
        first, last = chunk.first * hop, len(samples) if is_last else chunk.last * hop
        converted = engine.convert(samples[first:last], sample_rate, fixed)
        piece, held = _fit(converted, chunk, hop / sample_rate * engine.sample_rate, held)
        if is_last:
            whole = converted_length(len(samples), sample_rate, engine.sample_rate)
            piece = fit_length(piece, whole - sent)
        sent += len(piece)
        yield piece


def _shift(
    manifest: CharacterManifest, samples: Samples, sample_rate: int, options: ConversionOptions
) -> float | None:
    """Return the semitones by which all pieces move; None where the character's policy says it."""
    pitch = manifest.pitch
    if options.pitch_shift is not None or pitch is None or pitch.policy != "auto":
        return options.pitch_shift
    heard = samples[: round(_HEARD_SECONDS * sample_rate)]
    spoken = measure_pitch(log_pitch(analyse(heard, sample_rate, NoClock()).track))
    if spoken is None:
        return None
    return (math.log(pitch.median_hz) - spoken.median) * _SEMITONES


def _fit(converted: Samples, chunk: Chunk, hop: float, held: Samples) -> tuple[Samples, Samples]:
    """Fade the held end of the piece before into this one, and hold this one's end back.

    `converted` goes from the chunk's `first` to its `last` frame, each of `hop` samples.
    """
    is_last = chunk.last == chunk.end
    begin = round((chunk.begin - chunk.first) * hop)
    fade = round(_CROSSFADE_SECONDS * FRAMES_PER_SECOND * hop)
    # The samples after the last whole frame belong to the last piece.
    end = len(converted) if is_last else round((chunk.end - chunk.first) * hop) + fade
    own = converted[begin:end].copy()
    if len(held):
        rise = np.linspace(0.0, 1.0, len(held), dtype=np.float32)
        own[: len(held)] = own[: len(held)] * rise + held * (1 - rise)
    return (own, own[:0]) if is_last else (own[:-fade], own[-fade:])
