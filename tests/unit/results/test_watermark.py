"""The watermark: what it changes, and what finds it again."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soxr

from shared.speech.results.watermark import (
    PERIOD,
    Watermark,
    WatermarkKey,
    band_edges,
    band_shapes,
    code_words,
    fade,
)
from shared.speech.results.watermark_detection import (
    MOST_CHANCE,
    WatermarkFinding,
    find_watermark,
)
from tests.unit.results.stranger_speech import RATE, read_aloud

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.speech.signal.sound import Samples

KEY = WatermarkKey(b"the key of this test, only of it")
PAYLOAD = 0xBEEF
WATERMARK = Watermark(KEY, PAYLOAD, RATE)


def found_in(samples: Samples, rate: int = RATE, key: WatermarkKey = KEY) -> int | None:
    finding = find_watermark(samples, rate, [key])
    return finding.payload if finding is not None and finding.is_found else None


@pytest.fixture(scope="module")
def plain() -> Samples:
    return read_aloud(4.0)


@pytest.fixture(scope="module")
def marked(plain: Samples) -> Samples:
    return WATERMARK.mark(plain, seed=7)


def test_any_two_code_words_differ_in_24_places() -> None:
    # The code is linear: what holds for the word of 0 holds for every word.
    words = code_words()
    differing = (words[1:] != words[0]).sum(axis=1)

    assert differing.min() == 24
    np.testing.assert_array_equal(words[3] * words[0], words[1] * words[2])


def test_the_same_seed_marks_alike_and_another_one_otherwise(
    plain: Samples, marked: Samples
) -> None:
    np.testing.assert_array_equal(WATERMARK.mark(plain, seed=7), marked)

    assert not np.array_equal(WATERMARK.mark(plain, seed=8), marked)


def test_a_sound_in_pieces_is_marked_as_the_whole_is(plain: Samples, marked: Samples) -> None:
    cuts = np.sort(np.random.default_rng(0).integers(0, len(plain), 40))
    pieces = [plain[a:b] for a, b in pairwise([0, *cuts, len(plain)])]

    stream = WATERMARK.open(seed=7)

    together = np.concatenate([*map(stream.push, pieces), stream.end_with(np.zeros(0, np.float32))])

    np.testing.assert_array_equal(together, marked)


def test_a_sound_keeps_its_length_silence_stays_silent_and_full_scale_is_not_exceeded() -> None:
    for count in (0, 1, 959, 960, 961):
        assert WATERMARK.mark(np.full(count, 0.25, np.float32), seed=1).shape == (count,)
    assert not WATERMARK.mark(np.zeros(RATE, np.float32), seed=1).any()

    loud = np.sign(read_aloud(1.0)).astype(np.float32)
    assert np.abs(WATERMARK.mark(loud, seed=1)).max() <= 1.0


def test_what_is_added_lies_far_below_the_speech(plain: Samples, marked: Samples) -> None:
    ratio = np.square(plain).sum() / np.square(marked - plain).sum()

    assert 10 * np.log10(ratio) > 17


@pytest.mark.parametrize("rate", [16_000, 22_050, 48_000])
def test_it_is_found_at_every_sample_rate(plain: Samples, rate: int) -> None:
    samples = soxr.resample(plain, RATE, rate)
    assert found_in(Watermark(KEY, PAYLOAD, rate).mark(samples, seed=3), rate) == PAYLOAD


def noisy(samples: Samples) -> Samples:
    noise = np.random.default_rng(0).standard_normal(len(samples)).astype(np.float32)
    return np.asarray(samples + noise * np.sqrt(np.square(samples).mean() / 100), np.float32)


DAMAGES: dict[str, Callable[[Samples], Samples]] = {
    "softer": lambda samples: samples * np.float32(0.1),
    "cut": lambda samples: samples[round(0.613 * RATE) :],
    "2 % faster": lambda samples: soxr.resample(samples, RATE, RATE / 1.02),
    "as on a telephone": lambda samples: soxr.resample(
        soxr.resample(samples, RATE, 16_000), 16_000, RATE
    ),
    "with 20 dB of noise": noisy,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_it_survives(marked: Samples, damage: Callable[[Samples], Samples]) -> None:
    assert found_in(damage(marked)) == PAYLOAD


def test_what_was_marked_before_the_depth_followed_the_level_is_found(plain: Samples) -> None:
    # As the first version marked: one depth in each band, however loud the sound is.
    size = RATE // 25
    depths = np.interp(band_edges()[:-1] + 150, (1200, 1800, 2400), (1.0, 3.0, 4.5))
    gains = (10 ** (KEY.pattern(PAYLOAD) * depths / 20) - 1) @ band_shapes(size, RATE)
    chips = plain[: len(plain) // size * size].reshape(-1, size)
    numbers = (KEY.first_chip(7) + np.arange(len(chips))) % PERIOD
    added = np.fft.irfft(np.fft.rfft(chips) * gains[numbers], size) * fade(size)

    assert found_in((chips + added).astype(np.float32).ravel()) == PAYLOAD


def test_soft_parts_are_changed_less_than_loud_ones() -> None:
    noise = np.random.default_rng(0).standard_normal(RATE).astype(np.float32) * 0.1
    soft = np.concatenate([noise, noise * np.float32(1e-3)])

    added = WATERMARK.mark(soft, seed=7) - soft
    ratios = [
        np.square(a).sum() / np.square(b).sum()
        for a, b in ((added[:RATE], soft[:RATE]), (added[RATE:], soft[RATE:]))
    ]

    assert ratios[1] < 0.3 * ratios[0]


def test_another_speed_has_to_agree_better_to_be_found() -> None:
    agreement = 7.2

    assert WatermarkFinding(1, agreement, 1.0).is_found
    assert not WatermarkFinding(1, agreement, 1.02).is_found
    usual = WatermarkFinding(1, agreement, 1.0).chance
    assert WatermarkFinding(1, agreement, 1.02).chance == 20 * usual
    assert WatermarkFinding(1, 7.0, 1.0).chance == pytest.approx(MOST_CHANCE, rel=0.2)


def test_it_is_not_found_where_there_is_none(plain: Samples, marked: Samples) -> None:
    assert found_in(plain) is None
    assert found_in(marked, key=WatermarkKey(b"the key of another deployment...")) is None
    for samples in (np.zeros(3 * RATE, np.float32), np.ones(RATE // 2, np.float32)):
        assert find_watermark(samples, RATE, [KEY]) is None, "silent, or too short"


def test_a_payload_has_16_bits_and_a_key_16_bytes() -> None:
    with pytest.raises(ValueError, match="0 to 65535"):
        KEY.pattern(1 << 16)
    with pytest.raises(ValueError, match="16 bytes"):
        WatermarkKey(b"short")
    assert "test" not in repr(KEY)
