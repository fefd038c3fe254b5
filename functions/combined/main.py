"""combined: `live` and the APIs of other clients in one process.

They share the characters, and the places of what is converted at once. `live` and `compat` know
nothing of each other; this composition root alone knows both.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from functions.combined.settings import CombinedSettings, Switch
from functions.compat.composition import Doors, Room, compose, keys_of
from functions.compat.keys.access import Access
from functions.compat.keys.metering import KeyLimits, Meter
from functions.compat.voicevox.memory.kept import Kept
from functions.live import main as live
from shared.process import logs, settings
from speech.bundles.bundle import BundleError

if TYPE_CHECKING:
    from functions.live.app import LiveApp


def add_compat(config: CombinedSettings, services: live.Services, kept: Kept) -> live.Services:
    """Add the APIs of other clients to what `live` serves.

    Args:
        config: the settings.
        services: of `live`.
        kept: what clients of VOICEVOX leave.

    Raises:
        BundleError: no character takes text.
    """
    hosts = () if config.host == "127.0.0.1" else ("*",)
    admission = live.open_admission(config)
    doors = Doors(
        access=Access(keys_of(config.voicevox_key, config.api_keys), config.allowed_origins, hosts),
        max_seconds=config.max_speech_seconds,
        numbers=config.voicevox_speakers,
        names=config.openai_voices,
        is_alone=config.voicevox_alone is Switch.ON,
    )
    tools = services.tools
    meter = Meter(KeyLimits(config.key_characters_per_day, config.key_seconds_per_day))
    room = Room(tools.characters, kept, tools.decoder, admission, config.characters_dir, meter)
    return replace(services, admission=admission, others=compose(doors, room).app)


def build(config: CombinedSettings, services: live.Services, kept: Kept) -> LiveApp:
    """Build the application from its settings and its services; it can convert at once.

    Whoever serves it awaits `app.drain()` before it ends.

    Raises:
        BundleError: no character takes text.
    """
    return live.build(config, add_compat(config, services, kept))


async def _serve(config: CombinedSettings) -> None:
    kept = Kept.opened()
    async with live.starting_services(config, kept.front_end()) as services:
        await live.serve(config, add_compat(config, services, kept))


def main() -> None:
    """Run the service; exit with status 2 and a message if settings or bundles are wrong."""
    try:
        config = settings.load(CombinedSettings)
        logs.configure(config.project_id, config.log_level, config.pseudonym_key)
        asyncio.run(_serve(config))
    except (settings.SettingsError, BundleError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log before there are settings
        sys.exit(2)


if __name__ == "__main__":
    main()
