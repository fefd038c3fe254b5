"""The samples of frames that FFmpeg's libraries have decoded.

They are not computed with here: the service does that faster, with all samples at once, and without
NumPy the zygote is half as large.
"""

from __future__ import annotations

import math
import operator
import struct
from array import array
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

import av
from av.audio.resampler import AudioResampler

from shared.speech.decoding.wire import SAMPLE_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from av.audio.frame import AudioFrame

Buffer = bytes | memoryview

# The letters of Python's buffer protocol.
_BUFFER_TYPES: Final[Mapping[str, str]] = dict(zip(SAMPLE_TYPES, "Bhiqfd", strict=True))
WIDTHS: Final[Mapping[str, int]] = {
    name: struct.calcsize(letter) for name, letter in _BUFFER_TYPES.items()
}
"""Bytes of one sample of each type."""

_CENTRE_WEIGHTS: Final = {"FC": 1.0, "FL": 0.7071, "FR": 0.7071, "LFE": 0.0, "LFE2": 0.0}
_OTHER_WEIGHT: Final = 0.5


@dataclass(frozen=True)
class Format:
    """The recording's format, from the first decoded frame."""

    codec: str
    frame_format: str  # FFmpeg's name of the sample type and layout
    sample_rate: int
    channels: int
    sent: tuple[int, ...]  # the channels whose samples are passed on
    weights: tuple[float, ...]  # theirs in the mix

    @cached_property
    def sample_type(self) -> str:
        return sample_type(self.frame_format)

    @cached_property
    def is_ready_made(self) -> bool:
        """A frame's first plane can be passed on unchanged."""
        is_interleaved = self.channels == 1 or not self.frame_format.endswith("p")
        return is_interleaved and len(self.sent) == self.channels

    @cached_property
    def bytes_per_sample(self) -> int:
        return len(self.sent) * WIDTHS[self.sample_type]


def sample_type(frame_format: str) -> str:
    """Return FFmpeg's name without the mark of a layout; one of wire.SAMPLE_TYPES if known."""
    return frame_format.removesuffix("p")


def channel_weights(frame: AudioFrame) -> list[float]:
    """Return the weight of each channel in the mix; speech is mostly in the centre."""
    names = [channel.name for channel in frame.layout.channels]
    known = [_CENTRE_WEIGHTS.get(name, _OTHER_WEIGHT) for name in names]
    return known if any(known) else [1.0] * len(names)


def frame_energy(frame: AudioFrame) -> float:
    """Return the energy of a frame, of every sixteenth sample: this is slow."""
    name = sample_type(frame.format.name)
    if name not in _BUFFER_TYPES:
        return 0.0
    zero, full = (128, 128.0) if name == "u8" else (0, 2.0 ** (8 * WIDTHS[name] - 1))
    scale = 1.0 if name in {"flt", "dbl"} else 1 / full
    heard = (channel[::16] for channel in _channels(frame))
    power = sum(((sample - zero) * scale) ** 2 for channel in heard for sample in channel)
    return power / max(frame.sample_rate, 1) if math.isfinite(power) else 0.0


def cut_frame(frame: AudioFrame, begin: int, end: int) -> AudioFrame:
    name = frame.format.name
    part = av.AudioFrame(format=name, layout=frame.layout, samples=end - begin)
    part.sample_rate = frame.sample_rate
    width = WIDTHS[sample_type(name)] * (1 if name.endswith("p") else frame.layout.nb_channels)
    for plane, whole in zip(part.planes, frame.planes, strict=True):
        # A plane supports the buffer protocol, which has no type before Python 3.12.
        plane.update(bytes(memoryview(cast("bytes", whole))[begin * width : end * width]))
    return part


def read_samples(frame: AudioFrame, expected: Format, begin: int, end: int) -> Buffer:
    """Return a part of a frame, interleaved, with the channels that are sent of the first one."""
    if frame.format.name != expected.frame_format or frame.layout.nb_channels != expected.channels:
        samples: Buffer = _mix(frame, len(expected.sent))
    elif expected.is_ready_made:
        # It may be longer than its samples.
        samples = cast("bytes", frame.planes[0])
    else:
        channels = _channels(frame)
        samples = _interleave([channels[channel] for channel in expected.sent])
    width = expected.bytes_per_sample
    return memoryview(samples)[begin * width : end * width]


class FrameConverter:
    """Brings frames whose rate or sample type has changed to those of the first frame."""

    def __init__(self, frame: AudioFrame, expected: Format) -> None:
        self._like = (frame.sample_rate, frame.format.name, frame.layout.nb_channels)
        self._expected = expected
        self._resampler = AudioResampler(
            format=expected.frame_format, layout=frame.layout, rate=expected.sample_rate
        )

    def fits(self, frame: AudioFrame) -> bool:
        return self._like == (frame.sample_rate, frame.format.name, frame.layout.nb_channels)

    def push(self, frame: AudioFrame | None) -> Iterator[Buffer]:
        """Yield samples in the first frame's format; None ends them."""
        for changed in self._resampler.resample(frame):
            if changed.samples:
                yield read_samples(changed, self._expected, 0, changed.samples)


def _channels(frame: AudioFrame) -> list[memoryview]:
    name = frame.format.name
    letter = cast("Any", _BUFFER_TYPES[sample_type(name)])
    planes = [memoryview(cast("bytes", plane)).cast(letter) for plane in frame.planes]
    if name.endswith("p"):
        return [plane[: frame.samples] for plane in planes]
    count = frame.layout.nb_channels
    end = frame.samples * count
    return [planes[0][channel:end:count] for channel in range(count)]


def _interleave(channels: Sequence[memoryview | array[float]]) -> memoryview:
    first = memoryview(channels[0])
    together = memoryview(bytearray(len(channels) * len(first) * first.itemsize))
    samples = together.cast(cast("Any", first.format))
    for place, channel in enumerate(channels):
        samples[place :: len(channels)] = memoryview(channel)
    return together


def _mix(frame: AudioFrame, count: int) -> memoryview:
    """Mix the channels of a frame whose number has changed: so rare that it may be slow."""
    weights, channels = channel_weights(frame), _channels(frame)
    letter = channels[0].format
    exact = float if letter in "fd" else round
    scale = 1 / sum(weights)
    frames = zip(*channels, strict=True)
    mixed = (exact(scale * sum(map(operator.mul, weights, each))) for each in frames)
    return _interleave([array(letter, mixed)] * count)
