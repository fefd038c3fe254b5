"""What an imported voice sounds like: python -m importing.trial.sample FOLDER RECORDING INTO.

It runs in a process of its own, as measuring does: the graphs are somebody's.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from importing.files.errors import VoiceFileError
from importing.trial.measuring import run_module
from importing.trial.pictures import draw_spectrograms
from importing.trial.trial import TEXT
from shared.process.reading import read_at_most
from shared.voices.voice import VoiceError
from speech.bundles.files import BundleError
from speech.bundles.reading import load_character
from speech.decoding.decoder import Decoder
from speech.decoding.recordings.recording import DecodeLimits
from speech.engines.interface.engine import ConversionOptions
from speech.engines.interface.text_engine import SpeechOptions
from speech.engines.registry import ENGINES, build_engine
from speech.engines.text_registry import build_text_engine
from speech.networks.settings import SessionSettings
from speech.results.marking import Marking
from speech.results.wav import write_wav

if TYPE_CHECKING:
    from speech.bundles.bundle import Character
    from speech.signal.arrays import Samples

LONGEST_SECONDS = 20.0

Sound = tuple["Samples", int]


@dataclass(frozen=True)
class Sample:
    """The files that show what a voice sounds like.

    Attributes:
        sound: a recording converted, or a text spoken, as WAV.
        picture: spectrograms of the recording and the conversion, or of the speech, as PNG.
    """

    sound: Path
    picture: Path


def make_sample(folder: Path, recording: Path, into: Path) -> Sample:
    """Convert a recording, or speak a text, with a bundle.

    Args:
        folder: the bundle.
        recording: of a voice, at most 20 s.
        into: folder of the sample.

    Raises:
        VoiceFileError: the bundle or the recording does not work; in one sentence, why.
    """
    run_module("importing.trial.sample", str(folder), str(recording), str(into))
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
    sounds = _converted(character, recording) if manifest.takes_speech else _spoken(character)
    (samples, rate) = list(sounds.values())[-1]
    files = _files(into, manifest.id)
    draw_spectrograms(files.picture, sounds)
    marking = Marking(manifest.id, manifest.name.en, manifest.credit)
    files.sound.write_bytes(write_wav(samples, rate, marking))


def _files(into: Path, character: str) -> Sample:
    return Sample(into / f"{character}.wav", into / f"{character}.png")


def _converted(character: Character, recording: Path) -> dict[str, Sound]:
    before = asyncio.run(_decoded(read_at_most(recording, DecodeLimits().max_bytes)))
    engine = build_engine(character, SessionSettings())
    after = engine.convert(*before, ConversionOptions())
    return {"the recording": before, "converted": (after, engine.sample_rate)}


async def _decoded(recording: bytes) -> Sound:
    limits = DecodeLimits(min_seconds=0.1, max_seconds=LONGEST_SECONDS)
    async with Decoder() as decoder:
        decoded = await decoder.decode(recording, limits=limits)
    return decoded.samples, decoded.sample_rate


def _spoken(character: Character) -> dict[str, Sound]:
    settings = SessionSettings()
    speaker = build_text_engine(character, build_engine(character, settings), settings)
    if speaker is None:
        raise BundleError("The character takes neither recordings nor texts.")
    spoken = np.concatenate(list(speaker.speak(TEXT, SpeechOptions())))
    return {"a spoken text": (spoken, speaker.sample_rate)}


def main(arguments: list[str]) -> int:
    """Write a sample."""
    folder, recording, into = map(Path, arguments)
    try:
        write_sample(folder, recording, into)
    except (BundleError, VoiceError, VoiceFileError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
