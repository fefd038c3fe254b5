"""Starting a local cloud: with Google's emulators where they are installed, else in memory."""

from __future__ import annotations

import os
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

from infra.local.cloud.local_cloud import EmulatorsMissingError, LocalCloud, find_or_reuse
from infra.local.processes.children import run_in_background, start_with_free_ports
from infra.local.processes.cloud_run import keep_alive, post_regularly

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from infra.local.cloud.local_cloud import StartServices
    from infra.local.configuration.options import CloudOptions

_MOST_STARTS: Final = 3


@asynccontextmanager
async def local_cloud(
    options: CloudOptions,
    *,
    embedded: bool | None = None,
    note: Callable[[str], None] = lambda _: None,
    progress: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[LocalCloud]:
    """Start a local cloud and stop it at the end.

    Args:
        embedded: True to run without Google's emulators, False to require them, None to use them
            where they are installed.
        note: takes what is worth knowing about this local cloud.
        progress: takes each step of the start.
    """
    start_services = _choose_services(options, embedded=embedded, note=note)

    async def start(stack: AsyncExitStack) -> LocalCloud:
        folder = tempfile.TemporaryDirectory(prefix="voice-avatar-")
        scratch = Path(stack.enter_context(folder))
        cloud = await start_services(options, scratch, stack, progress)
        if options.scaling is None:  # else the proxy in front of it probes its instances itself
            keeping = keep_alive(cloud.addresses.convert, options.liveness, cloud.restart_converter)
            await stack.enter_async_context(run_in_background(keeping))
        client = await stack.enter_async_context(httpx.AsyncClient())
        sweeping = post_regularly(client, cloud.addresses.sweep, options.sweep_period_seconds)
        await stack.enter_async_context(run_in_background(sweeping))
        return cloud

    # Another start would not change a port that the user chose.
    most_starts = _MOST_STARTS if options.api_port is None else 1
    async with AsyncExitStack() as stack:
        yield await start_with_free_ports(start, stack, most_starts)


def _choose_services(
    options: CloudOptions, *, embedded: bool | None, note: Callable[[str], None]
) -> StartServices:
    # Imported here: each kind of cloud needs packages that the other does not.
    if options.scaling is not None:
        # The embedded cloud runs every service in one process, which cannot scale to zero.
        embedded = False
    if not embedded:
        try:
            emulators = find_or_reuse(os.environ)
        except EmulatorsMissingError as error:
            if embedded is False:
                raise
            why = str(error)
            note(f"Firestore and Pub/Sub are kept in memory, because {why[:1].lower()}{why[1:]}.")
        else:
            from infra.local.cloud.emulated import start_emulated  # noqa: PLC0415

            return partial(start_emulated, emulators)
    from infra.local.cloud.embedded import start_embedded  # noqa: PLC0415

    return start_embedded
