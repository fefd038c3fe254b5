"""A published synthetic voice reads aloud, into a folder that a character is trained with.

python -m training.sources.reading_aloud VOICE FOLDER [--minutes 6] [--mean LOW HIGH --spread HZ]
"""

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pocketsphinx
import pyopenjtalk
import soundfile

from speech.engines.japanese.engine import HtsVoice
from training.sources import festival, flite
from training.sources.flite import Register, TimedSpeech
from training.sources.sentences import dictionary_words, english

MEI = "mei"
"""The HTS voice that the character Mei is made of; it reads Japanese sentences."""
FLITE_VOICES = ("awb", "kal16", "rms", "slt")
_AT_ONCE = 10
_SEED = 1
_PEAK = 0.7
_JAPANESE = Path(__file__).parents[1] / "kokoro" / "texts" / "hina_ja.txt"


@dataclass(frozen=True)
class Registers:
    """How high sentences are read: a mean that is drawn for each, and a spread, in Hz.

    A diphone voice speaks nearly on one note, and a character that has heard no other melody is at
    a loss with visitors who have one.
    """

    lowest_mean_hz: float
    highest_mean_hz: float
    spread_hz: float

    def draw(self, random: Random) -> Register:
        """That of one sentence."""
        mean = random.uniform(self.lowest_mean_hz, self.highest_mean_hz)
        return Register(mean, self.spread_hz)


def read(
    voice: str, words: list[str], scratch: Path, registers: Registers | None = None
) -> Iterator[TimedSpeech]:
    """Read random words in rows without end; the same arguments give the same speech.

    Args:
        voice: of flite, or one that Festival has, for example ``"ked_diphone"``.
        words: English.
        scratch: a folder for what the voice writes.
        registers: of voices of flite; the voice's own if None.

    Raises:
        ValueError: Festival does not speak with that voice.
    """
    random = Random(_SEED)
    while True:
        texts = [english(random, words) for _ in range(_AT_ONCE)]
        if voice in FLITE_VOICES:
            for text in texts:
                register = registers.draw(random) if registers else None
                yield flite.speak(scratch, voice, 1.0, text=text, register=register)
            continue
        spoken = festival.speak(scratch, [festival.Text(voice, text) for text in texts])
        heard = [speech for speech in spoken if speech is not None]
        if not heard:
            raise ValueError(
                f"{voice}: expected a voice of flite ({', '.join(FLITE_VOICES)}) or one that"
                " Festival has, found none; install its Debian package."
            )
        yield from heard


def read_japanese(texts: list[str]) -> Iterator[TimedSpeech]:
    """Read each text once with the HTS voice Mei, slower or faster, lower or higher.

    Args:
        texts: Japanese.
    """
    random, voice = Random(_SEED), HtsVoice()
    for text in texts:
        labels = pyopenjtalk.extract_fullcontext(text)[1:-1]  # without the silence around it
        spoken = voice.synthesise(labels, random.uniform(0.85, 1.1), random.gauss(0, 1))
        spoken *= _PEAK / float(np.abs(spoken).max())
        yield TimedSpeech(spoken, voice.sample_rate, [])


def write(speech: Iterable[TimedSpeech], folder: Path, minutes: float) -> float:
    """Write each as a WAV file until there is enough; how many seconds were written."""
    folder.mkdir(parents=True, exist_ok=True)
    seconds = 0.0
    for number, spoken in enumerate(speech):
        soundfile.write(folder / f"{number:04d}.wav", spoken.wave, spoken.rate)
        seconds += len(spoken.wave) / spoken.rate
        if seconds >= minutes * 60:
            break
    return seconds


def main(arguments: list[str] | None = None) -> None:
    """Read as the command line asks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "voice", help=f"{MEI}, one of flite ({', '.join(FLITE_VOICES)}), or one of Festival"
    )
    parser.add_argument("folder", type=Path, help="for the WAV files")
    parser.add_argument("--minutes", type=float, default=6.0, help="of speech (default: 6)")
    parser.add_argument(
        "--mean", type=float, nargs=2, metavar=("LOW", "HIGH"),
        help="the mean pitch in Hz of a voice of flite, drawn for each sentence",
    )  # fmt: skip
    parser.add_argument("--spread", type=float, default=28.0, help="of the pitch (default: 28 Hz)")
    options = parser.parse_args(arguments)
    if options.voice == MEI:
        texts = _JAPANESE.read_text("utf-8").split()
        seconds = write(read_japanese(texts), options.folder, options.minutes)
    else:
        seconds = _write_english(options)
    print(f"{seconds / 60:.1f} minutes of speech in {options.folder}")


def _write_english(options: argparse.Namespace) -> float:
    registers = None
    if options.mean:
        lowest, highest = options.mean
        registers = Registers(lowest, highest, options.spread)
    dictionary = Path(pocketsphinx.__file__).parent / "model" / "en-us" / "cmudict-en-us.dict"
    words = dictionary_words(dictionary)
    with tempfile.TemporaryDirectory() as scratch:
        speech = read(options.voice, words, Path(scratch), registers)
        return write(speech, options.folder, options.minutes)


if __name__ == "__main__":
    main()
