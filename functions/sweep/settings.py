"""The settings of sweep."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.process.settings import PushSettings, TopicId


class SweepSettings(PushSettings):
    """Settings of sweep, whose requests carry a token of Cloud Scheduler.

    Attributes:
        conversions_topic: short id of the topic of the conversion messages.
        patience_seconds: how long a voice may stay unchanged before its message counts as lost.
        upload_url_seconds: how long an upload address works; the api's value.
    """

    conversions_topic: TopicId
    patience_seconds: Annotated[int, Field(ge=30, le=3600)] = 300
    upload_url_seconds: Annotated[int, Field(ge=30, le=3600)] = 600
