"""The settings of dead_letter."""

from __future__ import annotations

from shared.settings import BucketName, PushSettings


class DeadLetterSettings(PushSettings):
    """Settings of dead_letter.

    Attributes:
        results_bucket: the bucket of the converted audio.
    """

    results_bucket: BucketName
