"""From what a network speaks to what a listener hears: pieces joined, loudness, silence, length."""

from collections.abc import Sequence

from speech.signal.arrays import Samples
from speech.signal.chunks import Chunk, join
from speech.signal.gate import gate_gains
from speech.signal.loudness import (
    HALF_WAY,
    apply_gains,
    fade_ends,
    follow_loudness,
    limit,
    match_level,
)
from speech.signal.pitch.f0 import HOP
from speech.signal.samples import fit_length
from speech.signal.whole.analysis import Analysis


def join_pieces(
    analysis: Analysis, chunks: Sequence[Chunk], pieces: Sequence[Samples], hop: int
) -> Samples:
    """Give each converted piece the recording's level there and join the pieces.

    Args:
        analysis: of the recording.
        chunks: the recording's pieces.
        pieces: each chunk converted, from its `first` frame to its `last`.
        hop: samples per frame of the converted pieces.

    Returns:
        The samples of all frames, float32 [T hop].
    """
    if len(chunks) == 1:
        return pieces[0]
    levelled = []
    for chunk, piece in zip(chunks, pieces, strict=True):
        recorded = analysis.wave[chunk.first * HOP : chunk.last * HOP]
        levelled.append((chunk, match_level(piece, hop, recorded, HOP)))
    return join(levelled, hop)


def finish(
    voice: Samples, sample_rate: int, length: int, analysis: Analysis, *, followed: float = HALF_WAY
) -> Samples:
    """Give a converted voice the recording's silence, loudness and length.

    Args:
        voice: the character's speech, aligned with the recording, float32 [M].
        sample_rate: of the voice, a multiple of 100 Hz.
        length: how many samples to return.
        analysis: of the recording.
        followed: how far the voice follows the recording's loudness from word to word, 0 to 1.

    Returns:
        float32 [length].
    """
    hop = sample_rate // 100
    gate = gate_gains(analysis.levels, analysis.speech)
    gated = apply_gains(fit_length(voice, len(gate) * hop), gate, hop)
    loudness = follow_loudness(gated, hop, analysis.levels, followed)
    loud = apply_gains(gated, loudness, hop)
    return fade_ends(limit(fit_length(loud, length), sample_rate), sample_rate)
