"""The voices of Festival: many texts at once."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import soundfile

from training.sources.flite import TimedSpeech

_PROGRAM = """
(define (finish utterance file)
  (utt.save.wave utterance (string-append file ".wav") 'riff)
  (utt.save.segs utterance (string-append file ".seg")))
(define (say voice file text)
  (eval (list voice))
  (finish (utt.synth (eval (list 'Utterance 'Text text))) file))
"""


@dataclass(frozen=True)
class Text:
    """A text for a voice such as ``"czech_dita"``."""

    voice: str
    text: str


def speak(scratch: Path, orders: list[Text]) -> list[TimedSpeech | None]:
    """Speaks many orders in one run of Festival; None for those that it could not speak."""
    with TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        calls = [_call(order, folder / str(index)) for index, order in enumerate(orders)]
        (folder / "program.scm").write_text(_PROGRAM + "\n".join(calls), encoding="utf-8")
        subprocess.run(
            ["festival", "-b", str(folder / "program.scm")], capture_output=True, check=False
        )
        return [_read(folder / str(index)) for index in range(len(orders))]


def _call(order: Text, file: Path) -> str:
    text = order.text.replace("\\", "").replace('"', "")
    return f'(say \'voice_{order.voice} "{file}" "{text}")'


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
