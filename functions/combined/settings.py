"""The settings of `live` with the APIs of other clients beside it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from functions.compat.settings import Key  # noqa: TC001 - pydantic reads it
from functions.live.settings import LiveSettings
from shared.process.settings import CommaSeparated, SecretKeys  # noqa: TC001 - likewise


class Switch(StrEnum):
    """Whether something holds."""

    ON = "on"
    OFF = "off"


class CombinedSettings(LiveSettings):
    """Settings of `live` and of the APIs of other clients.

    Attributes:
        voicevox_alone: whether no other instance serves clients of VOICEVOX, so that this one keeps
            their presets and words; otherwise requests that change them answer 501.
        voicevox_key: the key that their requests must carry; None if everybody may call them.
        api_keys: further keys, each NAME=KEY with 32 characters or more, separated by commas; what
            each has is counted.
        key_characters_per_day: how many characters each key may have spoken in a day, in this
            instance; None for no limit.
        key_seconds_per_day: how many seconds of recordings each key may have converted, likewise.
        openai_voices: by which further names clients of OpenAI may ask for a character, each
            NAME=CHARACTER, separated by commas.
        voicevox_speakers: by which further numbers clients of VOICEVOX may ask for a character,
            each NUMBER=CHARACTER, separated by commas.
        wyoming_port: where clients of Wyoming on this machine find the voices; None for nowhere.
            Cloud Run hands no such connections on.
        follow_characters: whether these APIs offer bundles that come into the folder of characters
            while the service runs; an image's folder never changes.
    """

    voicevox_alone: Switch = Switch.OFF
    voicevox_key: Key | None = None
    api_keys: SecretKeys = ()
    key_characters_per_day: Annotated[int, Field(ge=1)] | None = None
    key_seconds_per_day: Annotated[float, Field(gt=0)] | None = None
    voicevox_speakers: CommaSeparated = ()
    openai_voices: CommaSeparated = ()
    wyoming_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    follow_characters: Switch = Switch.OFF
