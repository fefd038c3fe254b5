"""Recordings of any length, as a browser makes them: Opus at 48 kHz in WebM."""

from __future__ import annotations

import io
from typing import Final

import av
import numpy as np
import numpy.typing as npt

from infra.local.commands.demo import SAMPLE

SAMPLE_RATE: Final = 48_000
CONTENT_TYPE: Final = "audio/webm;codecs=opus"
_BITS_PER_SECOND: Final = 64_000


def speech(seconds: float) -> npt.NDArray[np.float32]:
    """Return the speech of the sample, repeated or cut: mono, float32 at `SAMPLE_RATE`."""
    resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
    with av.open(str(SAMPLE)) as source:
        frames = [
            resampled.to_ndarray()
            for frame in (*source.decode(audio=0), None)
            for resampled in resampler.resample(frame)
        ]
    samples = np.concatenate(frames, axis=1)[0]
    return np.resize(samples, round(seconds * SAMPLE_RATE)).astype(np.float32)


def webm(seconds: float) -> bytes:
    return encoded(speech(seconds))


def encoded(samples: npt.NDArray[np.float32]) -> bytes:
    """Return a recording of samples, mono at `SAMPLE_RATE`."""
    file = io.BytesIO()
    with av.open(file, "w", format="webm") as target:
        stream = target.add_stream("libopus", rate=SAMPLE_RATE, layout="mono")
        stream.bit_rate = _BITS_PER_SECOND
        frame = av.AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")
        frame.sample_rate = SAMPLE_RATE
        target.mux(stream.encode(frame))
        target.mux(stream.encode(None))
    return file.getvalue()
