"""Starting a local cloud: with Google's emulators where they are installed, else in memory."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from infra.local.cloud.local_cloud import EmulatorsMissingError, find_or_reuse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from infra.local.cloud.local_cloud import LocalCloud
    from infra.local.configuration.options import CloudOptions


@asynccontextmanager
async def local_cloud(
    options: CloudOptions, *, embedded: bool | None = None, note: Callable[[str], None]
) -> AsyncIterator[LocalCloud]:
    """Start a local cloud and stop it at the end.

    Args:
        embedded: True to run without Google's emulators, False to require them, None to use them
            where they are installed.

    Raises:
        EmulatorsMissingError: the emulators are missing, and `embedded` is False or the options
            need them.
        StartError: a service did not start.
    """
    # Imported here and below: each kind of cloud needs packages that the other does not.
    if options.scaling is not None:
        # The embedded cloud runs every service in one process, which cannot scale to zero.
        embedded = False
    if not embedded:
        try:
            emulators = find_or_reuse(os.environ)
        except EmulatorsMissingError as error:
            if embedded is False:
                raise
            note(f"Firestore and Pub/Sub are kept in memory, because {_lower_first(str(error))}.")
        else:
            from infra.local.cloud.emulated import emulated_cloud  # noqa: PLC0415

            async with emulated_cloud(options, emulators) as cloud:
                yield cloud
            return
    from infra.local.cloud.embedded import embedded_cloud  # noqa: PLC0415

    async with embedded_cloud(options) as cloud:
        yield cloud


def _lower_first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
