"""Asks the owner for the spoken consent, now or before the same command is called again."""

import datetime as dt
import hashlib
import locale
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from importing.bundles.consent import Ask
from importing.files.errors import VoiceFileError
from shared.characters.spoken_consent import ConsentSentence, Language, draw_sentence
from training.recordings.choosing.reading import find_recordings
from training.recordings.runs.errors import RecordingsError
from training.recordings.runs.work import SPOKEN_CONSENT

_MOST_TRIES = 3


@dataclass(frozen=True)
class FoundConsent:
    """The owner's recording of a sentence."""

    recording: Path
    sentence: ConsentSentence


class ConsentRequest:
    """The sentence that an owner was shown, and which recording was accepted; kept in a folder.

    It is no part of what a training keeps, which is made anew when a recording is added.

    Args:
        folder: keeps them.
        character: id of the character.
        today: tells the day.
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
            recordings: the folder of the owner's recordings.
            given: the file that the owner named; None for the one in the folder.
            language: of a new sentence.
            ask: shows a question and returns the answer.

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
        """Whether a recording was made when it could be, or was accepted before."""
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
