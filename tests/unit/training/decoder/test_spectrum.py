"""A voice gets the long-term spectrum back that its conversions lack."""

import numpy as np
import pytest
import scipy.signal
import soxr
import torch
from numpy.typing import NDArray

from tools.training.decoder.network import OUTPUT_RATE, Network, warped_axis
from tools.training.decoder.spectrum import give_back, lacking

Floats = NDArray[np.float32]


@pytest.fixture
def recording() -> Floats:
    """Four seconds of noise in bursts, with pauses of hiss between them."""
    random = np.random.default_rng(1)
    noise = scipy.signal.lfilter([1], [1, -0.6], random.standard_normal(4 * OUTPUT_RATE))
    bursts = np.where(np.arange(len(noise)) // (OUTPUT_RATE // 2) % 2, 1.0, 0.001)
    return np.asarray(0.1 * noise * bursts, np.float32)


def without_highs(wave: Floats) -> Floats:
    """6 dB less above 4 kHz."""
    low = scipy.signal.firwin(101, 4_000, fs=OUTPUT_RATE)
    smooth = scipy.signal.filtfilt(low, [1.0], wave)
    return np.asarray(smooth + 0.5 * (wave - smooth), np.float32)


def spoken_more(network: Network, hertz: float) -> float:
    """By how many dB the envelopes are louder than those of a network that nothing was added to."""
    order = np.arange(len(network.cepstrum_mean))
    axis = np.cos(order * warped_axis(np.array([hertz])))
    return float(axis @ network.cepstrum_mean.numpy() * 20 / np.log(10))


def test_highs_that_conversions_lack_are_given_back(recording: Floats) -> None:
    network = Network()
    give_back(network, lacking([recording], [without_highs(recording)]))
    for hertz in (6_000, 8_000, 10_000):
        assert spoken_more(network, hertz) == pytest.approx(6, abs=1.5), hertz
    for hertz in (200, 500, 1_000, 2_000):
        assert spoken_more(network, hertz) == pytest.approx(0, abs=1), hertz
    assert network.cepstrum_mean[0] == 0  # loudness stays


def test_a_conversion_that_is_only_quieter_lacks_nothing(recording: Floats) -> None:
    network = Network()
    before = network.cepstrum_mean.clone()
    give_back(network, lacking([recording], [0.1 * recording]))
    torch.testing.assert_close(network.cepstrum_mean, before, atol=1e-3, rtol=0)


def test_what_a_conversion_says_in_pauses_does_not_count(recording: Floats) -> None:
    pauses = np.abs(recording) < 1e-3
    random = np.random.default_rng(2)
    hissing = recording + np.where(pauses, 0.002, 0) * random.standard_normal(len(recording))
    assert np.abs(lacking([recording], [hissing.astype(np.float32)])).max() < 0.1


def test_recordings_of_a_lower_rate_say_nothing_of_what_they_do_not_have(recording: Floats) -> None:
    at_16_khz = soxr.resample(recording, OUTPUT_RATE, 16_000)
    recorded = soxr.resample(at_16_khz, 16_000, OUTPUT_RATE)
    network = Network()
    give_back(network, lacking([recorded], [without_highs(recording)], rate=16_000))
    assert spoken_more(network, 6_000) == pytest.approx(6, abs=1.5)
    for hertz in (10_000, 11_500):
        assert abs(spoken_more(network, hertz)) < 3, hertz
