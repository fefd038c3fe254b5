"""combined: `live` and the routes of VOICEVOX in one process.

They share the characters, and the places of what is converted at once. `live` and VOICEVOX know
nothing of each other; this composition root alone knows both.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from functions.combined.settings import CombinedSettings, Switch
from functions.compat.voicevox.composition import Access, Kept, compose
from functions.live import main as live
from shared.process import logs, settings
from speech.bundles.bundle import BundleError

if TYPE_CHECKING:
    from functions.live.app import LiveApp


def add_voicevox(config: CombinedSettings, services: live.Services, kept: Kept) -> live.Services:
    """Add the routes of VOICEVOX to what `live` serves.

    Args:
        config: the settings.
        services: of `live`.
        kept: what clients of VOICEVOX leave.

    Raises:
        BundleError: no character takes text.
    """
    key = None if config.voicevox_key is None else config.voicevox_key.get_secret_value()
    names = () if config.host == "127.0.0.1" else ("*",)
    admission = live.open_admission(config)
    routes = compose(
        services.tools.characters,
        kept,
        config,
        Access(key, config.allowed_origins, names),
        admission,
        max_seconds=config.max_speech_seconds,
        numbers=config.voicevox_speakers,
        is_alone=config.voicevox_alone is Switch.ON,
    )
    return replace(services, admission=admission, others=routes)


def build(config: CombinedSettings, services: live.Services, kept: Kept) -> LiveApp:
    """Build the application from its settings and its services; it can convert at once.

    Whoever serves it awaits `app.drain()` before it ends.

    Raises:
        BundleError: no character takes text.
    """
    return live.build(config, add_voicevox(config, services, kept))


async def _serve(config: CombinedSettings) -> None:
    kept = Kept.opened()
    async with live.starting_services(config, kept.front_end()) as services:
        await live.serve(config, add_voicevox(config, services, kept))


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
