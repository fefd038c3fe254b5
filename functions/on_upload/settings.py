"""The settings of on_upload."""

from __future__ import annotations

from shared.runtime.settings import PushSettings, TopicId


class OnUploadSettings(PushSettings):
    """Settings of on_upload.

    Attributes:
        conversions_topic: short id of the topic of the conversion messages.
    """

    conversions_topic: TopicId
