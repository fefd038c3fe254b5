"""Delivery of speech to a listener, piece by piece."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from shared.speech.engines.interface import Mark, MarkedPiece
from shared.speech.engines.text_interface import SpeechOptions
from shared.speech.signal.loudness import fade_ends, fade_out, limit
from shared.speech.signal.sound import Samples
from shared.speech.signal.streaming import StreamLimiter

_FRAME_SECONDS = 0.005
_SILENCE = 1e-3  # -60 dB of full scale: an HTS voice hisses at -64 dB where it says nothing
_BELOW_LOUDEST = 3e-3  # -50 dB: soft beginnings and ends of a loud voice are above it
_MARGIN_SECONDS = 0.01  # the rise to the first frame above it
_SLOWEST, _FASTEST = 0.25, 4.0
_FLUSH_SECONDS = 0.02  # of silence, after which the limiter holds nothing back


@dataclass(frozen=True, eq=False)
class SpeechPiece:
    """Speech in one breath, float32 [N], and the seconds of silence before all but the first."""

    samples: Samples
    pause: float
    marks: tuple[Mark, ...] = ()


def deliver(
    pieces: Iterable[SpeechPiece], sample_rate: int, options: SpeechOptions
) -> Iterator[Samples]:
    """Set the loudness of the pieces of a text, trimmed, with silences and pauses around them."""
    return (piece.samples for piece in deliver_marked(pieces, sample_rate, options))


def deliver_marked(
    pieces: Iterable[SpeechPiece], sample_rate: int, options: SpeechOptions
) -> Iterator[MarkedPiece]:
    """Deliver pieces as `deliver` does, and move the marks along."""
    is_first = True
    for piece in pieces:
        begin, end, _ = _loud_part(piece.samples, sample_rate)
        if begin == end:
            continue
        silence = options.silence_before if is_first else piece.pause * options.pauses
        is_first = False
        loud = limit(piece.samples[begin:end] * np.float32(options.volume), sample_rate)
        before = np.zeros(round(silence * sample_rate), np.float32)
        cut, moved = -begin / sample_rate, len(before) / sample_rate
        yield MarkedPiece(
            np.concatenate([before, fade_ends(loud, sample_rate)]),
            tuple(mark.later(cut).later(moved) for mark in piece.marks),
        )
    yield MarkedPiece(np.zeros(round(options.silence_after * sample_rate), np.float32))


def deliver_windows(
    breaths: Iterable[tuple[Iterable[Samples], float]], sample_rate: int, options: SpeechOptions
) -> Iterator[Samples]:
    """Deliver breaths, each in windows and with a pause, as `deliver` does.

    Each window is delivered as soon as it is there, but for its last milliseconds.
    """
    is_first = True
    for windows, pause in breaths:
        silence = options.silence_before if is_first else pause * options.pauses
        for sound in _trim_windows(_limit_windows(windows, sample_rate, options), sample_rate):
            yield np.concatenate([np.zeros(round(silence * sample_rate), np.float32), sound])
            silence, is_first = 0.0, False
    yield np.zeros(round(options.silence_after * sample_rate), np.float32)


def _limit_windows(
    windows: Iterable[Samples], sample_rate: int, options: SpeechOptions
) -> Iterator[Samples]:
    limiter, missing = StreamLimiter(sample_rate), 0
    for window in windows:
        limited = limiter.push(window * np.float32(options.volume))
        missing += len(window) - len(limited)
        yield limited
    yield limiter.push(np.zeros(round(_FLUSH_SECONDS * sample_rate), np.float32))[:missing]


def _trim_windows(windows: Iterable[Samples], sample_rate: int) -> Iterator[Samples]:
    """Remove the silence at both ends, and hold back what may be followed by silence alone."""
    held = np.zeros(0, np.float32)
    margin = round(_MARGIN_SECONDS * sample_rate)
    loudest, is_first = 0.0, True
    for window in windows:
        held = np.concatenate([held, window])
        begin, end, loudest = _loud_part(held, sample_rate, loudest)
        if is_first:
            held, end = (held[begin:], end - begin) if end > begin else (held[-margin:], 0)
        ready = max(end - margin, 0)
        if ready == 0:
            continue
        yield fade_out(held[ready - 1 :: -1], sample_rate)[::-1] if is_first else held[:ready]
        held, is_first = held[ready:], False
    end = _loud_part(held, sample_rate, loudest)[1]
    rest = held[: max(end, 0 if is_first else margin)]
    if len(rest):
        yield (fade_ends if is_first else fade_out)(rest, sample_rate)


def bounded_speed(options: SpeechOptions) -> float:
    return min(max(options.speed, _SLOWEST), _FASTEST)


def to_full_scale(pieces: Iterable[Samples]) -> Iterator[Samples]:
    """Bring the first piece to full scale; later ones keep their level beside it, below that."""
    gain = np.inf
    for piece in pieces:
        peak = float(np.abs(piece).max(initial=0.0))
        if peak > 0:
            gain = min(gain, 1.0 / peak)
            yield piece * np.float32(gain)
        else:
            yield piece


def trim(samples: Samples, sample_rate: int) -> Samples:
    """Remove the silence at both ends; nothing remains of silence alone."""
    begin, end, _ = _loud_part(samples, sample_rate)
    return samples[begin:end]


def _loud_part(samples: Samples, sample_rate: int, loudest: float = 0.0) -> tuple[int, int, float]:
    """Find where sound begins and ends, by the root mean square of 5 ms, as samples hiss.

    `loudest` is the highest level until now, also in what is returned.
    """
    frame = round(_FRAME_SECONDS * sample_rate)
    padded = np.pad(samples, (0, -len(samples) % frame)).reshape(-1, frame)
    levels = np.sqrt(np.mean(np.square(padded, dtype=np.float64), axis=1))
    loudest = float(levels.max(initial=loudest))
    loud = np.flatnonzero(levels > max(_SILENCE, _BELOW_LOUDEST * loudest))
    if len(loud) == 0:
        return 0, 0, loudest
    margin = round(_MARGIN_SECONDS * sample_rate)
    first, last = int(loud[0]), int(loud[-1])
    begin, end = max(first * frame - margin, 0), min((last + 1) * frame + margin, len(samples))
    return begin, end, loudest
