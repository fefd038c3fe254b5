"""Which speech of a folder is used, and which folders are refused with which sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import av
import numpy as np
import pytest
import scipy.signal
from numpy.typing import NDArray

from shared.speech.signal.samples import resample
from tools.training.judges.measures import SpeakerEncoder
from tools.training.recordings import selection
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
    persistence,
    read_pieces,
    resounds,
    screen,
)
from tools.training.recordings.work_folder import RecordingsError

if TYPE_CHECKING:
    from av.audio.stream import AudioStream

RATE = 16_000
Floats = NDArray[np.float32]
WriteWav = Callable[[Path, Floats, int], None]


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
    """Speech in an invented room: noise that falls by 60 dB in a time comes after each sound."""
    length = int(seconds * RATE)
    tail = np.random.default_rng(7).standard_normal(length) * 10 ** (
        -3 * np.arange(length) / length
    )
    tail[: RATE // 200] = 0
    tail *= 10 ** (-louder_voice_db / 20) / np.sqrt((tail**2).sum())
    tail[0] = 1
    return scipy.signal.fftconvolve(samples, tail)[: len(samples)].astype(np.float32)


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


def encode(path: Path, samples: Floats, rate: int, codec: str) -> None:
    """Write a compressed file as recorders and phones do."""
    with av.open(str(path), "w") as file:
        stream = cast("AudioStream", file.add_stream(codec, rate=rate, layout="mono"))
        frame = av.AudioFrame.from_ndarray(samples[None], "fltp", "mono")
        frame.sample_rate = rate
        resampler = av.AudioResampler(stream.format, "mono", rate, stream.frame_size or None)
        for part in (*resampler.resample(frame), *resampler.resample(None)):
            file.mux(stream.encode(part))
        file.mux(stream.encode(None))


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("to do: record")
    assert "expected recordings (WAV, FLAC, MP3 or M4A), found none" in refusal(tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert "expected a folder with recordings, found none" in refusal(tmp_path / "no")


def test_files_that_cannot_be_read_are_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_text("no recording at all")
    (tmp_path / "b.mp3").write_bytes(bytes(5_000))
    assert "a.wav: it is no WAV" in refusal(tmp_path)


def test_music_is_refused(tmp_path: Path, write_wav: WriteWav) -> None:
    write_wav(tmp_path / "song.wav", chords(130), RATE)
    assert "most of the rest is music" in refusal(tmp_path)


def test_ninety_seconds_are_too_little(tmp_path: Path, woman: Floats, write_wav: WriteWav) -> None:
    write_wav(tmp_path / "short.wav", woman[: 90 * RATE], RATE)
    assert "usable speech, found 1:2" in refusal(tmp_path)
    assert "record more" in refusal(tmp_path)


def test_a_telephone_is_refused(tmp_path: Path, woman: Floats, write_wav: WriteWav) -> None:
    narrow = scipy.signal.resample_poly(woman, 1, 2).astype(np.float32)
    write_wav(tmp_path / "call.wav", narrow, 8_000)
    assert "telephone quality, nothing above 4 kHz" in refusal(tmp_path)


def test_silence_is_refused(tmp_path: Path, write_wav: WriteWav) -> None:
    write_wav(tmp_path / "nothing.wav", np.zeros(130 * RATE, np.float32), RATE)
    assert "most of the rest is silence" in refusal(tmp_path)


def test_two_people_are_refused(
    tmp_path: Path, woman: Floats, man: Floats, write_wav: WriteWav
) -> None:
    write_wav(tmp_path / "she.wav", woman[: 80 * RATE], RATE)
    write_wav(tmp_path / "he.wav", man[: 50 * RATE], RATE)
    with pytest.raises(RecordingsError, match="voice of one person, found two") as refused:
        select(tmp_path, SpeakerEncoder())
    assert (refused.value.code, refused.value.files) == ("another_voice", ["he.wav"])


def test_a_guest_is_the_reason_where_too_little_is_left(
    tmp_path: Path, woman: Floats, man: Floats, write_wav: WriteWav
) -> None:
    write_wav(tmp_path / "she.wav", woman[: 116 * RATE], RATE)
    write_wav(tmp_path / "he.wav", man[: 14 * RATE], RATE)
    with pytest.raises(RecordingsError, match="the rest is in other voices") as refused:
        select(tmp_path, SpeakerEncoder())
    assert (refused.value.code, refused.value.files) == ("another_voice", ["he.wav"])


def test_a_room_that_resounds_is_refused(
    tmp_path: Path, woman: Floats, write_wav: WriteWav
) -> None:
    write_wav(tmp_path / "stairs.wav", in_a_room(woman, 1.2, 0), RATE)
    assert "the rest resounds" in refusal(tmp_path, "echo")


def test_echo_is_told_of_one_recording_and_the_others_are_used(
    tmp_path: Path, woman: Floats, write_wav: WriteWav
) -> None:
    write_wav(tmp_path / "room.wav", woman, RATE)
    write_wav(tmp_path / "stairs.wav", in_a_room(woman[: 6 * RATE], 0.8, 0), RATE)
    selection = chosen(tmp_path)
    assert {part.file for part in selection.dropped if part.reason == ECHO} == {"stairs.wav"}
    assert {utterance.file for utterance in selection.utterances} == {"room.wav"}


def test_readers_at_home_have_no_echo_and_have_one_in_a_hall() -> None:
    dry = readers()
    assert not any(map(resounds, dry))
    assert not any(resounds(in_a_room(wave, 0.3, 3)) for wave in dry)
    assert all(resounds(in_a_room(wave, 0.8, 0)) for wave in dry)


def test_a_short_word_and_silence_tell_nothing_of_the_room() -> None:
    assert fast_fall(np.zeros(RATE, np.float32)) is None
    assert fast_fall(np.zeros(10, np.float32)) is None


@pytest.mark.parametrize(
    ("name", "codec"), [("one.mp3", "libmp3lame"), ("one.m4a", "aac"), ("one.flac", "flac")]
)
def test_recordings_of_any_kind_keep_their_rate_and_length(
    tmp_path: Path, woman: Floats, name: str, codec: str
) -> None:
    at_44k = scipy.signal.resample_poly(woman[: 3 * RATE], 441, 160).astype(np.float32)
    encode(tmp_path / name, at_44k, 44_100, codec)
    (piece,) = read_pieces(OwnerRecording(tmp_path / name, name))
    assert piece.rate == 44_100
    assert len(piece.samples) / piece.rate == pytest.approx(3, abs=0.05)


def test_one_long_file_is_enough(tmp_path: Path, woman: Floats, write_wav: WriteWav) -> None:
    write_wav(tmp_path / "long.wav", np.concatenate([woman, woman]), RATE)
    selection = chosen(tmp_path)
    assert selection.seconds > 240
    assert max(utterance.seconds for utterance in selection.utterances) <= 12
    # It is read in pieces, but times are those of the file.
    assert selection.utterances[-1].start == pytest.approx(295, abs=10)


def test_what_is_dropped_is_told_with_file_time_and_reason(
    tmp_path: Path, woman: Floats, man: Floats, write_wav: WriteWav
) -> None:
    random = np.random.default_rng(1)
    pause = np.zeros(3 * RATE, np.float32)
    noisy = woman[: 10 * RATE] + 0.05 * random.standard_normal(10 * RATE).astype(np.float32)
    clipped = np.clip(woman[: 10 * RATE] * 12, -0.9, 0.9)
    write_wav(tmp_path / "mixed.wav", np.concatenate([woman, pause, chords(10)]), RATE)
    write_wav(tmp_path / "noisy.wav", noisy, RATE)
    write_wav(tmp_path / "clipped.wav", clipped, RATE)
    write_wav(tmp_path / "guest.wav", man[: 12 * RATE], RATE)
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
    assert silence.start == pytest.approx(150, abs=0.5)
    assert silence.end == pytest.approx(153, abs=0.5)
    assert {utterance.file for utterance in selection.utterances} == {"mixed.wav"}
    assert list(selection.unreadable) == ["broken.wav"]
    lines = "\n".join(selection_lines(selection))
    assert "mixed.wav 2:3" in lines
    assert "not readable: broken.wav" in lines


def test_clean_speech_is_used_almost_whole(
    tmp_path: Path, woman: Floats, write_wav: WriteWav
) -> None:
    write_wav(tmp_path / "she.wav", woman, RATE)
    selection = chosen(tmp_path)
    assert seconds_by_reason(selection.dropped).total() < 0.1 * selection.seconds


def test_speech_is_told_from_music(woman: Floats, man: Floats) -> None:
    assert max(persistence(voice[: 10 * RATE]) for voice in (woman, man)) < 0.28
    assert persistence(chords(10)) > 0.32


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
    tmp_path: Path, woman: Floats, man: Floats, write_wav: WriteWav, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wav(tmp_path / "she.wav", woman[: 130 * RATE], RATE)
    everything, sample = CountingEncoder(), CountingEncoder()
    select(tmp_path, everything)
    monkeypatch.setattr(selection, "SAMPLED_GROUPS", 5)
    select(tmp_path, sample)
    assert sample.heard <= 5 < everything.heard / 2
    write_wav(tmp_path / "he.wav", man[: 14 * RATE], RATE)
    found = select(tmp_path, SpeakerEncoder())
    assert {part.file for part in found.dropped if part.reason == "another voice"} == {"he.wav"}
    assert {each.file for each in found.utterances} == {"she.wav"}


def test_reading_shows_how_far_it_is_and_goes_on_where_it_was_interrupted(
    tmp_path: Path, woman: Floats, write_wav: WriteWav, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wav(tmp_path / "she.wav", woman[: 150 * RATE], RATE)
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

    monkeypatch.setattr(selection, "screen", counted)
    steps = SelectionSteps(begun.append, lambda done, total, _: shown.append((done, total)), keep)
    voice = CountingEncoder(interrupted_at=5)
    with pytest.raises(KeyboardInterrupt):
        select(tmp_path, voice, steps)
    assert begun == ["reading", "comparing voices"]
    assert [done for done, total in shown if total == pytest.approx(150, abs=1)] == pytest.approx(
        [0, 60, 120, 150], abs=1
    )
    heard = voice.heard
    assert select(tmp_path, voice, steps).seconds > 120
    assert len(screened) == 3, "nothing is screened again"
    assert voice.heard - heard == sum(name.startswith("voice") for name in kept) - 4
