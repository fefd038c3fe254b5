"""Which speech of a folder is used, and which folders are refused with which sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.signal

from shared.speech.signal.samples import resample
from tests.unit.training.conftest import RATE, Floats, write_speech
from tools.training.decoder.disturbance import hall
from tools.training.judges.measures import SpeakerEncoder
from tools.training.recordings import selection, usable_speech
from tools.training.recordings.report import selection_lines
from tools.training.recordings.selection import (
    OTHER_VOICE,
    SHIPPED,
    Selection,
    SelectionSteps,
    seconds_by_reason,
    select,
)
from tools.training.recordings.usable_speech import (
    CLIPPED,
    ECHO,
    MUSIC,
    NOISE,
    SILENCE,
    OwnerRecording,
    RecordingPiece,
    fast_fall,
    read_pieces,
    resounds,
    screen,
)
from tools.training.recordings.work_folder import RecordingsError


@pytest.fixture(autouse=True)
def _twenty_seconds_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "LEAST_SECONDS", 20.0)


Spoil = Callable[[Floats], Floats]


class OneVoice:
    """Hears the same voice in everything, for what does not depend on who speaks."""

    def embed(self, wave: Floats) -> Floats:
        del wave
        return np.eye(1, 256, dtype=np.float32)[0]


def chosen(folder: Path) -> Selection:
    return select(folder, OneVoice())


def refusal(folder: Path, code: str = "recordings_refused") -> str:
    with pytest.raises(RecordingsError) as refused:
        chosen(folder)
    sentence = str(refused.value)
    assert sentence.startswith(f"{folder}: expected")
    assert sentence.endswith(".")
    assert refused.value.code == code
    return sentence


def in_a_room(samples: Floats, seconds: float, louder_voice_db: float) -> Floats:
    return hall(samples, np.random.default_rng(7), seconds, -louder_voice_db)


def readers() -> list[Floats]:
    """What strangers have read at home, 9 s each, at 16 kHz."""
    files = sorted((SHIPPED / "strangers").iterdir())
    pieces = (next(read_pieces(OwnerRecording(file, file.name))) for file in files)
    return [resample(piece.samples, piece.rate, RATE) for piece in pieces]


def chords(seconds: float) -> Floats:
    """Four notes at a time, for a third of a second each."""
    random = np.random.default_rng(3)
    at = np.arange(RATE // 3) / RATE
    notes = 220 * 2 ** (random.integers(0, 25, (round(seconds * 3), 4)) / 12)
    order = np.arange(1, 7)[:, None, None, None]
    partials = np.sin(2 * np.pi * notes[..., None] * order * at) / order
    return np.asarray(0.1 * partials.sum((0, 2)).ravel(), np.float32)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"notes.txt": b"to do: record"}, "recordings (WAV, FLAC, MP3 or M4A), found none"),
        ({"a.wav": b"no recording at all", "b.mp3": bytes(5_000)}, "a.wav: it is no WAV"),
        (None, "expected a folder with recordings, found none"),
    ],
)
def test_a_folder_without_recordings_is_refused(
    tmp_path: Path, files: dict[str, bytes] | None, sentence: str
) -> None:
    for name, content in (files or {}).items():
        (tmp_path / name).write_bytes(content)
    assert sentence in refusal(tmp_path if files else tmp_path / "no")


@pytest.mark.parametrize(
    ("spoil", "rate", "sentence", "code"),
    [
        (lambda _: chords(24), RATE, "most of the rest is music", "recordings_refused"),
        (np.zeros_like, RATE, "most of the rest is silence", "recordings_refused"),
        (
            lambda wave: scipy.signal.resample_poly(wave, 1, 2).astype(np.float32),
            8_000,
            "telephone quality, nothing above 4 kHz",
            "recordings_refused",
        ),
        (lambda wave: in_a_room(wave, 1.2, 0), RATE, "the rest resounds", "echo"),
        (lambda wave: wave[: 18 * RATE], RATE, "found 0:1", "recordings_refused"),
    ],
)
def test_the_main_reason_against_recordings_is_told(
    tmp_path: Path, woman: Floats, *, spoil: Spoil, rate: int, sentence: str, code: str
) -> None:
    write_speech(tmp_path / "said.wav", spoil(woman[: 30 * RATE]), rate)
    assert sentence in refusal(tmp_path, code)


@pytest.mark.parametrize(
    ("hers", "his", "sentence"),
    [(30, 17, "voice of one person, found two"), (18, 7, "the rest is in other voices")],
)
def test_two_people_are_refused_and_a_guest_where_too_little_is_left(
    tmp_path: Path, woman: Floats, man: Floats, *, hers: int, his: int, sentence: str
) -> None:
    write_speech(tmp_path / "she.wav", woman[: hers * RATE])
    write_speech(tmp_path / "he.wav", man[: his * RATE])
    with pytest.raises(RecordingsError, match=sentence) as refused:
        select(tmp_path, SpeakerEncoder())
    assert (refused.value.code, refused.value.files) == ("another_voice", ["he.wav"])


def test_echo_is_told_of_one_recording_and_the_others_are_used(
    tmp_path: Path, woman: Floats
) -> None:
    write_speech(tmp_path / "room.wav", woman[: 30 * RATE])
    write_speech(tmp_path / "stairs.wav", in_a_room(woman[: 6 * RATE], 0.8, 0))
    selection = chosen(tmp_path)
    assert {part.file for part in selection.dropped if part.reason == ECHO} == {"stairs.wav"}
    assert {utterance.file for utterance in selection.utterances} == {"room.wav"}


def test_readers_at_home_have_no_echo_and_have_one_in_a_hall() -> None:
    dry = readers()
    assert not any(map(resounds, dry))
    assert not any(resounds(in_a_room(wave, 0.3, 3)) for wave in dry)
    assert all(resounds(in_a_room(wave, 0.8, 0)) for wave in dry)
    # A short word and silence tell nothing of the room.
    assert fast_fall(np.zeros(RATE, np.float32)) is None
    assert fast_fall(np.zeros(10, np.float32)) is None


def test_one_long_file_is_enough_and_clean_speech_is_used_almost_whole(
    tmp_path: Path, woman: Floats
) -> None:
    write_speech(tmp_path / "long.wav", woman[: 75 * RATE])
    selection = chosen(tmp_path)
    assert selection.seconds > 60
    assert seconds_by_reason(selection.dropped).total() < 0.1 * selection.seconds
    assert max(utterance.seconds for utterance in selection.utterances) <= 12
    # It is read in pieces, but times are those of the file.
    assert selection.utterances[-1].start == pytest.approx(70, abs=10)


def test_what_is_dropped_is_told_with_file_time_and_reason(
    tmp_path: Path, woman: Floats, man: Floats
) -> None:
    random = np.random.default_rng(1)
    pause = np.zeros(3 * RATE, np.float32)
    noisy = woman[: 10 * RATE] + 0.05 * random.standard_normal(10 * RATE).astype(np.float32)
    mixed = np.concatenate([woman[: 40 * RATE], pause, chords(10)])
    write_speech(tmp_path / "mixed.wav", mixed)
    write_speech(tmp_path / "noisy.wav", noisy)
    write_speech(tmp_path / "clipped.wav", np.clip(woman[: 10 * RATE] * 12, -0.9, 0.9))
    write_speech(tmp_path / "guest.wav", man[: 9 * RATE])
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    selection = select(tmp_path, SpeakerEncoder())
    found = {(part.file, part.reason) for part in selection.dropped if part.seconds > 1}
    assert found >= {
        ("mixed.wav", SILENCE),
        ("mixed.wav", MUSIC),
        ("noisy.wav", NOISE),
        ("clipped.wav", CLIPPED),
        ("guest.wav", OTHER_VOICE),
    }
    (silence,) = (p for p in selection.dropped if (p.file, p.reason) == ("mixed.wav", SILENCE))
    assert silence.start == pytest.approx(40, abs=0.5)
    assert silence.end == pytest.approx(43, abs=0.5)
    assert {utterance.file for utterance in selection.utterances} == {"mixed.wav"}
    assert list(selection.unreadable) == ["broken.wav"]
    lines = "\n".join(selection_lines(selection))
    assert "mixed.wav 0:4" in lines
    assert "not readable: broken.wav" in lines


class CountingEncoder(OneVoice):
    """Counts what it hears, and is interrupted once."""

    def __init__(self, interrupted_at: int = 0) -> None:
        self.heard = 0
        self._interrupted_at = interrupted_at

    def embed(self, wave: Floats) -> Floats:
        self.heard += 1
        if self.heard == self._interrupted_at:
            raise KeyboardInterrupt
        return super().embed(wave)


def test_of_long_recordings_a_sample_of_the_voice_is_heard_and_a_guest_still_found(
    tmp_path: Path, woman: Floats, man: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_speech(tmp_path / "she.wav", woman[: 60 * RATE])
    everything, sample = CountingEncoder(), CountingEncoder()
    select(tmp_path, everything)
    monkeypatch.setattr(selection, "SAMPLED_GROUPS", 3)
    select(tmp_path, sample)
    assert sample.heard <= 3 < everything.heard / 2
    write_speech(tmp_path / "he.wav", man[: 14 * RATE])
    found = select(tmp_path, SpeakerEncoder())
    assert {part.file for part in found.dropped if part.reason == "another voice"} == {"he.wav"}
    assert {each.file for each in found.utterances} == {"she.wav"}


def test_reading_shows_how_far_it_is_and_goes_on_where_it_was_interrupted(
    tmp_path: Path, woman: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_speech(tmp_path / "she.wav", woman[: 30 * RATE])
    screened: list[float] = []
    begun: list[str] = []
    kept: dict[str, Any] = {}
    shown: list[tuple[float, float]] = []

    def counted(piece: RecordingPiece) -> Any:
        screened.append(piece.start)
        return screen(piece)

    def keep(name: str, make: Callable[[], Any]) -> Any:
        if name not in kept:
            kept[name] = make()
        return kept[name]

    monkeypatch.setattr(usable_speech, "PIECE_SECONDS", 12)
    monkeypatch.setattr(selection, "screen", counted)
    steps = SelectionSteps(begun.append, lambda done, total, _: shown.append((done, total)), keep)
    voice = CountingEncoder(interrupted_at=5)
    with pytest.raises(KeyboardInterrupt):
        select(tmp_path, voice, steps)
    assert begun == ["reading", "comparing voices"]
    assert [done for done, total in shown if total == pytest.approx(30, abs=1)] == pytest.approx(
        [0, 12, 24, 30], abs=1
    )
    heard = voice.heard
    assert select(tmp_path, voice, steps).seconds > 20
    assert len(screened) == 3, "nothing is screened again"
    assert voice.heard - heard == sum(name.startswith("voice") for name in kept) - 4
