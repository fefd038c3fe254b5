"""Speaks a text in a character's voice and leaves the result in a file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console

from infra.local.cloud.starting import local_cloud
from infra.local.commands.batch import require_free
from infra.local.commands.visitor import Visitor, open_client

if TYPE_CHECKING:
    from pathlib import Path

    from infra.local.commands.visitor import TextWish
    from infra.local.configuration.options import CloudOptions


async def run_text(
    options: CloudOptions, wish: TextWish, *, overwrite: bool, embedded: bool | None, output: Path
) -> None:
    """Speak a text as wished and leave the result at `output`.

    Raises:
        RefusedError: the text cannot be spoken, or the file exists and must not be replaced.
    """
    if not overwrite:
        require_free(output)
    note = partial(Console().print, highlight=False, soft_wrap=True, markup=False)
    async with (
        local_cloud(options, embedded=embedded, note=note) as cloud,
        open_client() as client,
    ):
        visitor = Visitor(client, cloud.addresses.api, cloud.voices)
        created = await visitor.create_text(wish)
        voice = await visitor.watch(created["voice_id"], lambda _voice: None)
        await visitor.download(voice, output)
    if voice.result is not None:
        note(f"{voice.result.seconds:.2f} s of {voice.character}: {output}")
