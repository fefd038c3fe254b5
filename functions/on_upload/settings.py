"""The settings of on_upload."""

from __future__ import annotations

from shared.runtime.settings import PushSettings, TopicId


class OnUploadSettings(PushSettings):
    conversions_topic: TopicId
