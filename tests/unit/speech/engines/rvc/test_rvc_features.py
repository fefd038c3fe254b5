from __future__ import annotations

import numpy as np
import pytest

from speech.engines.rvc.features import (
    feature_count,
    frame_count,
    protect_unvoiced,
    to_frames,
)


@pytest.mark.parametrize(
    ("samples", "features", "frames"),
    [(0, 0, 0), (399, 0, 0), (400, 1, 2), (719, 1, 2), (720, 2, 4), (16_000, 49, 98)],
)
def test_features_are_counted_as_the_encoder_makes_them(
    samples: int, features: int, frames: int
) -> None:
    assert feature_count(samples) == features
    assert frame_count(samples) == frames


def test_each_feature_is_said_twice() -> None:
    features = np.array([[1, 2], [3, 4]], np.float32)

    assert to_frames(features, 4).tolist() == [[1, 2], [1, 2], [3, 4], [3, 4]]
    assert to_frames(features, 3).tolist() == [[1, 2], [1, 2], [3, 4]]


def test_unvoiced_frames_keep_only_a_share_of_what_was_retrieved() -> None:
    retrieved, heard = np.full((3, 2), 10, np.float32), np.zeros((3, 2), np.float32)
    hertz = np.array([0, 0.9, 100], np.float32)

    protected = protect_unvoiced(retrieved, heard, hertz, 0.25)

    assert protected.tolist() == [[2.5, 2.5], [2.5, 2.5], [10, 10]]
    assert protected.dtype == np.float32


def test_at_one_half_and_more_nothing_is_protected() -> None:
    retrieved, heard = np.ones((1, 2), np.float32), np.zeros((1, 2), np.float32)

    assert protect_unvoiced(retrieved, heard, np.zeros(1, np.float32), 0.5) is retrieved
