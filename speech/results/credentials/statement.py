"""The signed statement in a result; nothing of it is about the visitor."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from speech.results.marking import DIGITAL_SOURCE_TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from shared.characters.manifest import CharacterManifest
    from speech.results.marking import Marking

SOFTWARE: Final = "Voice Avatar"
SOFTWARE_VERSION: Final = "0.1.0"

CHARACTER_LABEL: Final = "org.voice-avatar.character"
"""The assertion about the character: its owner's licence, credit and what the owner forbids."""

SIGNED_MEDIA_TYPES: Final = frozenset({"audio/wav", "audio/mpeg", "audio/mp4"})
"""Ogg is missing: C2PA defines no place for a statement in it."""


def describe(
    manifest: CharacterManifest, marking: Marking, made_at: datetime, *, notice: str = "off"
) -> dict[str, Any]:
    """Return the statement about one result, as the C2PA library takes it.

    Args:
        manifest: of the character.
        marking: what the file's tags say.
        made_at: when it was made.
        notice: whether the result holds a spoken notice: off, before or after.
    """
    agent = {"name": SOFTWARE, "version": SOFTWARE_VERSION}
    created = {
        "action": "c2pa.created",
        "when": made_at.isoformat(timespec="seconds"),
        "softwareAgent": agent,
        "digitalSourceType": DIGITAL_SOURCE_TYPE,
    }
    return {
        "claim_generator_info": [agent],
        "title": marking.title,
        "assertions": [
            {"label": "c2pa.actions.v2", "data": {"actions": [created]}},
            {"label": CHARACTER_LABEL, "data": describe_character(manifest) | {"notice": notice}},
        ],
    }


def describe_character(manifest: CharacterManifest) -> dict[str, Any]:
    """Build the part of a statement that is about a character."""
    licence = {"name": manifest.licence.name, "spdx": manifest.licence.spdx}
    return {
        "id": manifest.id,
        "name": manifest.name.en,
        "credit": manifest.credit,
        "licence": licence | ({"url": manifest.licence.url} if manifest.licence.url else {}),
        "terms_url": manifest.terms_url or "",
        "forbidden_uses": list(forbidden_uses(manifest)),
        # The text names the owner, who need not be known to everybody that hears a result.
        "consent_sha256": hashlib.sha256(manifest.consent.encode()).hexdigest(),
    }


def forbidden_uses(manifest: CharacterManifest) -> tuple[str, ...]:
    """List the uses that the owner forbids: commercial, redistribution, adult, politics."""
    if manifest.uses is None:
        return ()
    said: Mapping[str, Any] = manifest.uses.model_dump()
    return tuple(use for use, is_allowed in said.items() if is_allowed is False)
