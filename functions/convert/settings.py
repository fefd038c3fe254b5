"""The settings of the conversion container."""

from __future__ import annotations

from shared.conversion.settings import ConverterSettings
from shared.runtime.settings import PushSettings


class ConvertSettings(PushSettings, ConverterSettings): ...
