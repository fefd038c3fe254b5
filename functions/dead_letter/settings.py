"""What dead_letter needs to know."""

from __future__ import annotations

from shared.settings import PushSettings


class DeadLetterSettings(PushSettings):
    """Settings of dead_letter: nothing beyond what every push endpoint needs."""
