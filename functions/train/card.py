"""Puts what an owner is shown of a new character into the bucket: figures and sounds to compare."""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING

from shared.own_characters.objects import CARD, card_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from shared.ports.bucket import Bucket


async def publish_card(
    bucket: Bucket, character_id: str, folder: Path, *, has_own_sounds: bool
) -> None:
    """Put the card into the bucket, in place of that of a training before.

    Args:
        bucket: of the characters.
        character_id: whose card it is.
        folder: where the training command has written it; without one there is no card.
        has_own_sounds: whether parts of the owner's recordings may be among it.
    """
    prefix = card_prefix(character_id)
    await bucket.delete_all(prefix)
    whose = ("own", "other") if has_own_sounds else ("other",)
    for name, content in await asyncio.to_thread(_read, folder, whose):
        kind = "application/json" if name == CARD else "audio/wav"
        await bucket.write(
            f"{prefix}{name}", io.BytesIO(content), content_type=kind, size=len(content)
        )


def _read(folder: Path, whose: Sequence[str]) -> Sequence[tuple[str, bytes]]:
    """Read the card and the sounds of these people; nothing if there is no card."""
    if not (folder / CARD).is_file():
        return []
    sounds = (file for each in whose for file in sorted(folder.glob(f"{each}-*.wav")))
    return [(file.name, file.read_bytes()) for file in (*sounds, folder / CARD)]
