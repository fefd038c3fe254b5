"""The damages of a result on its way: copies, other speeds, noise, rooms."""

from __future__ import annotations

import io
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

import av
import numpy as np
import soxr

from speech.results.wav import write_wav

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from av.audio.stream import AudioStream

    from speech.signal.arrays import Samples

_CODED_AT: Final = frozenset((16_000, 22_050, 24_000, 32_000, 44_100, 48_000))

ROOM_SECONDS: Final = 0.3
"""How long the room's echo takes to fall by 60 dB."""

ROOM_RATIO: Final = 3.0
"""By how many dB the echo is softer than what comes straight."""


def decoded(file: bytes, rate: int) -> Samples:
    """Decode a file: mono, float32."""
    resampler = av.AudioResampler(format="flt", layout="mono", rate=rate)
    with av.open(io.BytesIO(file), "r") as source:
        frames = [
            resampled.to_ndarray()
            for frame in (*source.decode(audio=0), None)
            for resampled in resampler.resample(frame)
        ]
    return np.asarray(np.concatenate(frames, axis=1)[0], np.float32)


def _as_wav(samples: Samples, rate: int) -> Samples:
    return decoded(write_wav(samples, rate), rate)


def _through(
    container: str, codec: str, bit_rate: int, codec_rate: int | None = None
) -> Callable[[Samples, int], Samples]:
    def code(samples: Samples, rate: int) -> Samples:
        file = io.BytesIO()
        with av.open(file, "w", format=container) as target:
            coded_at = codec_rate or (rate if rate in _CODED_AT else 48_000)
            stream = cast("AudioStream", target.add_stream(codec, rate=coded_at, layout="mono"))
            stream.bit_rate = bit_rate
            resampler = av.AudioResampler(format=stream.format, layout="mono", rate=coded_at)
            frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
            frame.sample_rate = rate
            for each in (frame, None):
                for resampled in resampler.resample(each):
                    target.mux(stream.encode(resampled))
            target.mux(stream.encode(None))
        return decoded(file.getvalue(), rate)

    return code


def _resampled(samples: Samples, rate: int) -> Samples:
    return soxr.resample(soxr.resample(samples, rate, 16_000), 16_000, rate)


def _played(speed: float) -> Callable[[Samples, int], Samples]:
    return lambda samples, rate: soxr.resample(samples, rate, rate / speed)


def _stretched(samples: Samples, rate: int) -> Samples:
    """Play 2 % faster at the same pitch, with FFmpeg's filter `atempo`."""
    graph = av.filter.Graph()
    source = graph.add_abuffer(sample_rate=rate, format="fltp", layout="mono")
    tempo, sink = graph.add("atempo", "1.02"), graph.add("abuffersink")
    source.link_to(tempo)
    tempo.link_to(sink)
    graph.configure()
    frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
    frame.sample_rate = rate
    graph.push(frame)
    graph.push(None)
    pieces = []
    while True:
        try:
            pieces.append(graph.pull().to_ndarray())
        except (av.EOFError, BlockingIOError):
            return np.asarray(np.concatenate(pieces, axis=1)[0], np.float32)


def _cut(samples: Samples, rate: int) -> Samples:
    """Remove a quarter of a second at the beginning, which is no multiple of a chip."""
    return samples[round(0.253 * rate) :]


def _louder(samples: Samples, rate: int) -> Samples:
    """Make it 12 dB louder, and cut off what exceeds full scale."""
    del rate
    return np.asarray(np.clip(samples * 4, -1.0, 1.0), np.float32)


def _noisy(samples: Samples, rate: int) -> Samples:
    """Add white noise of 20 dB less than the speech."""
    noise = np.random.default_rng(rate).standard_normal(len(samples), np.float32)
    return np.asarray(samples + noise * np.sqrt(np.square(samples).mean() / 100), np.float32)


def _in_a_room(samples: Samples, rate: int) -> Samples:
    """Let it be heard in a small room: what comes straight, and noise that dies away."""
    count = round(1.3 * ROOM_SECONDS * rate)
    noise = np.random.default_rng(0).standard_normal(count)
    echo = noise * 10 ** (-3 * np.arange(count) / (ROOM_SECONDS * rate))
    echo[: round(0.003 * rate)] = 0
    echo *= 10 ** (-ROOM_RATIO / 20) / np.linalg.norm(echo)
    echo[0] = 1
    size = len(samples) + count
    spectrum = np.fft.rfft(samples, size) * np.fft.rfft(echo, size)
    return np.asarray(np.fft.irfft(spectrum, size)[: len(samples)], np.float32)


DAMAGES: Final[Mapping[str, Callable[[Samples, int], Samples]]] = MappingProxyType(
    {
        "WAV": _as_wav,
        "MP3, 64 kbit/s": _through("mp3", "libmp3lame", 64_000),
        "AAC, 64 kbit/s": _through("ipod", "aac", 64_000),
        "Opus, 24 kbit/s": _through("ogg", "libopus", 24_000, 48_000),
        "resampled to 16 kHz": _resampled,
        "2 % faster": _played(1.02),
        "2 % slower": _played(0.98),
        "2 % faster, same pitch": _stretched,
        "cut": _cut,
        "12 dB louder": _louder,
        "20 dB of white noise": _noisy,
        "a small room": _in_a_room,
    }
)
"""The damages of a marked sound, which is given with its sample rate."""
