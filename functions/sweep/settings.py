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
    conversions_topic: TopicId
    # The time for which a voice may stay unchanged before its message counts as lost.
    patience_seconds: Annotated[int, Field(ge=30, le=3600)] = 300
    upload_url_seconds: Annotated[int, Field(ge=30, le=3600)] = 600  # the api's value
    # Of visitors' own characters; None where they cannot make any.
    own_recordings_bucket: BucketName | None = None
    trainer_url: WebAddress | None = None

    @model_validator(mode="after")
    def check_own_characters(self) -> Self:
        if self.own_recordings_bucket and None in (self.trainer_url, self.characters_bucket):
            raise ValueError(
                "OWN_RECORDINGS_BUCKET needs TRAINER_URL and CHARACTERS_BUCKET for the training of"
                " the recordings and its results"
            )
        return self
