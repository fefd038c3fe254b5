"""The statement in a result that it is synthetic speech, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

DIGITAL_SOURCE_TYPE: Final = (
    "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
)
"""IPTC's term for media made by a trained network (NewsCodes, Digital Source Type)."""

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
    """The statement about one result.

    Attributes:
        character_id: id of the character.
        character_name: its name, for people.
        credit: the voice owner's credit line, for people; may be empty.
        is_from_text: whether the character spoke a text; otherwise a recording was converted.
    """

    character_id: str
    character_name: str
    credit: str = ""
    is_from_text: bool = False

    @property
    def title(self) -> str:
        """A title for players."""
        return f"Synthetic speech: {self.character_name}"

    @property
    def comment(self) -> str:
        """The statement for people."""
        made = "spoken from text in" if self.is_from_text else "converted to"
        statement = f"Synthetic speech, {made} the voice of {self.character_name}."
        return f"{statement} {self.credit}".strip()

    def tags(self) -> dict[str, str]:
        """The statement as names and texts, for containers with tags and for documents."""
        return {
            "title": self.title,
            "artist": self.character_name,
            "comment": self.comment,
            "digital_source_type": DIGITAL_SOURCE_TYPE,
            "character": self.character_id,
        }

    def xmp(self) -> bytes:
        """The statement as an XMP packet (ISO 16684-1) with IPTC's DigitalSourceType."""
        return _XMP.format(
            source_type=DIGITAL_SOURCE_TYPE,
            title=escape(self.title),
            artist=escape(self.character_name),
            comment=escape(self.comment),
        ).encode()
