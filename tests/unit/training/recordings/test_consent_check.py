"""The owner's spoken consent: asked for, found, and checked."""

import datetime as dt
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.characters.consent import ConsentSentence, Language
from tools.bundles.files import VoiceFileError
from tools.training.judges.measures import SpeakerEncoder
from tools.training.judges.panel import JudgeMissingError, Whisper
from tools.training.recordings.consent_check import (
    check_spoken_consent,
    missing_parts,
)
from tools.training.recordings.questions import ConsentRequest
from tools.training.recordings.usable_speech import Utterance
from tools.training.recordings.work_folder import RecordingsError

RATE = 16_000
DAY = dt.date(2026, 11, 23)
SENTENCE = ConsentSentence("en", DAY, ("apple", "river", "window", "table"))
JAPANESE = ConsentSentence("ja", DAY, ("りんご", "くるま", "とけい", "ピアノ"))
OTHERS = ConsentSentence("en", DAY, ("lemon", "castle", "doctor", "button"))


class Hears:
    """A recogniser that always hears the same."""

    def __init__(self, text: str) -> None:
        self._text = text

    def understand(self, wave: NDArray[np.float32], language: str) -> str:
        assert len(wave)
        assert language in {"en", "ja"}
        return self._text


def nobody(question: str) -> str:
    raise VoiceFileError(f"expected an answer, found none: {question}")


def speak(voice: str, text: str, file: Path) -> Path:
    program = shutil.which("flite")
    if program is None:
        pytest.skip("needs flite")
    file.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([program, "-voice", voice, "-t", text, "-o", str(file)], check=True)
    return file


def utterances(samples: NDArray[np.float32]) -> list[Utterance]:
    return [Utterance(f"{i}.wav", 0.0, samples[i * 3 * RATE :][: 3 * RATE], RATE) for i in range(8)]


def test_the_owners_own_voice_is_accepted_and_anybody_elses_refused(
    tmp_path: Path, woman: NDArray[np.float32]
) -> None:
    encoder = SpeakerEncoder()
    own = speak("slt", SENTENCE.text, tmp_path / "own.wav")
    found = check_spoken_consent(own, SENTENCE, utterances(woman), encoder, Hears(SENTENCE.text))
    assert found.are_words_checked
    assert "2026-11-23" in found.statement
    other = speak("rms", SENTENCE.text, tmp_path / "other.wav")
    with pytest.raises(RecordingsError, match=r"other\.wav: expected the voice of") as refused:
        check_spoken_consent(other, SENTENCE, utterances(woman), encoder, None)
    assert refused.value.code == "consent_refused"


def test_a_recording_with_other_words_is_refused(
    tmp_path: Path, woman: NDArray[np.float32]
) -> None:
    own = speak("slt", SENTENCE.text, tmp_path / "own.wav")
    with pytest.raises(RecordingsError, match="to hear lemon, castle, doctor, button") as refused:
        check_spoken_consent(own, OTHERS, utterances(woman), SpeakerEncoder(), Hears(SENTENCE.text))
    assert refused.value.code == "consent_refused"


def test_a_recording_that_says_nothing_is_refused(
    tmp_path: Path, woman: NDArray[np.float32], write_wav: object
) -> None:
    assert callable(write_wav)
    write_wav(tmp_path / "short.wav", woman[:RATE], RATE)
    with pytest.raises(RecordingsError, match="s of usable speech"):
        check_spoken_consent(
            tmp_path / "short.wav", SENTENCE, utterances(woman), SpeakerEncoder(), None
        )


def test_what_is_no_recording_is_refused(tmp_path: Path, woman: NDArray[np.float32]) -> None:
    (tmp_path / "own.wav").write_bytes(b"no sound")
    with pytest.raises(RecordingsError, match=r"own\.wav: expected the spoken consent, but it is"):
        check_spoken_consent(
            tmp_path / "own.wav", SENTENCE, utterances(woman), SpeakerEncoder(), None
        )


@pytest.mark.parametrize(
    "heard",
    [
        "Today is November 23rd, 2026. I agree that a voice is made. Apple, river, window",
        "today is november 23 2026 apples rivers windows tables",
    ],
)
def test_a_recogniser_may_write_the_date_in_its_way_and_miss_one_word(heard: str) -> None:
    assert missing_parts(SENTENCE, heard) == []


@pytest.mark.parametrize(
    ("heard", "missing"),
    [
        ("Today is November 22nd, 2026. Apple, river, window, table.", ["November 23, 2026"]),
        ("Today is May 23rd, 2026. Apple, river, window, table.", ["November 23, 2026"]),
        ("Today is November 23rd, 2026. Apple, river.", ["window", "table"]),
    ],
)
def test_another_date_and_two_missing_words_are_noticed(heard: str, missing: list[str]) -> None:
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


def test_whisper_hears_the_sentence_and_misses_others(
    tmp_path: Path, woman: NDArray[np.float32], tmp_path_factory: pytest.TempPathFactory
) -> None:
    try:
        whisper = Whisper(tmp_path_factory.mktemp("whisper"), threads=1)
    except JudgeMissingError as error:
        pytest.skip(str(error))
    own = speak("slt", SENTENCE.text, tmp_path / "own.wav")
    encoder, owner = SpeakerEncoder(), utterances(woman)
    assert check_spoken_consent(own, SENTENCE, owner, encoder, whisper).are_words_checked
    with pytest.raises(RecordingsError, match="expected to hear lemon"):
        check_spoken_consent(own, OTHERS, owner, encoder, whisper)


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


def test_who_sits_at_the_terminal_is_shown_the_sentence_and_records_it(tmp_path: Path) -> None:
    owner = RecordingOwner(tmp_path / "spoken-consent.flac")
    found = request(tmp_path).find(tmp_path, None, "en", owner)
    assert found.recording == tmp_path / "spoken-consent.flac"
    assert found.sentence.text in owner.asked


def test_a_run_without_anybody_shows_the_sentence_and_the_next_run_finds_the_recording(
    tmp_path: Path,
) -> None:
    with pytest.raises(RecordingsError, match="expected a spoken consent, found none") as refused:
        request(tmp_path).find(tmp_path, None, "ja", nobody)
    (tmp_path / "spoken-consent.wav").write_bytes(b"a recording")
    found = request(tmp_path).find(tmp_path, None, "en", nobody)
    assert found.sentence.language == "ja"
    assert found.sentence.text in str(refused.value)


def test_a_recording_from_before_the_sentence_was_shown_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "spoken-consent.wav").write_bytes(b"an older recording")
    os.utime(tmp_path / "spoken-consent.wav", (1, 1))
    for _ in range(2):
        with pytest.raises(RecordingsError, match="expected a spoken consent"):
            request(tmp_path).find(tmp_path, None, "en", nobody)


def test_after_a_week_there_is_another_sentence_unless_the_recording_was_accepted(
    tmp_path: Path,
) -> None:
    later = DAY + dt.timedelta(days=8)
    owner = RecordingOwner(tmp_path / "spoken-consent.wav")
    first = request(tmp_path).find(tmp_path, None, "en", owner)
    request(tmp_path).accept(first)
    assert request(tmp_path, later).find(tmp_path, None, "en", nobody) == first
    (tmp_path / "spoken-consent.wav").write_bytes(b"another recording")
    with pytest.raises(RecordingsError) as refused:
        request(tmp_path, later).find(tmp_path, None, "en", nobody)
    assert first.sentence.text not in str(refused.value)
