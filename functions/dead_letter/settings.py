"""The settings of dead_letter."""

from __future__ import annotations

from shared.runtime.settings import BucketName, PushSettings, TopicId


class DeadLetterSettings(PushSettings):
    results_bucket: BucketName
    conversions_topic: TopicId
