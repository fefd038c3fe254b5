"""`live` and the APIs of other clients in one process, which share characters and places.

`live` and `compat` know nothing of each other; this composition root alone knows both.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from functions.compat.character_watch import CharacterWatch, load_bundle
from functions.compat.composition import SpeechResources, build
from functions.compat.voicevox.user_data import UserData
from functions.live import main as live
from functions.live_and_compat.settings import LiveAndCompatSettings
from shared.container.server import run_container
from shared.conversion.composition import open_conversion_services, serve
from shared.conversion.start import start_tools
from shared.runtime.settings import Switch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.conversion.composition import ConversionServices, ConvertingApp


@asynccontextmanager
async def build_with_compat(
    config: LiveAndCompatSettings, services: ConversionServices, user_data: UserData
) -> AsyncIterator[ConvertingApp]:
    """Build `live` with the APIs of other clients beside it.

    Raises BundleError if no character takes text.
    """
    hosts = () if config.host == "127.0.0.1" else ("*",)
    admission, tools = live.open_admission(config), services.tools
    resources = SpeechResources(
        tools.characters, user_data, tools.decoder, admission, config.characters_dir
    )
    is_alone = config.voicevox_alone is Switch.ON
    compat = build(config, resources, hosts, is_alone=is_alone)
    async with AsyncExitStack() as stack:
        if config.follow_characters is Switch.ON:
            load = partial(
                load_bundle,
                session=tools.session,
                max_bytes=config.max_bundle_bytes,
                marker=tools.marker,
            )
            watch = CharacterWatch(config.characters_dir, load, tools.characters)
            stack.callback(asyncio.create_task(watch.follow(compat.offered)).cancel)
        if config.wyoming_port is not None:
            wyoming = compat.wyoming.listen("127.0.0.1", config.wyoming_port)
            await stack.enter_async_context(wyoming)
        yield live.build(config, services, admission, compat.app)


async def serve_both(config: LiveAndCompatSettings) -> None:
    user_data = UserData.open()
    async with (
        start_tools(config, user_data.front_end()) as tools,
        open_conversion_services(config, tools) as services,
        build_with_compat(config, services, user_data) as app,
    ):
        await serve(app, config, services.stores, finishes_when_interrupted=True)


def main() -> None:
    run_container(LiveAndCompatSettings, lambda config: asyncio.run(serve_both(config)))
