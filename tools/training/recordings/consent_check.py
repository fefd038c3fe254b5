"""Checks the owner's spoken consent: the same voice as the recordings, and the right words."""

import datetime as dt
import hashlib
import locale
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from shared.characters.consent import ConsentSentence, Language, draw_sentence
from shared.characters.own.own_character import TrainingErrorCode
from shared.speech.signal.samples import resample
from shared.speech.text.front_end import Reader
from shared.speech.text.spoken_form import write_out
from tools.bundles.consent import Ask
from tools.bundles.files import VoiceFileError
from tools.training.decoder.features import RATE, Floats
from tools.training.judges.judgement import edits, units
from tools.training.judges.measures import Embedding, SpeakerLikeness
from tools.training.recordings.selection import OWNER_LIKENESS
from tools.training.recordings.usable_speech import (
    OwnerRecording,
    Utterance,
    find_recordings,
    read_pieces,
    screen,
)
from tools.training.recordings.work_folder import SPOKEN_CONSENT, RecordingsError

LEAST_SECONDS = 3.0
_GROUP_SECONDS = 6.0
_MOST_GROUPS = 40
_MOST_WRONG = 0.25
"""Of a word's letters or sounds: a recogniser is wrong now and then, too."""
_LEAST_WORDS = 3
_YEAR = "ネン"
"""Stands before the month, so that the eleventh month is not taken for the first."""
_LONG_E = re.compile("(?<=[エケセテネヘメレゲゼデベペ])イ")
_LONG_O = re.compile("(?<=[オコソトノホモヨョロゴゾドボポ])ウ")


class ConsentRecogniser(Protocol):
    """Writes down what is said."""

    def understand(self, wave: Floats, language: str) -> str:
        """Return what is said in a 16 kHz recording."""


@dataclass(frozen=True)
class SpokenConsent:
    """A spoken consent that was checked."""

    day: dt.date
    likeness: float
    are_words_checked: bool

    @property
    def statement(self) -> str:
        """The sentence in the character's consent."""
        words = "a recogniser heard the sentence" if self.are_words_checked else "words not checked"
        return (
            f"Spoken consent of {self.day.isoformat()}: in the voice of the recordings (likeness"
            f" {self.likeness:.2f}), {words}."
        )


WITHOUT = "Without a spoken consent: nobody checked that the owner of the voice agrees."
"""What a character's consent says if none was asked for."""


def check_spoken_consent(
    recording: Path,
    sentence: ConsentSentence,
    owner: Sequence[Utterance],
    encoder: Embedding,
    recogniser: ConsentRecogniser | None,
) -> SpokenConsent:
    """Check a recording of the sentence.

    Args:
        recogniser: understands the words; None if none is installed.

    Raises:
        RecordingsError: it cannot be read, holds too little speech, another voice or other words.
    """
    speech = _speech_of(recording)
    seconds = len(speech) / RATE
    if seconds < LEAST_SECONDS:
        raise RecordingsError(
            f"{recording.name}: expected the spoken consent, found {seconds:.1f} s of usable"
            " speech; record the whole sentence again, close to the microphone and without noise.",
            TrainingErrorCode.CONSENT_REFUSED,
        )
    others = [utterance for utterance in owner if utterance.file != recording.name]
    likeness = voice_likeness(speech, others, encoder)
    if likeness < OWNER_LIKENESS:
        raise RecordingsError(
            f"{recording.name}: expected the voice of the recordings, found another one (likeness"
            f" {likeness:.2f}, at least {OWNER_LIKENESS:.2f} wanted); let the owner of the voice"
            " speak the sentence, with the same microphone.",
            TrainingErrorCode.CONSENT_REFUSED,
        )
    if recogniser is not None:
        heard = recogniser.understand(speech, sentence.language)
        missing = missing_parts(sentence, heard)
        if missing:
            raise RecordingsError(
                f"{recording.name}: expected to hear {', '.join(missing)}, found: {heard.strip()}."
                f" Record this sentence again: {sentence.text}",
                TrainingErrorCode.CONSENT_REFUSED,
            )
    return SpokenConsent(sentence.day, likeness, recogniser is not None)


def voice_likeness(speech: Floats, owner: Sequence[Utterance], encoder: Embedding) -> float:
    """Return the cosine of a recording's voice and the mean of the owner's.

    Args:
        speech: float32 [N] at 16 kHz, at least 3 s.
    """
    groups = list(_groups(owner))
    step = -(-len(groups) // _MOST_GROUPS)
    return SpeakerLikeness(groups[::step], encoder).of(speech)


def missing_parts(sentence: ConsentSentence, heard: str) -> list[str]:
    """Return which parts of a sentence were not heard; one of the four words may be missing.

    A recogniser writes words in its own way, so Japanese is compared by its sounds.
    """
    if sentence.language == "ja":
        read = _reading()
        sounds = read(heard)
        missing = [word for word in sentence.words if not _is_among(read(word), sounds)]
        # As in English, the year may be misheard: four digits in a row often are.
        day = read(f"{sentence.day.month}月{sentence.day.day}日")
        is_dated = f"{_YEAR}{day}" in sounds
    else:
        said = units(heard, "en")
        missing = [word for word in sentence.words if not _is_one_of(word, said)]
        day = str(sentence.day.day)
        is_day = any(each.rstrip("stndrh") == day for each in said)
        is_dated = is_day and _is_one_of(sentence.month.lower(), said)
    enough = len(sentence.words) - len(missing) >= _LEAST_WORDS
    return ([] if is_dated else [sentence.date]) + ([] if enough else missing)


def _reading() -> Callable[[str], str]:
    reader = Reader()

    def read(text: str) -> str:
        said = "".join(
            word.reading for word in reader.read(write_out(text)).words if word.reading != "、"
        )
        return _LONG_O.sub("ー", _LONG_E.sub("ー", said))

    return read


def _is_one_of(word: str, said: Sequence[str]) -> bool:
    return any(edits(word, each) <= _MOST_WRONG * len(word) for each in said)


def _is_among(wanted: str, sounds: str) -> bool:
    """Return whether a part of the sounds is nearly the wanted one."""
    lengths = range(max(1, len(wanted) - 1), len(wanted) + 2)
    parts = (sounds[at : at + length] for length in lengths for at in range(len(sounds)))
    return any(edits(wanted, part) <= _MOST_WRONG * len(wanted) for part in parts)


def _speech_of(file: Path) -> Floats:
    """The usable speech of a file at 16 kHz."""
    waves: list[Floats] = []
    try:
        for piece in read_pieces(OwnerRecording(file, file.name)):
            kept, _ = screen(piece)
            waves += [resample(each.samples, each.rate, RATE) for each in kept]
    except RecordingsError as error:
        raise RecordingsError(
            f"{file.name}: expected the spoken consent, but {error}.",
            TrainingErrorCode.CONSENT_REFUSED,
        ) from error
    return np.concatenate(waves) if waves else np.zeros(0, np.float32)


def _groups(utterances: Sequence[Utterance]) -> list[Floats]:
    """Utterances joined to at least 6 s at 16 kHz; what is left over joins the last."""
    groups: list[list[Floats]] = [[]]
    for utterance in utterances:
        if sum(map(len, groups[-1])) >= _GROUP_SECONDS * RATE:
            groups.append([])
        groups[-1].append(resample(utterance.samples, utterance.rate, RATE))
    return [np.concatenate(group) for group in groups if group]


_MOST_TRIES = 3


@dataclass(frozen=True)
class FoundConsent:
    """The owner's recording of a sentence."""

    recording: Path
    sentence: ConsentSentence


class ConsentRequest:
    """The sentence that an owner was shown, and which recording was accepted; kept in a folder.

    It is no part of what a training keeps, which is made anew when a recording is added.
    """

    def __init__(self, folder: Path, character: str, today: Callable[[], dt.date]) -> None:
        self._sentence = folder / f"{character}.sentence.json"
        self._accepted = folder / f"{character}.accepted"
        self._today = today

    def find(
        self, recordings: Path, given: Path | None, language: Language, ask: Ask
    ) -> FoundConsent:
        """Return the owner's recording; show the sentence if there is none yet.

        Args:
            given: the file that the owner named; None for the one in the folder.

        Raises:
            RecordingsError: there is no recording, and nobody is there to make one.
        """
        sentence = self._kept()
        found = given or _find(recordings)
        if found is not None and sentence is not None and self._holds(sentence, found):
            return FoundConsent(found, sentence)
        if sentence is None or not sentence.holds_on(self._today()):
            sentence = draw_sentence(language, self._today())
            self._sentence.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._sentence.write_text(sentence.to_json(), "utf-8")
        how = (
            f"The owner of the voice speaks this sentence:\n\n    {sentence.text}\n\nSave it as"
            f" {SPOKEN_CONSENT}.wav (or .flac, .mp3, .m4a) in {recordings}"
        )
        before = _stamp(found)
        for _ in range(_MOST_TRIES):
            with suppress(VoiceFileError):
                ask(f"{how}, then press Enter.")
            found = given or _find(recordings)
            if found is not None and found.is_file() and _stamp(found) != before:
                return FoundConsent(found, sentence)
        raise RecordingsError(
            f"expected a spoken consent, found none. {how}, or name it with --spoken-consent FILE,"
            f" by {sentence.last_day.isoformat()}, and start the same command again. With"
            " --no-spoken-consent it goes without, and the character's consent says so."
        )

    def accept(self, found: FoundConsent) -> None:
        """Keep that a recording was accepted: it holds from now on."""
        self._accepted.write_text(_digest(found.recording), "utf-8")

    def clear(self) -> None:
        """Forget the sentence and the recording."""
        for file in (self._sentence, self._accepted):
            file.unlink(missing_ok=True)

    def _kept(self) -> ConsentSentence | None:
        try:
            return ConsentSentence.from_json(self._sentence.read_text("utf-8"))
        except (OSError, ValueError):
            return None

    def _holds(self, sentence: ConsentSentence, recording: Path) -> bool:
        """Return whether a recording was made in time, or was accepted before."""
        try:
            if self._accepted.exists() and self._accepted.read_text() == _digest(recording):
                return True
            is_later = recording.stat().st_mtime >= self._sentence.stat().st_mtime
        except OSError:
            return False
        return is_later and sentence.holds_on(self._today())


def usual_language() -> Language:
    """Return the language of the owner's system: Japanese or English."""
    return "ja" if (locale.getlocale()[0] or "").lower().startswith("ja") else "en"


def _find(recordings: Path) -> Path | None:
    with suppress(RecordingsError):
        for recording in find_recordings(recordings):
            if recording.path.stem.lower() == SPOKEN_CONSENT:
                return recording.path
    return None


def _stamp(file: Path | None) -> tuple[int, int] | None:
    if file is None or not file.is_file():
        return None
    return file.stat().st_mtime_ns, file.stat().st_size


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
