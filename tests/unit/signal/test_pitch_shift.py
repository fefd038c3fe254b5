import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shared.characters.manifest import Pitch
from shared.speech.signal import pitch
from shared.speech.signal.pitch import F0Track
from shared.speech.signal.pitch_shift import change_pitch, plan_pitch
from shared.speech.signal.samples import resample
from tests.unit.signal import signals

MEI = Pitch(policy="auto", median_hz=340.0, log_std=0.19, low_hz=180.0, high_hz=620.0)


def tracked(hertz: NDArray[np.float64]) -> F0Track:
    return F0Track(hertz.astype(np.float32), (hertz > 0).astype(np.float32))


def contour(median: float, spread: float = 0.15, frames: int = 300) -> NDArray[np.float64]:
    at = np.arange(frames)
    wave = np.sin(at / 23.0) + 0.4 * np.sin(at / 7.0)
    hertz: NDArray[np.float64] = median * np.exp(spread * (wave - np.median(wave)))
    return hertz


@pytest.mark.parametrize(("median", "spread"), [(80.0, 0.3), (220.0, 0.15), (450.0, 0.03)])
def test_auto_moves_any_speakers_median_to_the_characters_and_keeps_the_contours_shape(
    median: float, spread: float
) -> None:
    hertz = contour(median, spread)
    planned = plan_pitch(tracked(hertz), MEI, None)
    assert np.median(planned) == pytest.approx(MEI.median_hz, rel=0.02)
    assert np.corrcoef(np.log(planned), np.log(hertz))[0, 1] > 0.97


def test_octave_errors_of_a_tenth_of_the_frames_do_not_move_the_voice() -> None:
    hertz = contour(120.0)
    planned = plan_pitch(tracked(hertz), MEI, None)
    hertz[::10] *= 2.3
    disturbed = plan_pitch(tracked(hertz), MEI, None)
    assert np.median(np.abs(np.log2(disturbed / planned))) < 0.7 / 12


@pytest.mark.parametrize("semitones", [-5.0, 3.0, 12.0])
def test_semitones_move_the_speakers_own_contour(semitones: float) -> None:
    hertz = contour(260.0, 0.05)
    planned = plan_pitch(tracked(hertz), MEI, semitones)
    moved = 12 * np.log2(planned[2:-2] / hertz[2:-2])
    wanted = np.clip(semitones, *(12 * np.log2(np.array([195.0, 560.0]) / 260.0)))
    assert np.median(moved) == pytest.approx(wanted, abs=0.7)


def test_the_characters_policy_in_semitones_holds_unless_the_conversion_asks_otherwise() -> None:
    pitch = Pitch(policy=4.0, median_hz=340.0, log_std=0.19, low_hz=100.0, high_hz=700.0)
    hertz = np.full(200, 200.0)
    assert np.median(plan_pitch(tracked(hertz), pitch, None)) == pytest.approx(252.0, rel=0.01)
    assert np.median(plan_pitch(tracked(hertz), pitch, 2.0)) == pytest.approx(224.5, rel=0.01)


@pytest.mark.parametrize("voiced", [0, 1, 4])
def test_a_whisper_is_spoken_at_the_characters_median(voiced: int) -> None:
    hertz = np.zeros(150)
    hertz[70 : 70 + voiced] = 97.0
    assert (plan_pitch(tracked(hertz), MEI, None) == MEI.median_hz).all()


def test_unvoiced_frames_lie_between_their_neighbours() -> None:
    hertz = contour(120.0)
    for unvoiced in (slice(100, 120), slice(30), slice(-30, None)):
        hertz[unvoiced] = 0
    planned = plan_pitch(tracked(hertz), MEI, None)
    low, high = sorted((planned[98], planned[121]))
    assert (planned[101:119] >= low * 0.99).all()
    assert (planned[101:119] <= high * 1.01).all()
    assert np.ptp(planned[:29]) == pytest.approx(0, abs=1e-3)
    assert np.ptp(planned[-29:]) == pytest.approx(0, abs=1e-3)


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(55, 650)), min_size=1, max_size=80),
    st.one_of(st.none(), st.floats(-24, 24)),
)
@example([80.0] * 20 + [400.0] * 20, None)
def test_the_character_stays_within_its_range_for_any_tracked_pitch(
    hertz: list[float], semitones: float | None
) -> None:
    planned = plan_pitch(tracked(np.array(hertz)), MEI, semitones)
    assert len(planned) == len(hertz)
    assert planned.dtype == np.float32
    assert (planned >= MEI.low_hz * 0.999).all()
    assert (planned <= MEI.high_hz * 1.001).all()


RATE = 24_000


def speech() -> NDArray[np.float32]:
    """Make a voice that glides from 180 to 260 Hz, at 24 kHz."""
    return resample(signals.voice(signals.glide(180, 260, 1.5)), pitch.SAMPLE_RATE, RATE)


def octaves(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    hertz = pitch.track(resample(samples, RATE, pitch.SAMPLE_RATE)).hertz[20:-20]
    assert (hertz > 0).mean() > 0.9
    voiced: NDArray[np.float32] = np.log2(hertz[hertz > 0])
    return voiced


@pytest.mark.parametrize("semitones", [-7.0, 2.0])
def test_speech_is_as_many_semitones_higher(semitones: float) -> None:
    changed = change_pitch(speech(), RATE, semitones, 1.0)

    difference = np.median(octaves(changed)) - np.median(octaves(speech()))
    assert difference * 12 == pytest.approx(semitones, abs=0.3)
    assert len(changed) == len(speech())


@pytest.mark.parametrize("intonation", [0.0, 2.0])
def test_the_pitch_moves_by_the_requested_amount(intonation: float) -> None:
    changed, usual = (
        np.ptp(np.quantile(octaves(change_pitch(speech(), RATE, 0.0, value)), [0.1, 0.9]))
        for value in (intonation, 1.0)
    )

    assert changed == pytest.approx(intonation * usual, abs=0.03)


@pytest.mark.parametrize("length", [0, 1, 24_000])
def test_silence_and_speech_without_options_are_unchanged(length: int) -> None:
    silence = np.zeros(length, np.float32)

    np.testing.assert_array_equal(change_pitch(silence, RATE, 3.0, 1.5), silence)
    assert change_pitch(samples := speech(), RATE, 0.0, 1.0) is samples
