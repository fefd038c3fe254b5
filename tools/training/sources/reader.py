"""A published synthetic voice reads aloud, into a folder that a character is trained with.

python -m tools.training.sources.reader VOICE FOLDER [--minutes 6] [--mean LOW HIGH --spread HZ]
"""

import argparse
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pocketsphinx
import pyopenjtalk
import soundfile
from numpy.typing import NDArray

from shared.speech.engines.japanese import HtsVoice
from tools.training.sources.sentences import dictionary_words, english

Spoken = tuple[NDArray[np.float32], int]  # samples and their rate in Hz


MEI = "mei"  # the HTS voice that the character Mei is made of; it reads Japanese sentences
FLITE_VOICES = ("awb", "kal16", "rms", "slt")
_AT_ONCE = 10
_SEED = 1
_PEAK = 0.7
_JAPANESE = Path(__file__).parents[1] / "sources" / "texts" / "hina_ja.txt"


@dataclass(frozen=True)
class Register:
    """The pitch of sentences in Hz: a mean that is drawn for each, and a spread.

    A diphone voice speaks nearly on one note, and a character that has heard no other melody is at
    a loss with visitors who have one.
    """

    lowest_mean: float
    highest_mean: float
    spread: float

    def draw_options(self, random: Random) -> list[str]:
        mean = random.uniform(self.lowest_mean, self.highest_mean)
        options = f"int_f0_target_mean={mean:.1f}", f"int_f0_target_stddev={self.spread:.1f}"
        return ["--setf", options[0], "--setf", options[1]]


def read_english(
    voice: str, words: list[str], register: Register | None = None
) -> Iterator[Spoken]:
    """Read random words in rows without end with a voice of flite, the same each time."""
    random = Random(_SEED)
    with TemporaryDirectory() as scratch:
        file = Path(scratch) / "said.wav"
        while True:
            # Ten at a time: the recordings that characters were made of were drawn so.
            for text in [english(random, words) for _ in range(_AT_ONCE)]:
                options = register.draw_options(random) if register else []
                command = ["flite", "-voice", voice, "--setf", "duration_stretch=1.000", *options]
                subprocess.run([*command, "-o", str(file), "-t", text], check=True)
                yield soundfile.read(file, dtype="float32")


def read_japanese(texts: list[str]) -> Iterator[Spoken]:
    """Read each text once with the HTS voice Mei, slower or faster, lower or higher."""
    random, voice = Random(_SEED), HtsVoice()
    for text in texts:
        labels = pyopenjtalk.extract_fullcontext(text)[1:-1]  # without the silence around it
        spoken = voice.synthesise(labels, random.uniform(0.85, 1.1), random.gauss(0, 1))
        spoken *= _PEAK / float(np.abs(spoken).max())
        yield spoken, voice.sample_rate


def write(speech: Iterable[Spoken], folder: Path, minutes: float) -> float:
    folder.mkdir(parents=True, exist_ok=True)
    seconds = 0.0
    for number, (wave, rate) in enumerate(speech):
        soundfile.write(folder / f"{number:04d}.wav", wave, rate)
        seconds += len(wave) / rate
        if seconds >= minutes * 60:
            break
    return seconds


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("voice", choices=(MEI, *FLITE_VOICES))
    add("folder", type=Path, help="for the WAV files")
    add("--minutes", type=float, default=6.0, help="of speech (default: 6)")
    add(
        "--mean", type=float, nargs=2, metavar=("LOW", "HIGH"),
        help="the mean pitch in Hz of a voice of flite, drawn for each sentence",
    )  # fmt: skip
    add("--spread", type=float, default=28.0, help="of the pitch (default: 28 Hz)")
    options = parser.parse_args(arguments)
    if options.voice == MEI:
        speech = read_japanese(_JAPANESE.read_text("utf-8").split())
    else:
        low, high = options.mean or (0.0, 0.0)
        register = Register(low, high, options.spread) if options.mean else None
        model = Path(pocketsphinx.__file__).parent / "model" / "en-us"
        words = dictionary_words(model / "cmudict-en-us.dict")
        speech = read_english(options.voice, words, register)
    seconds = write(speech, options.folder, options.minutes)
    print(f"{seconds / 60:.1f} minutes of speech in {options.folder}")


if __name__ == "__main__":
    main()
