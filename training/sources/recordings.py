"""Natural recordings of single words: telephone prompts of Debian's Asterisk packages.

What a prompt says follows from its file name (a number, a day, a month, a letter), and
espeak-ng knows how that is pronounced. When each sound is said is found by pocketsphinx,
forced to align the phones with the recording; its English phones stand in for the others.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pocketsphinx
from numpy.typing import NDArray

from training.features import RATE
from training.phones import Blend, Segment

SOUNDS = Path("/usr/share/asterisk/sounds")
_DAYS = {
    "it": "domenica lunedì martedì mercoledì giovedì venerdì sabato",
    "fr": "dimanche lundi mardi mercredi jeudi vendredi samedi",
    "es": "domingo lunes martes miércoles jueves viernes sábado",
    "ru": "воскресенье понедельник вторник среда четверг пятница суббота",
    "en": "sunday monday tuesday wednesday thursday friday saturday",
}
_MONTHS = {
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "ru": "январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь",
    "en": "january february march april may june july august september october november december",
}
_NUMBERS = (*range(21), 30, 40, 50, 60, 70, 80, 90)


@dataclass(frozen=True)
class Reader:
    """A person in the packages, and the language that they read."""

    name: str
    folder: Path
    language: str


# The English and Spanish prompts of the core sounds are by one person, who is held out.
READERS = (
    Reader("it_carlo", SOUNDS / "it_IT_m_Carlo", "it"),
    Reader("it_menardi", SOUNDS / "it_IT_f_Menardi", "it"),
    Reader("fr_june", SOUNDS / "fr_CA_f_June", "fr"),
    Reader("fr_armelle", SOUNDS / "fr", "fr"),
    Reader("es_co", SOUNDS / "es", "es"),
    Reader("ru_ivrvoice", SOUNDS / "ru_RU_f_IvrvoiceRU", "ru"),
)


def words(language: str) -> dict[str, str]:
    """Prompt name to what is said: numbers as digits, days, months and letters."""
    said = {f"digits/{number}": str(number) for number in _NUMBERS}
    said |= {f"digits/day-{i}": day for i, day in enumerate(_DAYS[language].split())}
    said |= {f"digits/mon-{i}": month for i, month in enumerate(_MONTHS[language].split())}
    if language in {"it", "fr", "en"}:
        said |= {f"letters/{letter}": letter for letter in "abcdefghijklmnopqrstuvxz"}
    return said


def find(reader: Reader, prompt: str) -> Path | None:
    """The best recording of a prompt that is installed: 16 kHz before 8 kHz."""
    for suffix in (".g722", ".wav", ".gsm"):
        file = reader.folder / f"{prompt}{suffix}"
        if file.exists():
            return file
    return None


def load(file: Path) -> NDArray[np.float32]:
    """Samples at 16 kHz of any recording that ffmpeg reads."""
    command = [
        "ffmpeg",
        "-v",
        "error",
        "-i",
        str(file),
        "-ar",
        str(RATE),
        "-ac",
        "1",
        "-f",
        "s16le",
        "-",
    ]
    data = subprocess.run(command, capture_output=True, check=True).stdout
    return (np.frombuffer(data, np.int16) / 32768).astype(np.float32)


_ARPABET = {
    "a": "AA", "i": "IY", "u": "UW", "e": "EH", "o": "OW", "N": "NG", "cl": "T", "k": "K", "g": "G",
    "s": "S", "sh": "SH", "z": "Z", "j": "JH", "t": "T", "ch": "CH", "ts": "S", "d": "D", "n": "N",
    "h": "HH", "f": "F", "b": "B", "p": "P", "m": "M", "r": "R", "y": "Y", "w": "W", "v": "V",
}  # fmt: skip
_BLENDED_ARPABET = {
    ("a", "e"): "AE", ("e", "a"): "EH", ("i", "e"): "IH", ("u", "o"): "UH", ("a", "o"): "AH",
    ("o", "a"): "AO", ("a", "u"): "AH", ("i", "u"): "IY", ("e", "o"): "ER", ("s", "f"): "TH",
    ("z", "d"): "DH", ("b", "f"): "V", ("r", "u"): "L", ("r", "w"): "R", ("g", "h"): "R",
    ("h", "k"): "HH", ("sh", "hy"): "SH",
}  # fmt: skip


def arpabet(blend: Blend) -> str:
    """The English phone nearest to a blend, for the acoustic model of the aligner."""
    if blend.other != blend.phone:
        return _BLENDED_ARPABET[(blend.phone, blend.other)]
    return _ARPABET.get(blend.phone) or _ARPABET[blend.phone.rstrip("yw")]


class Aligner:
    """Finds the times of given phones in a recording."""

    def __init__(self) -> None:
        self._decoder = pocketsphinx.Decoder(lm=None, bestpath=False, loglevel="FATAL")
        self._count = 0

    def align(self, wave: NDArray[np.float32], blends: list[Blend]) -> list[Segment] | None:
        """Segments with the silences around them; None where the recording does not fit."""
        word = f"word{self._count}"
        self._count += 1
        self._decoder.add_word(word, " ".join(arpabet(b) for b in blends), True)
        self._decoder.set_align_text(word)
        data = (np.clip(wave, -1, 1) * 32767).astype(np.int16).tobytes()
        self._pass(data)
        if self._decoder.hyp() is None:
            return None
        self._decoder.set_alignment()
        self._pass(data)
        times = [
            (phone.name, phone.start / 100, (phone.start + phone.duration) / 100)
            for entry in self._decoder.get_alignment()
            for phone in entry
        ]
        spoken = [(start, end) for name, start, end in times if name != "SIL"]
        if len(spoken) != len(blends):
            return None
        segments = [Segment(b, start, end) for b, (start, end) in zip(blends, spoken, strict=True)]
        silence = Blend.pure("pau")
        if segments[0].start > 0:
            segments.insert(0, Segment(silence, 0.0, segments[0].start))
        if segments[-1].end < len(wave) / RATE - 0.02:
            segments.append(Segment(silence, segments[-1].end, len(wave) / RATE))
        return segments

    def _pass(self, data: bytes) -> None:
        self._decoder.start_utt()
        self._decoder.process_raw(data, no_search=False, full_utt=True)
        self._decoder.end_utt()
