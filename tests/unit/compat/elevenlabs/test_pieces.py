from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from functions.compat.elevenlabs.pieces import convert_in_pieces
from speech.engines.interface.engine import ConversionOptions
from tests.support.characters import a_manifest
from tests.support.speakers import RATE, Mirror

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared.characters.manifest import CharacterManifest


def a_voice(seconds: float, hertz: float = 110.0) -> NDArray[np.float32]:
    """Pulses like a voice's, in words of 0.7 s with pauses of 0.3 s."""
    time = np.arange(round(seconds * RATE)) / RATE
    saw = 2 * (time * hertz % 1.0) - 1
    words = np.clip(20 * (np.sin(2 * np.pi * time) + 0.6), 0.0, 1.0)
    return (0.2 * saw * words).astype(np.float32)


def test_a_short_recording_is_converted_in_one_piece_by_the_characters_own_policy() -> None:
    engine, voice = Mirror(), a_voice(9.9)

    pieces = list(convert_in_pieces(engine, a_manifest(), voice, RATE, ConversionOptions(seed=3)))

    assert len(pieces) == 1
    assert engine.asked == [ConversionOptions(None, 3)]


@pytest.mark.parametrize("seconds", [10.01, 33.333, 70.0])
def test_a_long_recording_comes_back_without_seams(seconds: float) -> None:
    engine, voice = Mirror(), a_voice(seconds)

    pieces = list(convert_in_pieces(engine, a_manifest(), voice, RATE, ConversionOptions()))

    assert len(pieces) > 1
    assert max(map(len, pieces)) <= 8.1 * RATE
    joined = np.concatenate(pieces)
    assert len(joined) == len(voice)
    np.testing.assert_allclose(joined, voice, atol=1e-6)


def test_all_pieces_are_moved_by_the_same_semitones() -> None:
    engine = Mirror()

    list(convert_in_pieces(engine, a_manifest(), a_voice(40), RATE, ConversionOptions()))

    shifts = {options.pitch_shift for options in engine.asked}
    assert len(shifts) == 1
    (shift,) = shifts
    assert shift == pytest.approx(12.0, abs=0.2)  # from 110 Hz to the character's 220 Hz


def test_semitones_that_are_asked_for_stay_and_silence_needs_none() -> None:
    engine, silence = Mirror(), np.zeros(12 * RATE, np.float32)

    list(convert_in_pieces(engine, a_manifest(), a_voice(12), RATE, ConversionOptions(-2.0)))
    list(convert_in_pieces(engine, a_manifest(), silence, RATE, ConversionOptions()))
    list(convert_in_pieces(engine, moved_by(3.0), a_voice(12), RATE, ConversionOptions()))

    assert {options.pitch_shift for options in engine.asked} == {-2.0, None}


def moved_by(semitones: float) -> CharacterManifest:
    """A character that always moves the pitch by as much."""
    manifest = a_manifest()
    assert manifest.pitch is not None
    pitch = manifest.pitch.model_copy(update={"policy": semitones})
    return manifest.model_copy(update={"pitch": pitch})


def test_the_seed_reaches_every_piece() -> None:
    engine = Mirror()

    list(convert_in_pieces(engine, a_manifest(), a_voice(20), RATE, ConversionOptions(seed=9)))

    assert {options.seed for options in engine.asked} == {9}
    assert replace(engine.asked[0], seed=0).pitch_shift == engine.asked[0].pitch_shift
