"""The settings of `live` with the APIs of other clients beside it."""

from __future__ import annotations

from functions.compat.settings import DialectSettings
from functions.live.settings import LiveSettings
from shared.runtime.settings import Switch


class LiveAndCompatSettings(LiveSettings, DialectSettings):
    """Settings of `live` and of the APIs of other clients.

    Cloud Run forwards no connections of Wyoming, so its port serves this machine alone.

    Attributes:
        voicevox_alone: on where no other instance serves clients of VOICEVOX, so that this one
            keeps their presets and words; otherwise requests that change them answer 501.
        follow_characters: on to offer bundles that come into the folder of characters while the
            service runs; an image's folder never changes.
    """

    voicevox_alone: Switch = Switch.OFF
    follow_characters: Switch = Switch.OFF
