"""The voices of Festival: a text, or phones with times and melody, in many at once."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import soundfile

from training.sources.flite import TimedSpeech

VOICES = Path("/usr/share/festival/voices")
# A British voice asks for a dictionary that is not free; told phones it needs none.
_PROGRAM = """
(define (setup_oald_lex) (lex.create "oald") (lex.set.phoneset "mrpa"))
(define (finish utterance file)
  (utt.save.wave utterance (string-append file ".wav") 'riff)
  (utt.save.segs utterance (string-append file ".seg")))
(define (say voice file text)
  (eval (list voice))
  (finish (utt.synth (eval (list 'Utterance 'Text text))) file))
(define (sing voice file segments)
  (eval (list voice))
  (finish (utt.synth (eval (list 'Utterance 'Segments segments))) file))
"""


@dataclass(frozen=True)
class Text:
    """A text for a voice such as ``"czech_dita"``."""

    voice: str
    text: str


@dataclass(frozen=True)
class Score:
    """Phones as (name, seconds, Hz or 0) for a diphone voice, in its own phone set."""

    voice: str
    notes: list[tuple[str, float, float]]


def is_installed(voice: str) -> bool:
    """Whether Festival has a voice."""
    return any(VOICES.glob(f"*/{voice}"))


def speak(scratch: Path, orders: list[Text | Score]) -> list[TimedSpeech | None]:
    """Speaks many orders in one run of Festival; None for those that it could not speak."""
    with TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        calls = [_call(order, folder / str(index)) for index, order in enumerate(orders)]
        (folder / "program.scm").write_text(_PROGRAM + "\n".join(calls), encoding="utf-8")
        subprocess.run(
            ["festival", "-b", str(folder / "program.scm")], capture_output=True, check=False
        )
        return [_read(folder / str(index)) for index in range(len(orders))]


def _call(order: Text | Score, file: Path) -> str:
    if isinstance(order, Text):
        text = order.text.replace("\\", "").replace('"', "")
        return f'(say \'voice_{order.voice} "{file}" "{text}")'
    notes = []
    for phone, seconds, hertz in order.notes:
        melody = f" ({seconds / 2:.3f} {hertz:.1f})" if hertz else ""
        notes.append(f"({phone} {seconds:.3f}{melody})")
    return f"(sing 'voice_{order.voice} \"{file}\" '({' '.join(notes)}))"


def _read(file: Path) -> TimedSpeech | None:
    wave_file, segment_file = file.with_suffix(".wav"), file.with_suffix(".seg")
    if not (wave_file.exists() and segment_file.exists()):
        return None
    wave, rate = soundfile.read(wave_file, dtype="float32")
    return TimedSpeech(wave, rate, read_labels(segment_file))


def read_labels(file: Path) -> list[tuple[str, float]]:
    """Reads (phone, end in seconds) from an Xlabel file."""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    body = lines[lines.index("#") + 1 :]
    columns = [line.split() for line in body if len(line.split()) >= 3]
    return [(column[2], float(column[0])) for column in columns]
