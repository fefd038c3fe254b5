import numpy as np
import torch

from tools.training.decoder.network import OUTPUT_HOP, OUTPUT_RATE, HarmonicVoice

FRAMES = 40


def voice_inputs(hertz: float = 300.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    cepstrum = torch.zeros(1, FRAMES, 35)
    cepstrum[..., 0] = 8.0
    return cepstrum, torch.full((1, FRAMES), hertz), torch.randn(1, (FRAMES + 1) * OUTPUT_HOP)


def test_voiced_speech_repeats_at_its_fundamental_frequency() -> None:
    cepstrum, f0, noise = voice_inputs(300.0)
    samples = HarmonicVoice()(cepstrum, torch.ones(1, FRAMES), f0, noise * 0)[0].numpy()
    middle = samples[2400:7200]
    period = round(OUTPUT_RATE / 300)
    assert np.corrcoef(middle[:-period], middle[period:])[0, 1] > 0.95


def test_transforms_on_halves_are_fourier_transforms_about_the_centre() -> None:
    voice = HarmonicVoice()
    frame = torch.randn(1, 3, 2 * OUTPUT_HOP) * voice.window
    real, imaginary = voice._forward_transform(frame)
    padded = np.pad(frame.numpy(), ((0, 0), (0, 0), (0, 1024 - 2 * OUTPUT_HOP)))
    expected = np.fft.rfft(np.roll(padded, -OUTPUT_HOP, -1))
    np.testing.assert_allclose(real.numpy(), expected.real, atol=1e-4)
    np.testing.assert_allclose(imaginary.numpy(), expected.imag, atol=1e-4)
    again = voice._inverse_transform(real, imaginary)
    np.testing.assert_allclose(again[..., : 2 * OUTPUT_HOP].numpy(), frame.numpy(), atol=1e-4)
    assert float(again[..., 2 * OUTPUT_HOP :].abs().max()) < 1e-4
