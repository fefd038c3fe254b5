"""The signed statement in a result; nothing of it is about the visitor."""

from __future__ import annotations

import hashlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from speech.results.marking import DIGITAL_SOURCE_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from shared.characters.manifest import CharacterManifest
    from speech.results.marking import Marking

SOFTWARE: Final = "Voice Avatar"
SOFTWARE_VERSION: Final = "0.1.0"

CHARACTER_LABEL: Final = "org.voice-avatar.character"
"""The assertion about the character: its owner's licence, credit and what the owner forbids."""

_USES: Final = MappingProxyType(
    {
        "en": {
            "commercial": "commercial use",
            "redistribution": "passing the voice on",
            "adult": "adult content",
            "politics": "politics",
        },
        "ja": {
            "commercial": "商用利用",
            "redistribution": "声の再配布",
            "adult": "成人向けの内容",
            "politics": "政治的な利用",
        },
    }
)
"""What an owner may forbid, for people."""

SIGNED_MEDIA_TYPES: Final = frozenset({"audio/wav", "audio/mpeg", "audio/mp4"})
"""Ogg is missing: C2PA defines no place for a statement in it."""


def uses_for_people(uses: Iterable[str], language: str) -> list[str]:
    """Name uses that an owner forbids, in `en` or `ja`; those that nobody knows are left out."""
    names = _USES[language]
    return [names[use] for use in uses if use in names]


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
        "forbidden_uses": list(manifest.forbidden_uses),
        "forbidden_uses_text": {
            language: uses_for_people(manifest.forbidden_uses, language) for language in _USES
        },
        # The text names the owner, who need not be known to everybody that hears a result.
        "consent_sha256": hashlib.sha256(manifest.consent.encode()).hexdigest(),
    }
