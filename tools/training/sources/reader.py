"""A published synthetic voice reads aloud, into a folder that a character is trained with.

python -m tools.training.sources.reader VOICE FOLDER [--minutes 6] [--mean LOW HIGH --spread HZ]
"""

import argparse
import subprocess
import tempfile
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


@dataclass(frozen=True)
class TimedSpeech:
    """Samples (float32), their rate, and (phone, end in seconds) in the speaker's phone set."""

    wave: NDArray[np.float32]
    rate: int
    phones: list[tuple[str, float]]


@dataclass(frozen=True)
class Register:
    """Mean and spread of the melody in Hz, in place of the voice's own."""

    mean_hz: float
    spread_hz: float

    def options(self) -> list[str]:
        mean = f"int_f0_target_mean={self.mean_hz:.1f}"
        return ["--setf", mean, "--setf", f"int_f0_target_stddev={self.spread_hz:.1f}"]


def speak_with_flite(
    scratch: Path,
    voice: str,
    stretch: float,
    *,
    text: str = "",
    phones: str = "",
    register: Register | None = None,
) -> TimedSpeech:
    with TemporaryDirectory(dir=scratch) as folder:
        file = Path(folder) / "wav"
        command = ["flite", "-voice", voice, "--setf", f"duration_stretch={stretch:.3f}"]
        command += register.options() if register else []
        command += ["-o", str(file), "-psdur", *(["-t", text] if text else ["-p", phones])]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        wave, rate = soundfile.read(file, dtype="float32")
    timed = [entry.rsplit(":", 1) for entry in printed.split() if ":" in entry]
    return TimedSpeech(wave, rate, [(phone, float(end)) for phone, end in timed])


_PROGRAM = """
(define (finish utterance file)
  (utt.save.wave utterance (string-append file ".wav") 'riff)
  (utt.save.segs utterance (string-append file ".seg")))
(define (say voice file text)
  (eval (list voice))
  (finish (utt.synth (eval (list 'Utterance 'Text text))) file))
"""


@dataclass(frozen=True)
class NumberedText:
    voice: str
    text: str


def speak_with_festival(scratch: Path, orders: list[NumberedText]) -> list[TimedSpeech | None]:
    """Speaks many orders in one run of Festival; None for those that it could not speak."""
    with TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        calls = [_call(order, folder / str(index)) for index, order in enumerate(orders)]
        (folder / "program.scm").write_text(_PROGRAM + "\n".join(calls), encoding="utf-8")
        subprocess.run(
            ["festival", "-b", str(folder / "program.scm")], capture_output=True, check=False
        )
        return [_read(folder / str(index)) for index in range(len(orders))]


def _call(order: NumberedText, file: Path) -> str:
    text = order.text.replace("\\", "").replace('"', "")
    return f'(say \'voice_{order.voice} "{file}" "{text}")'


def _read(file: Path) -> TimedSpeech | None:
    wave_file, segment_file = file.with_suffix(".wav"), file.with_suffix(".seg")
    if not (wave_file.exists() and segment_file.exists()):
        return None
    wave, rate = soundfile.read(wave_file, dtype="float32")
    return TimedSpeech(wave, rate, read_labels(segment_file))


def read_labels(file: Path) -> list[tuple[str, float]]:
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    body = lines[lines.index("#") + 1 :]
    columns = [line.split() for line in body if len(line.split()) >= 3]
    return [(column[2], float(column[0])) for column in columns]


MEI = "mei"
"""The HTS voice that the character Mei is made of; it reads Japanese sentences."""
FLITE_VOICES = ("awb", "kal16", "rms", "slt")
_AT_ONCE = 10
_SEED = 1
_PEAK = 0.7
_JAPANESE = Path(__file__).parents[1] / "sources" / "texts" / "hina_ja.txt"


@dataclass(frozen=True)
class Registers:
    """The pitch of sentences: a mean that is drawn for each, and a spread, in Hz.

    A diphone voice speaks nearly on one note, and a character that has heard no other melody is at
    a loss with visitors who have one.
    """

    lowest_mean_hz: float
    highest_mean_hz: float
    spread_hz: float

    def draw(self, random: Random) -> Register:
        mean = random.uniform(self.lowest_mean_hz, self.highest_mean_hz)
        return Register(mean, self.spread_hz)


def read(
    voice: str, words: list[str], scratch: Path, registers: Registers | None = None
) -> Iterator[TimedSpeech]:
    """Read random words in rows without end; the same arguments give the same speech.

    Args:
        voice: of flite, or one that Festival has, for example ``"ked_diphone"``.
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
                yield speak_with_flite(scratch, voice, 1.0, text=text, register=register)
            continue
        spoken = speak_with_festival(scratch, [NumberedText(voice, text) for text in texts])
        heard = [speech for speech in spoken if speech is not None]
        if not heard:
            raise ValueError(
                f"{voice}: expected a voice of flite ({', '.join(FLITE_VOICES)}) or one that"
                " Festival has, found none; install its Debian package."
            )
        yield from heard


def read_japanese(texts: list[str]) -> Iterator[TimedSpeech]:
    """Read each text once with the HTS voice Mei, slower or faster, lower or higher."""
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
