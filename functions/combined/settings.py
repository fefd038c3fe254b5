"""The settings of `live` with the APIs of other clients beside it."""

from __future__ import annotations

from enum import StrEnum

from functions.compat.settings import Key  # noqa: TC001 - pydantic reads it
from functions.live.settings import LiveSettings
from shared.process.settings import CommaSeparated  # noqa: TC001 - likewise


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
        openai_voices: by which further names clients of OpenAI may ask for a character, each
            NAME=CHARACTER, separated by commas.
        voicevox_speakers: by which further numbers clients of VOICEVOX may ask for a character,
            each NUMBER=CHARACTER, separated by commas.
    """

    voicevox_alone: Switch = Switch.OFF
    voicevox_key: Key | None = None
    voicevox_speakers: CommaSeparated = ()
    openai_voices: CommaSeparated = ()
