"""The owner's spoken consent: asked for, found, and checked."""

import datetime as dt
import os
from pathlib import Path

import pytest

from shared.characters.consent import ConsentSentence, Language
from tests.unit.training.conftest import RATE, Floats, speak, write_speech
from tools.bundles.files import VoiceFileError
from tools.training.judges.measures import SpeakerEncoder
from tools.training.recordings.consent_check import check_spoken_consent, missing_parts
from tools.training.recordings.questions import ConsentRequest
from tools.training.recordings.usable_speech import Utterance
from tools.training.recordings.work_folder import RecordingsError

DAY = dt.date(2026, 11, 23)
SENTENCE = ConsentSentence("en", DAY, ("apple", "river", "window", "table"))
JAPANESE = ConsentSentence("ja", DAY, ("りんご", "くるま", "とけい", "ピアノ"))
OTHERS = ConsentSentence("en", DAY, ("lemon", "castle", "doctor", "button"))


class Hears:
    """A recogniser that always hears the same."""

    def __init__(self, text: str) -> None:
        self._text = text

    def understand(self, wave: Floats, language: str) -> str:
        assert len(wave)
        assert language in {"en", "ja"}
        return self._text


def nobody(question: str) -> str:
    raise VoiceFileError(f"expected an answer, found none: {question}")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return speak("slt", SENTENCE.text, tmp_path / "own.wav")


@pytest.fixture
def owner(woman: Floats) -> list[Utterance]:
    return [Utterance(f"{i}.wav", 0.0, woman[i * 3 * RATE :][: 3 * RATE], RATE) for i in range(8)]


def test_the_owners_own_voice_and_words_are_accepted_and_others_refused(
    own: Path, tmp_path: Path, owner: list[Utterance]
) -> None:
    encoder, hears = SpeakerEncoder(), Hears(SENTENCE.text)
    found = check_spoken_consent(own, SENTENCE, owner, encoder, hears)
    assert found.startswith("Spoken consent of 2026-11-23: in the voice of the recordings")
    assert found.endswith("a recogniser heard the sentence.")
    other = speak("rms", SENTENCE.text, tmp_path / "other.wav")
    with pytest.raises(RecordingsError, match=r"other\.wav: expected the voice of") as refused:
        check_spoken_consent(other, SENTENCE, owner, encoder, None)
    assert refused.value.code == "consent_refused"
    with pytest.raises(RecordingsError, match="to hear lemon, castle, doctor, button") as refused:
        check_spoken_consent(own, OTHERS, owner, encoder, hears)
    assert refused.value.code == "consent_refused"


def test_what_says_nothing_or_is_no_recording_is_refused(
    tmp_path: Path, woman: Floats, owner: list[Utterance]
) -> None:
    short = write_speech(tmp_path / "short.wav", woman[:RATE])
    with pytest.raises(RecordingsError, match="s of usable speech"):
        check_spoken_consent(short, SENTENCE, owner, SpeakerEncoder(), None)
    short.write_bytes(b"no sound")
    with pytest.raises(RecordingsError, match=r"short\.wav: expected the spoken consent, but it"):
        check_spoken_consent(short, SENTENCE, owner, SpeakerEncoder(), None)


@pytest.mark.parametrize(
    ("heard", "missing"),
    [
        ("Today is November 23rd, 2026. I agree that a voice is made. Apple, river, window", []),
        ("today is november 23 2026 apples rivers windows tables", []),
        ("Today is November 22nd, 2026. Apple, river, window, table.", ["November 23, 2026"]),
        ("Today is May 23rd, 2026. Apple, river, window, table.", ["November 23, 2026"]),
        ("Today is November 23rd, 2026. Apple, river.", ["window", "table"]),
    ],
)
def test_one_word_may_be_missing_but_not_two_and_not_the_date(
    heard: str, missing: list[str]
) -> None:
    assert missing_parts(SENTENCE, heard) == missing


@pytest.mark.parametrize(
    ("language", "heard"),
    [
        ("fr", "Nous sommes le 1er novembre 2026. J'accepte. Abeille, château, forêt, soleil."),
        ("de", "Heute ist der 1. November 2026. Abeille, Château, Foret, Soleil."),
        ("it", "Oggi è il 1º novembre 2026. abeille chateau forêt"),
    ],
)
def test_other_languages_are_compared_by_their_words(language: Language, heard: str) -> None:
    words = ("abeille", "château", "forêt", "soleil")
    sentence = ConsentSentence(language, dt.date(2026, 11, 1), words)
    assert missing_parts(sentence, heard) == []
    assert missing_parts(sentence, heard.replace("1", "2")) == [sentence.date]


def test_japanese_is_compared_by_its_sounds() -> None:
    heard = "今日は2026年11月23日です。私の録音から作ることに同意します。林檎、車、時計、ピアノ。"
    assert missing_parts(JAPANESE, heard) == []
    assert missing_parts(JAPANESE, heard.replace("2026年", "20206年")) == []
    assert missing_parts(JAPANESE, heard.replace("23日", "22日")) == [JAPANESE.date]
    assert missing_parts(JAPANESE, heard.replace("11月", "1月")) == [JAPANESE.date]
    assert missing_parts(JAPANESE, heard.replace("林檎、車", "雨、風")) == ["りんご", "くるま"]


class RecordingOwner:
    """Somebody at a terminal, who records the sentence when asked."""

    def __init__(self, file: Path) -> None:
        self.asked = ""
        self._file = file

    def __call__(self, question: str) -> str:
        self.asked = question
        self._file.write_bytes(b"a recording")
        return ""


def request(folder: Path, today: dt.date = DAY) -> ConsentRequest:
    return ConsentRequest(folder / "work", "ada", lambda: today)


def test_a_run_without_anybody_shows_the_sentence_and_only_a_later_recording_counts(
    tmp_path: Path,
) -> None:
    recording = tmp_path / "spoken-consent.wav"
    recording.write_bytes(b"an older recording")
    os.utime(recording, (1, 1))
    for _ in range(2):
        with pytest.raises(RecordingsError, match="expected a spoken consent") as refused:
            request(tmp_path).find(tmp_path, None, "ja", nobody)
    recording.write_bytes(b"a recording")
    found = request(tmp_path).find(tmp_path, None, "en", nobody)
    assert found.sentence.language == "ja"
    assert found.sentence.text in str(refused.value)


def test_after_a_week_there_is_another_sentence_unless_the_recording_was_accepted(
    tmp_path: Path,
) -> None:
    later = DAY + dt.timedelta(days=8)
    owner = RecordingOwner(tmp_path / "spoken-consent.wav")
    first = request(tmp_path).find(tmp_path, None, "en", owner)
    assert first.sentence.text in owner.asked
    request(tmp_path).accept(first)
    assert request(tmp_path, later).find(tmp_path, None, "en", nobody) == first
    (tmp_path / "spoken-consent.wav").write_bytes(b"another recording")
    with pytest.raises(RecordingsError) as refused:
        request(tmp_path, later).find(tmp_path, None, "en", nobody)
    assert first.sentence.text not in str(refused.value)
