"""Who is judged by what, and how the tables tell it."""

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import soundfile

from shared.speech.engines.text_interface import PhraseEngine, SpeechOptions
from shared.speech.text.front_end import FrontEnd
from tools.training.decoder.features import RATE, Floats
from tools.training.judges.command import write_typed
from tools.training.judges.judgement import (
    AS_SPOKEN,
    JUDGED_BEGIN,
    JUDGED_END,
    CharacterJudgement,
    ErrorRate,
    JudgedCharacter,
    Key,
    Row,
    compare,
    markdown,
    units,
    write_between,
)
from tools.training.judges.panel import DIRECTIONS, RESEMBLYZER, Panel
from tools.training.judges.strangers import READERS, StrangerRecording, english, spread
from tools.training.judges.typed import RememberedSpeech, words_wrong
from tools.training.recordings.selection import SHIPPED


class Level:
    """Understands by how loud it is, and finds loud speech natural."""

    def understand(self, wave: Floats, language: str) -> str:  # noqa: ARG002 - what judges take
        return "one two three four" if np.abs(wave).max() > 0.05 else "one two"

    def judge(self, wave: Floats) -> dict[str, float]:
        mark = 4.0 if np.abs(wave).max() > 0.05 else 2.0
        return {"distillmos": mark, "overall": mark}

    def embed(self, wave: Floats) -> Floats:
        loud = float(np.abs(wave).max() > 0.05)
        return np.array([loud, 1 - loud], np.float32)


class PhonesByLevel:
    def understand(self, wave: Floats, language: str) -> str:  # noqa: ARG002 - what judges take
        return "h ə l oʊ ð ɛ ɹ" if np.abs(wave).max() > 0.05 else "h ə l oʊ"


def speech(seconds: float = 1.5) -> Floats:
    time = np.arange(int(RATE * seconds)) / RATE
    return np.asarray(0.05 * sum(np.sin(2 * np.pi * 150 * k * time) / k for k in (1, 2, 3)), "f4")


OWN = {RESEMBLYZER: np.array([0, 1], np.float32), DIRECTIONS: np.array([1, 0], np.float32)}
QUIET = JudgedCharacter("quiet", lambda wave: wave * np.float32(0.1), OWN)
PANEL = Panel(
    Level(), [Level()], {RESEMBLYZER: Level(), DIRECTIONS: Level()}, phones=PhonesByLevel()
)


def judged(text: str | None = "one two three four") -> dict[Key, Row]:
    recording = StrangerRecording("readers", "a", "en", speech(), text)
    judging = CharacterJudgement(PANEL, lambda _done, _total: None)
    return judging.judge([QUIET], {"clean": (lambda wave: wave, [recording])})


def test_a_character_is_judged_beside_what_was_spoken() -> None:
    rows = judged()
    spoken, converted = (rows["clean", "readers", name] for name in (AS_SPOKEN, "quiet"))
    assert (spoken.words, converted.words) == (ErrorRate(0, 4), ErrorRate(2, 4))
    assert (spoken.mean("overall"), converted.mean("overall")) == (4.0, 2.0)
    assert (spoken.phones, converted.phones) == (ErrorRate(0, 7), ErrorRate(3, 7))
    for encoder, likeness in ((RESEMBLYZER, 1.0), (DIRECTIONS, 0.0)):
        assert converted.mean(f"likeness {encoder}") == likeness
        assert converted.mean(f"left {encoder}") == 0.0
    assert converted.mean("melody") == pytest.approx(1.0)
    # Where nobody wrote down what is said, it is what is understood of the original.
    assert judged(None)["clean", "readers", "quiet"].words == ErrorRate(2, 4)


def test_a_disturbance_is_heard_by_the_character_but_what_was_said_stays() -> None:
    recording = StrangerRecording("readers", "a", "en", speech(), None)
    same = JudgedCharacter("same", lambda wave: wave, {})
    rows = CharacterJudgement(PANEL, lambda _done, _total: None).judge(
        [same], {"far": (lambda wave: wave * np.float32(0.1), [recording])}
    )
    assert rows["far", "readers", "same"].words == ErrorRate(2, 4)
    assert rows["far", "readers", "same"].phones == ErrorRate(3, 7)
    assert rows["far", "readers", AS_SPOKEN].words == ErrorRate(2, 4)


def test_the_tables_show_every_figure_and_name_what_is_missing() -> None:
    rows = judged()
    text = markdown(rows, ["DNSMOS: speechmos is not installed"])
    assert "| clean | readers | as spoken | 0.0% | 4 | 0.0% | 4.00 |" in text
    assert "| clean | readers | quiet | 50.0% | 4 | 42.9% | 2.00 | 2.00 | 1.00 | 0.00 |" in text
    assert "P.808 |" not in text  # nobody judged it
    assert "Not measured: DNSMOS: speechmos is not installed." in text
    others = markdown(rows, [], ["somebody else"])
    assert AS_SPOKEN in others
    assert "quiet" not in others


def test_some_of_the_recordings_are_spread_over_every_group() -> None:
    many = [
        StrangerRecording(group, str(n), "en", speech(0.1), None)
        for group in "ab"
        for n in range(9)
    ]
    assert [(one.group, one.name) for one in spread(many, 3)] == [
        ("a", "0"), ("a", "3"), ("a", "6"), ("b", "0"), ("b", "3"), ("b", "6"),
    ]  # fmt: skip


def test_japanese_is_counted_in_characters_and_english_in_words_without_signs() -> None:
    assert units("ＡＢ、 今日は。", "ja") == ["a", "b", "今", "日", "は"]
    assert units("Don't go — she said.", "en") == ["dont", "go", "she", "said"]


@pytest.mark.parametrize(
    ("understood", "wrong"),
    [
        ("One, two: three!", 0),
        ("one three", 1),
        ("one two two three", 1),
        ("won two three", 1),
        ("", 3),
        ("four five six seven", 4),
    ],
)
def test_what_is_missing_too_much_or_another_word_is_wrong(understood: str, wrong: int) -> None:
    assert compare("one two three", understood, "en") == ErrorRate(wrong, 3)


def test_sentences_are_added_up_by_their_lengths_and_not_by_their_shares() -> None:
    both = compare("a b c d e f g h i", "a b c d e f g h i", "en") + compare("a", "b", "en")
    assert both == ErrorRate(1, 10)
    assert both.share == pytest.approx(0.1)
    assert math.isnan(ErrorRate().share)


def test_the_tables_replace_the_text_between_the_markers_and_nothing_else(tmp_path: Path) -> None:
    card = tmp_path / "MODEL_CARD.md"
    card.write_text(f"# Mei\n\n{JUDGED_BEGIN}\nold\n{JUDGED_END}\n\n## Limits\n")
    for _ in range(2):
        write_between(card, "| new |", JUDGED_BEGIN, JUDGED_END)
        assert (
            card.read_text() == f"# Mei\n\n{JUDGED_BEGIN}\n\n| new |\n\n{JUDGED_END}\n\n## Limits\n"
        )
    card.write_text(JUDGED_BEGIN)
    with pytest.raises(ValueError, match="both markers"):
        write_between(card, "x", JUDGED_BEGIN, JUDGED_END)


@pytest.mark.parametrize(
    ("language", "said", "understood", "wrong"),
    [
        ("en", "The bill comes to $3.50.", "The bill comes to $3.50.", 0),
        ("en", "The bill comes to $3.50.", "the bill comes to three dollars and fifty cents", 0),
        ("en", "The bill comes to $3.50.", "The pill comes to $3.40.", 2),
        ("en", "Mr. Fox and Dr. Lee", "Mr Fox and Dr Lee", 0),
        ("en", "It starts at 10:30.", "It starts at 10.30.", 0),
        ("en", "Call 555-0142.", "call 5550142", 0),
        ("it", "Il 333 123 4567.", "il 333 1234567", 0),
        ("it", "Il 333 123 4567.", "il 333 1234568", 1),
    ],
)
def test_numbers_and_titles_count_as_they_are_said_not_as_they_are_written(
    language: str, said: str, understood: str, wrong: int
) -> None:
    assert words_wrong(said, understood, language, FrontEnd()).wrong == wrong


def test_typed_rows_go_into_the_page_and_each_character_s_into_its_card(tmp_path: Path) -> None:
    rows = {("typed", "English", name): Row(words=ErrorRate(1, 8)) for name in ("hina", "ned")}
    card, page = tmp_path / "ned" / "MODEL_CARD.md", tmp_path / "typed.md"
    card.parent.mkdir()
    write_typed(rows, [], [card.parent], page)
    assert "| hina | 12.5% | 8 |" in page.read_text("utf-8")
    assert "| ned | 12.5% | 8 |" in card.read_text("utf-8")
    assert "hina" not in card.read_text("utf-8")


class Windows:
    """Speaks each word in a piece, or the whole text in one, and counts its texts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Floats]:
        self.asked.append(text)
        words = [text] if options.whole else text.split()
        return (np.ones(len(word), np.float32) for word in words)


def test_whoever_converts_gets_whole_breaths_which_are_spoken_once() -> None:
    engine = Windows()
    speech = RememberedSpeech(lambda: cast("PhraseEngine", engine))
    whole = SpeechOptions(whole=True)

    for _ in range(2):
        assert [len(piece) for piece in speech.speak("one two", whole)] == [7]
    assert engine.asked == ["one two"]
    assert [len(piece) for piece in speech.speak("one two", SpeechOptions())] == [3, 3]
    assert [len(piece) for piece in speech.speak("three", whole)] == [5]


def test_kana_of_japanese_are_counted_however_it_is_written() -> None:
    front_end = FrontEnd()
    assert words_wrong("雨は。", "雨が", "ja", front_end) == ErrorRate(1, 3)
    assert words_wrong("子どものころ", "子供の頃。", "ja", front_end) == ErrorRate(0, 6)


def test_readers_are_read_as_files_and_as_librispeech_lays_them_out(tmp_path: Path) -> None:
    chapter = tmp_path / "61" / "70968"
    chapter.mkdir(parents=True)
    for number in range(2):
        tone = np.sin(np.arange(22_050) / (5 + number)).astype(np.float32)
        soundfile.write(chapter / f"61-70968-000{number}.flac", tone, 22_050)
    (chapter / "61-70968.trans.txt").write_text("61-70968-0001 HE BEGAN A CONFUSED COMPLAINT\n")
    shutil.copy(SHIPPED / "strangers" / "367.opus", tmp_path)
    found = english(tmp_path)
    assert [(one.name, one.text) for one in found] == [
        ("367", None),
        ("61-70968-0000", None),
        ("61-70968-0001", "HE BEGAN A CONFUSED COMPLAINT"),
    ]
    assert {one.group for one in found} == {READERS}
    assert len(found[1].wave) == RATE
