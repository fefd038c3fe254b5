"""The settings of the conversion container."""

from __future__ import annotations

from conversion.settings import ConverterSettings
from shared.process.settings import PushSettings


class ConvertSettings(PushSettings, ConverterSettings):
    """Settings of the conversion container."""
