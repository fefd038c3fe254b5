"""The settings of dead_letter."""

from __future__ import annotations

from shared.runtime.settings import BucketName, PushSettings, TopicId


class DeadLetterSettings(PushSettings):
    """Settings of dead_letter.

    Attributes:
        results_bucket: the bucket of the converted audio.
        conversions_topic: short id of the topic of the conversion messages.
    """

    results_bucket: BucketName
    conversions_topic: TopicId
