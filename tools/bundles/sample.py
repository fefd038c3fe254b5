"""Convert a sample with a bundle: python -m tools.bundles.sample FOLDER RECORDING INTO.

It runs in a process of its own, as measuring does: the graphs are somebody's.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw

from shared.characters.bundle_files import BundleError
from shared.runtime.process import read_at_most
from shared.speech.decoding.decoder import Decoder
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES, build_engine, build_text_engine
from shared.speech.engines.text_interface import SpeechOptions
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.results.audio_files import write_wav
from shared.speech.results.statement import Marking
from shared.speech.signal.samples import resample
from shared.voices.voice import VoiceError
from tools.bundles.files import VoiceFileError
from tools.bundles.trial import TEXT, run_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from shared.speech.graphs.bundle import CharacterBundle
    from shared.speech.signal.sound import Samples


RATE = 16_000
"""Nothing above half of it is shown: 8 kHz."""

_WINDOW = 512
_HOPS_PER_SECOND = 200
_DEPTH_DB = 70.0
_TITLE_PIXELS = 16
_WHITE, _BLACK = 255, 0


def draw_spectrograms(file: Path, sounds: Mapping[str, tuple[Samples, int]]) -> None:
    """Draw a spectrogram of each sound, from 0 at the bottom to 8 kHz, 200 columns a second.

    Args:
        sounds: samples and their rate in Hz, by what is written above them; none is empty.
    """
    panels = {
        title: spectrogram(resample(samples, rate, RATE))
        for title, (samples, rate) in sounds.items()
    }
    width = max(panel.shape[1] for panel in panels.values())
    height = sum(len(panel) + _TITLE_PIXELS for panel in panels.values())
    picture = Image.new("L", (width, height), _WHITE)
    writing = ImageDraw.Draw(picture)
    top = 0
    for title, panel in panels.items():
        writing.text((2, top + 2), title, fill=_BLACK)
        picture.paste(Image.fromarray(panel), (0, top + _TITLE_PIXELS))
        top += _TITLE_PIXELS + len(panel)
    file.parent.mkdir(parents=True, exist_ok=True)
    picture.save(file, "PNG")


def spectrogram(samples: Samples) -> NDArray[np.uint8]:
    """Return the pixels of a spectrogram of samples at 16 kHz, [frequencies, times].

    The highest frequency comes first; the loudest is black, and what is 70 dB below it white.
    """
    padded = np.pad(samples, _WINDOW // 2)
    hop = RATE // _HOPS_PER_SECOND
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::hop]
    spectra = np.abs(np.fft.rfft(frames * np.hanning(_WINDOW)))
    decibels = 20 * np.log10(spectra / max(float(spectra.max()), 1e-9) + 1e-9)
    ink = np.clip(1 + decibels / _DEPTH_DB, 0, 1)
    pixels: NDArray[np.uint8] = np.rint(_WHITE * (1 - ink)).astype(np.uint8)
    return np.ascontiguousarray(pixels.T[::-1])


LONGEST_SECONDS = 20.0

Sound = tuple["Samples", int]


@dataclass(frozen=True)
class Sample:
    sound: Path
    picture: Path


def make_sample(folder: Path, recording: Path, into: Path) -> Sample:
    """Convert a recording, or speak a text, with a bundle.

    Args:
        recording: of a voice, at most 20 s.
        into: folder of the sample.
    """
    run_module("tools.bundles.sample", str(folder), str(recording), str(into))
    return _files(into, folder.name)


def write_sample(folder: Path, recording: Path, into: Path) -> None:
    """Convert a recording, or speak a text, in this process; see make_sample.

    Raises:
        BundleError: the bundle does not work.
        VoiceError: the recording does not.
        OSError: the recording cannot be read, or the sample not be written.
    """
    character = load_character(folder, ENGINES)
    manifest = character.manifest
    sounds = converted(character, recording) if manifest.takes_speech else _spoken(character)
    (samples, rate) = list(sounds.values())[-1]
    files = _files(into, manifest.id)
    draw_spectrograms(files.picture, sounds)
    marking = Marking(manifest.id, manifest.name.en, manifest.credit)
    files.sound.write_bytes(write_wav(samples, rate, marking))


def _files(into: Path, character: str) -> Sample:
    return Sample(into / f"{character}.wav", into / f"{character}.png")


def converted(character: CharacterBundle, recording: Path) -> dict[str, Sound]:
    before = asyncio.run(_decoded(read_at_most(recording, DecodeLimits().max_bytes)))
    engine = build_engine(character, SessionSettings())
    after = engine.convert(*before, ConversionOptions())
    return {"the recording": before, "converted": (after, engine.sample_rate)}


async def _decoded(recording: bytes) -> Sound:
    limits = DecodeLimits(min_seconds=0.1, max_seconds=LONGEST_SECONDS)
    async with Decoder() as decoder:
        decoded = await decoder.decode(recording, limits=limits)
    return decoded.samples, decoded.sample_rate


def _spoken(character: CharacterBundle) -> dict[str, Sound]:
    settings = SessionSettings()
    speaker = build_text_engine(character, build_engine(character, settings), settings)
    if speaker is None:
        raise BundleError("The character takes neither recordings nor texts.")
    spoken = np.concatenate(list(speaker.speak(TEXT, SpeechOptions())))
    return {"a spoken text": (spoken, speaker.sample_rate)}


def main(arguments: list[str]) -> int:
    folder, recording, into = map(Path, arguments)
    try:
        write_sample(folder, recording, into)
    except (BundleError, VoiceError, VoiceFileError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
