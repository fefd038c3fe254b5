"""The settings of sweep."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from shared.runtime.settings import (
    BucketName,
    CharacterSettings,
    PushSettings,
    TopicId,
    WebAddress,
)


class SweepSettings(PushSettings, CharacterSettings):
    """Settings of sweep, whose requests carry a token of Cloud Scheduler.

    Attributes:
        patience_seconds: how long a voice may stay unchanged before its message counts as lost.
        upload_url_seconds: how long an upload address works; the api's value.
        own_recordings_bucket: the bucket of the recordings for visitors' own characters; None
            where they cannot make any.
        trainer_url: the address that starts the trainer of these characters; needed with it.
    """

    conversions_topic: TopicId
    patience_seconds: Annotated[int, Field(ge=30, le=3600)] = 300
    upload_url_seconds: Annotated[int, Field(ge=30, le=3600)] = 600
    own_recordings_bucket: BucketName | None = None
    trainer_url: WebAddress | None = None

    @model_validator(mode="after")
    def _check_own_characters(self) -> Self:
        if self.own_recordings_bucket and None in (self.trainer_url, self.characters_bucket):
            raise ValueError(
                "OWN_RECORDINGS_BUCKET needs TRAINER_URL and CHARACTERS_BUCKET for the training of"
                " the recordings and its results"
            )
        return self
