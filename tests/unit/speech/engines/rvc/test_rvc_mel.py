from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from speech.engines.rvc.pitch.mel import FCPE_MEL, RMVPE_MEL, MelKind, log_mel

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Of librosa 0.11 with the settings of each model, for frames 0, 12 and 25, bands 0, 50 and 127.
REFERENCE = {
    RMVPE_MEL: [
        [-0.135073, -5.994330, -6.566617],
        [-5.193728, -11.512925, -11.512925],
        [-0.944860, -5.392371, -7.010612],
    ],
    FCPE_MEL: [
        [-0.390186, -5.865221, -6.625653],
        [-6.200279, -11.512925, -11.512925],
        [-1.209215, -5.390138, -7.067540],
    ],
}


def wave(samples: int) -> NDArray[np.float32]:
    at = np.arange(samples)
    sound = np.sin(0.05 * at) + 0.1 * np.sin(0.9 * at + 0.0001 * at**2)
    quiet: NDArray[np.float32] = (0.3 * sound).astype(np.float32)
    return quiet


@pytest.mark.parametrize("kind", REFERENCE, ids=["rmvpe", "fcpe"])
def test_a_spectrogram_is_librosas(kind: MelKind) -> None:
    mel = log_mel(wave(4_000), kind)

    assert mel.shape == (26, 128)
    assert mel.dtype == np.float32
    assert mel[[0, 12, 25]][:, [0, 50, 127]] == pytest.approx(np.array(REFERENCE[kind]), abs=1e-4)


@pytest.mark.parametrize("kind", REFERENCE, ids=["rmvpe", "fcpe"])
@pytest.mark.parametrize("samples", [2, 159, 160, 1_000, 1_024])
def test_a_short_recording_has_its_frames(kind: MelKind, samples: int) -> None:
    mel = log_mel(wave(samples), kind)

    assert mel.shape == (samples // 160 + 1, 128)
    assert np.isfinite(mel).all()


def test_silence_is_the_logarithm_of_the_floor() -> None:
    assert log_mel(np.zeros(1_600, np.float32), RMVPE_MEL) == pytest.approx(np.log(1e-5))
