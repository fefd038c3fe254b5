"""compat: the APIs that other clients speak: `python -m functions.compat`.

It needs nothing of Google Cloud: characters come from a folder, and several processes serve behind
one port. `live_and_compat` serves the same routes beside the WebSocket of `live`.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from functions.compat.character_watch import CharacterWatch, load_bundle
from functions.compat.composition import SpeechResources, build
from functions.compat.service.shared_files import LockedJsonFile
from functions.compat.settings import CompatSettings
from functions.compat.voicevox.user_data import UserData
from shared.container.admission import Admission
from shared.container.server import Work, require_supervision, run_container, serve_until_signal
from shared.conversion.characters import build_characters, return_memory
from shared.speech.decoding.decoder import Decoder
from shared.speech.engines.text_interface import SpeechOptions
from shared.speech.graphs.sessions import MappedWeights, SessionSettings
from shared.speech.results.watermark_engines import open_marker
from shared.speech.text.languages import ENGLISH, JAPANESE

if TYPE_CHECKING:
    from hypercorn.typing import ASGIFramework

    from shared.container.admission import Slots
    from shared.container.supervision import Supervision
    from shared.conversion.characters import LoadedCharacter
    from shared.speech.results.watermark_engines import Marker

_REHEARSALS: Final = {JAPANESE: "はい。", ENGLISH: "Yes."}
# The further texts that are spoken beside one client that has all places; see FairQueue.
_SPARE: Final = 1


def open_admission(config: CompatSettings) -> Admission:
    slots: Slots | None = None
    if config.slots_dir is not None:
        # Windows has no such locks; it runs one process.
        from shared.container.shared_slots import SharedSlots  # noqa: PLC0415

        slots = SharedSlots(config.slots_dir, config.concurrency, _SPARE)
    return Admission(running=config.concurrency, waiting=config.backlog, spare=_SPARE, slots=slots)


def load(
    config: CompatSettings, session: SessionSettings, marker: Marker | None
) -> dict[str, LoadedCharacter]:
    """Load the characters, and let each say a word in Japanese and English."""
    characters = build_characters(config.characters_dir, session, config.max_bundle_bytes, marker)
    for character in characters.values():
        if character.text_engine is not None:
            for language in _REHEARSALS.keys() & set(character.text_engine.languages):
                list(character.text_engine.speak(_REHEARSALS[language], SpeechOptions()))
    return_memory()
    return characters


async def serve(config: CompatSettings, supervision: Supervision | None = None) -> None:
    user_data = await asyncio.to_thread(UserData.open, config.data_dir)
    weights = None if config.weights_dir is None else MappedWeights(config.weights_dir)
    session = SessionSettings(
        config.threads,
        config.provider,
        front_end=user_data.front_end(),
        weights=weights,
        kokoro=config.kokoro_packages,
    )
    marker = open_marker(config)
    watch = CharacterWatch(
        config.characters_dir,
        partial(load_bundle, session=session, max_bytes=config.max_bundle_bytes, marker=marker),
    )
    # Started before there are threads: decoding processes are copies of one that it starts.
    async with Decoder(max_processes=config.share(config.concurrency)) as decoder:
        characters = await asyncio.to_thread(load, config, session, marker)
        admission = open_admission(config)
        # Several processes always have a folder that they share.
        usage = None if config.data_dir is None else LockedJsonFile(config.data_dir / "usage.json")
        resources = SpeechResources(
            characters, user_data, decoder, admission, config.characters_dir, usage
        )
        compat = build(config, resources, config.allowed_hosts)
        async with AsyncExitStack() as stack:
            if config.wyoming_port is not None:
                wyoming = compat.wyoming.listen(config.wyoming_host, config.wyoming_port)
                await stack.enter_async_context(wyoming)
            stack.callback(asyncio.create_task(watch.follow(compat.offered)).cancel)
            app = cast("ASGIFramework", compat.app)
            work = Work(retire=compat.retire, seconds=lambda: admission.worked_seconds)
            await serve_until_signal(app, config, work, supervision)


def run(config: CompatSettings) -> None:
    if config.is_alone:
        asyncio.run(serve(config))
        return
    require_supervision()
    # Imported here, because Gunicorn is only needed for several processes.
    from functions.compat.service.shared_files import run_folder  # noqa: PLC0415 - likewise, with its locks
    from shared.container import supervision  # noqa: PLC0415

    with run_folder() as folder:
        shared = {
            "weights_dir": config.weights_dir or folder / "weights",
            "slots_dir": config.slots_dir or folder / "slots",
            "data_dir": config.data_dir or folder / "data",
        }
        for each in shared.values():
            each.mkdir(parents=True, exist_ok=True)
        supervision.run(config.model_copy(update=shared), serve)


def main() -> None:
    run_container(CompatSettings, run)
