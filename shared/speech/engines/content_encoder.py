"""The content encoder that characters share: what is said in a recording, without the speaker.

One graph, role `content`. With T frames of 10 ms, T even, it takes `wave`, float32 [1, 160 T], the
recording at 16 kHz, with frame t centred at 160 t, and returns `content`, float32 [1, T, size]. The
mean of a recording's frames of speech, which holds speaker and microphone, is subtracted here.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shared.characters.bundle_files import BundleError
from shared.speech.graphs.bundle import GraphContract, TensorContract
from shared.speech.graphs.sessions import GraphSession
from shared.speech.signal.analysis import Analysis, Chunk
from shared.speech.signal.pitch import HOP
from shared.speech.signal.sound import Samples

ROLE = "content"
STREAM_ROLE = "content_stream"
"""The small encoder for streams: a graph of the same kind that hears little of what comes later.
Its weights are those that graphs of the role `harmonic_stream` leave out."""
CONTRACT = GraphContract(
    inputs=(TensorContract("wave", [(1, "160*frames")]),),
    outputs=(TensorContract("content", [(1, "frames", None)]),),
)
AUDIBLE_DB = 45.0
"""Frames that are so far below the level of speech do not tell how the speaker sounds."""
LOUDEST = np.float32(0.5)  # the magnitude to which each piece is amplified for the encoder
SOFTEST = 1e-6  # the smallest magnitude that is amplified so far
PRIOR_FRAMES = 40.0
"""The frames of an average speaker that count beside the recording's, because few tell little."""

_TRIAL_FRAMES = 10


class ContentEncoder:
    def __init__(self, session: GraphSession) -> None:
        self._session = session

    def try_out(self, file: str) -> int:
        wave = np.zeros((1, _TRIAL_FRAMES * HOP), np.float32)
        content = self._session.try_out({"wave": wave}, "content")
        if content.ndim != 3 or content.shape[:2] != (1, _TRIAL_FRAMES):  # noqa: PLR2004
            raise BundleError(
                f"{file}: output 'content': expected float32 [1, {_TRIAL_FRAMES}, any] for"
                f" {_TRIAL_FRAMES} frames, found {list(content.shape)}."
            )
        return int(content.shape[2])

    def hear(self, analysis: Analysis, chunks: Sequence[Chunk]) -> list[Samples | None]:
        """Encode pieces from `first` to `last`, float32 [frames, size]; None without speech."""
        telling = tells_speaker(analysis)
        total, count = np.float32(0.0), PRIOR_FRAMES
        contents: list[Samples | None] = []
        for chunk in chunks:
            if not analysis.has_speech(chunk):
                contents.append(None)
                continue
            frames = chunk.last - chunk.first
            wave = np.zeros((1, (frames + frames % 2) * HOP), np.float32)
            wave[0, : frames * HOP] = analysis.wave[chunk.first * HOP : chunk.last * HOP]
            # The encoder hears levels from the loudest moment on, but nothing below a fixed floor,
            # in which a quiet recording would be lost.
            wave *= LOUDEST / max(float(np.abs(wave).max()), SOFTEST)
            content: Samples = self._session.run({"wave": wave}, "content")[0, :frames]
            contents.append(content)
            own = content[chunk.begin - chunk.first : chunk.end - chunk.first]
            spoken = telling[chunk.begin : chunk.end]
            total = total + own[spoken].sum(0)
            count += int(spoken.sum())
        usual = np.asarray(total / count, np.float32)
        return [None if content is None else content - usual for content in contents]


def tells_speaker(analysis: Analysis) -> NDArray[np.bool_]:
    """Find the frames that tell who speaks: those of speech that is not faint, bool [T]."""
    levels = analysis.levels
    telling: NDArray[np.bool_] = analysis.speech & (levels.frames > levels.speech - AUDIBLE_DB)
    return telling
