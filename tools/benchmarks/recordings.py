"""Recordings of any length, as a browser makes them: Opus at 48 kHz in WebM."""

from __future__ import annotations

import io
import math
from typing import Final, cast

import av
import numpy as np
import numpy.typing as npt

from infra.local.commands.demo import SAMPLE

SAMPLE_RATE: Final = 48_000
CONTENT_TYPE: Final = "audio/webm;codecs=opus"
_BITS_PER_SECOND: Final = 64_000
_ROUNDING: Final = 1e-3


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


def slices(recording: bytes, seconds: float) -> list[bytes]:
    """Cut a recording as a recorder hands it out: after each interval, all complete packets.

    Equal parts of the bytes would come up to a quarter of a second too early or too late.
    """
    with av.open(io.BytesIO(recording), "r") as source:
        packets = [packet for packet in source.demux(audio=0) if packet.pts is not None]
    ends = [cast("int", packet.pos) for packet in packets[1:]] + [len(recording)]
    cuts: dict[int, int] = {}
    for packet, end in zip(packets, ends, strict=True):
        spoken = float((packet.pts or 0) + (packet.duration or 0)) * float(packet.time_base)
        cuts[math.ceil(spoken / seconds - _ROUNDING)] = end
    begins = [0, *list(cuts.values())[:-1]]
    return [recording[begin:end] for begin, end in zip(begins, cuts.values(), strict=True)]
