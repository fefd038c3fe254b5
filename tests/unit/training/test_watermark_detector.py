"""What the watermark's detector learns from, and that it computes what was learned."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from shared.speech.results import watermark_detection  # noqa: E402 - after the check above
from shared.speech.results.watermark import BANDS  # noqa: E402
from tools.training.watermark_detector import CHIPS, Decider, MarkedSpeech, learn, make  # noqa: E402  # noqa: E402

RATE = 24_000


def test_the_detector_computes_what_was_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    decider = Decider()
    torch.nn.init.normal_(decider._bands)
    heard = np.random.default_rng(0).standard_normal((40, BANDS, 2)).astype(np.float32)
    monkeypatch.setattr(watermark_detection, "weights", decider.weights)

    decided = watermark_detection.decide(heard, np.arange(40).reshape(10, 4))

    with torch.no_grad():
        expected = decider(torch.from_numpy(heard[None]))[0].numpy()
    np.testing.assert_allclose(decided, expected, atol=1e-5)


def test_it_learns_to_agree_with_marks() -> None:
    random = np.random.default_rng(0)
    loudness = np.repeat(random.uniform(0.1, 1, 50), RATE // 10)
    wave = (loudness * random.standard_normal(5 * RATE)).astype(np.float32) * np.float32(0.1)
    lessons = make([MarkedSpeech(wave, RATE)], 48, random)
    agreed: list[float] = []

    learn(lessons, 8, lambda _, agreement: agreed.append(agreement))

    assert lessons.signs.shape == (48, CHIPS, BANDS)
    assert lessons.heard.shape == (48, 4 * CHIPS, BANDS, 2)
    assert abs(agreed[0]) < 5
    assert agreed[-1] > 10
