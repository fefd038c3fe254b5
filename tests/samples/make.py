"""Makes the demonstration recordings: synthesized speech in a room, as a browser would send it.

Needs the programs `flite` and `espeak-ng` (Debian packages of the same names), numpy and PyAV.
Run it from the repository's root: `python -m tests.samples.make`.
"""

from __future__ import annotations

import io
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import av
import numpy as np

from tests.integration.audio.recordings import encoded_sound

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt
    from av.audio.stream import AudioStream

ROOT: Final = Path(__file__).resolve().parents[2]

RATE: Final = 48_000
LEVEL_DBFS: Final = -22.0
NOISE_DBFS: Final = -58.0
REVERBERATION_SECONDS: Final = 0.25
ROOM_SHARE: Final = 0.25
PAUSE_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class Sample:
    path: Path
    command: tuple[str, ...]
    muxer: str
    codec: str
    bit_rate: int
    seed: int
    options: Mapping[str, str] = field(default_factory=dict)


# A talker who is not the character: a man for the female demo character.
ENGLISH: Final = (
    *("flite", "-voice", "rms", "--setf", "duration_stretch=1.05", "-o", "/dev/stdout", "-t"),
    "Hello! This is my own voice. Let us hear it as another one.",
)
JAPANESE: Final = (
    *("espeak-ng", "-v", "ja+f2", "-s", "150", "-p", "40", "--stdout"),
    "こんにちは。わたしのこえが、べつのこえになります。",
)

SAMPLES: Final = (
    Sample(
        ROOT / "infra/local/samples/hello.webm",
        *(ENGLISH, "webm", "libopus", 40_000, 1),
        {"live": "1", "cluster_time_limit": "1000"},
    ),
    Sample(
        ROOT / "tests/samples/english.mp4",
        *(ENGLISH, "mp4", "aac", 96_000, 2),
        {"movflags": "+frag_keyframe+empty_moov+default_base_moof", "frag_duration": "500000"},
    ),
    Sample(
        ROOT / "tests/samples/japanese.webm",
        *(JAPANESE, "webm", "libopus", 40_000, 3),
        {"live": "1", "cluster_time_limit": "1000"},
    ),
)


def main() -> None:
    for sample in SAMPLES:
        speech = synthesize(sample.command)
        audio = in_a_room(speech, np.random.default_rng(sample.seed))
        sample.path.parent.mkdir(parents=True, exist_ok=True)
        sample.path.write_bytes(encode(sample, audio))


def synthesize(command: tuple[str, ...]) -> npt.NDArray[np.float32]:
    """Run a synthesizer that writes a WAV file to its standard output; float32 [N] at `RATE`."""
    program = shutil.which(command[0])
    if program is None:
        raise SystemExit(f"{command[0]} is missing: install the package {command[0]}")
    wav = subprocess.run([program, *command[1:]], check=True, capture_output=True).stdout
    resampler = av.AudioResampler(format="fltp", layout="mono", rate=RATE)
    with av.open(io.BytesIO(wav), "r", format="wav") as source:
        frames = [piece for frame in source.decode(audio=0) for piece in resampler.resample(frame)]
    frames += resampler.resample(None)
    return np.concatenate([frame.to_ndarray()[0] for frame in frames]).astype(np.float32)


def in_a_room(
    speech: npt.NDArray[np.float32], random: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Put speech, float32 [N], into a small room with a quiet fan and pauses at both ends.

    The room is noise that decays by 60 dB in `REVERBERATION_SECONDS`, the fan noise that falls by
    3 dB an octave.
    """
    pause = np.zeros(round(PAUSE_SECONDS * RATE))
    dry = np.concatenate([pause, speech, pause])
    dry *= 10 ** (LEVEL_DBFS / 20) / np.sqrt(np.mean(speech.astype(np.float64) ** 2))
    time = np.arange(round(REVERBERATION_SECONDS * RATE)) / RATE
    response = random.standard_normal(len(time)) * 10 ** (-3 * time / REVERBERATION_SECONDS)
    response *= ROOM_SHARE / np.sqrt(np.sum(response**2))
    size = len(dry) + len(response) - 1
    room = np.fft.irfft(np.fft.rfft(dry, size) * np.fft.rfft(response, size), size)[: len(dry)]
    spectrum = np.fft.rfft(random.standard_normal(len(dry)))
    fan = np.fft.irfft(spectrum / np.sqrt(np.arange(len(spectrum)) + 20.0), len(dry))
    fan *= 10 ** (NOISE_DBFS / 20) / np.sqrt(np.mean(fan**2))
    mixed = dry + room + fan
    return np.asarray(np.clip(mixed, -0.99, 0.99), dtype=np.float32)


def encode(sample: Sample, audio: npt.NDArray[np.float32]) -> bytes:
    """Encode float32 [N] at `RATE` as a browser's recorder does: live, without a length."""
    file = io.BytesIO()
    options = {"fflags": "+bitexact", **sample.options}
    exact = {"flags": "+bitexact"}
    with av.open(file, "w", format=sample.muxer, options=options) as container:
        stream = container.add_stream(
            sample.codec, rate=RATE, layout="mono", bit_rate=sample.bit_rate, options=exact
        )
        container.mux(list(encoded_sound(cast("AudioStream", stream), audio[np.newaxis], RATE)))
    return file.getvalue()


if __name__ == "__main__":
    main()
