"""The statement in a result that it is synthetic speech, for people and for programs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from shared.characters.manifest import CharacterManifest


# IPTC's term for media made by a trained network (NewsCodes, Digital Source Type).
DIGITAL_SOURCE_TYPE: Final = (
    "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
)

_XMP: Final = (
    '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'
    '<x:xmpmeta xmlns:x="adobe:ns:meta/">'
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description rdf:about=""'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/"'
    ' xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/">'
    "<Iptc4xmpExt:DigitalSourceType>{source_type}</Iptc4xmpExt:DigitalSourceType>"
    '<dc:title><rdf:Alt><rdf:li xml:lang="x-default">{title}</rdf:li></rdf:Alt></dc:title>'
    "<dc:creator><rdf:Seq><rdf:li>{artist}</rdf:li></rdf:Seq></dc:creator>"
    '<dc:description><rdf:Alt><rdf:li xml:lang="x-default">{comment}</rdf:li></rdf:Alt>'
    "</dc:description>"
    "</rdf:Description></rdf:RDF></x:xmpmeta>"
    '<?xpacket end="r"?>'
)


@dataclass(frozen=True, slots=True)
class Marking:
    character_id: str
    character_name: str
    credit: str = ""
    is_from_text: bool = False

    @property
    def title(self) -> str:
        return f"Synthetic speech: {self.character_name}"

    @property
    def comment(self) -> str:
        made = "spoken from text in" if self.is_from_text else "converted to"
        statement = f"Synthetic speech, {made} the voice of {self.character_name}."
        return f"{statement} {self.credit}".strip()

    def tags(self) -> dict[str, str]:
        return {
            "title": self.title,
            "artist": self.character_name,
            "comment": self.comment,
            "digital_source_type": DIGITAL_SOURCE_TYPE,
            "character": self.character_id,
        }

    def xmp(self) -> bytes:
        """Return the statement as an XMP packet (ISO 16684-1) with IPTC's DigitalSourceType."""
        return _XMP.format(
            source_type=DIGITAL_SOURCE_TYPE,
            title=escape(self.title),
            artist=escape(self.character_name),
            comment=escape(self.comment),
        ).encode()


SOFTWARE: Final = "Voice Avatar"
SOFTWARE_VERSION: Final = "0.1.0"

# The assertion about the character: its owner's licence, credit and what the owner forbids.
CHARACTER_LABEL: Final = "org.voice-avatar.character"
# Names of the uses that an owner may forbid.
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
# Ogg is missing: C2PA defines no place for a statement in it.
SIGNED_MEDIA_TYPES: Final = frozenset({"audio/wav", "audio/mpeg", "audio/mp4"})


def uses_for_people(uses: Iterable[str], language: str) -> list[str]:
    """Name uses that an owner forbids, in `en` or `ja`; unknown ones are left out."""
    names = _USES[language]
    return [names[use] for use in uses if use in names]


def describe(
    manifest: CharacterManifest, marking: Marking, made_at: datetime, *, notice: str = "off"
) -> dict[str, Any]:
    """Return the statement about one result, as the C2PA library expects it."""
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
