"""The speakers and styles that clients of VOICEVOX can ask for."""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from shared.characters.bundle_files import BundleError
from shared.speech.engines.aivmx import style_id
from shared.speech.graphs.portraits import picture_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.characters.manifest import CharacterManifest
    from shared.conversion.characters import LoadedCharacter
    from shared.speech.engines.aivmx import AivmxFacts, StyleSample
    from shared.speech.engines.text_interface import PhraseEngine
    from shared.speech.results.statement import Marking


_TALK = "talk"


@dataclass(frozen=True)
class SpeakerStyle:
    id: int
    name: str
    engine: PhraseEngine
    engine_style: int
    icon: bytes = b""
    samples: tuple[StyleSample, ...] = ()
    marking: Marking | None = None


@dataclass(frozen=True)
class VoicevoxSpeaker:
    uuid: str
    name: str
    version: str
    policy: str
    portrait: bytes
    styles: tuple[SpeakerStyle, ...]

    def summary(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "speaker_uuid": self.uuid,
            "styles": [
                {"name": style.name, "id": style.id, "type": _TALK} for style in self.styles
            ],
            "version": self.version,
            "supported_features": {"permitted_synthesis_morphing": "NOTHING"},
        }

    def details(self) -> dict[str, Any]:
        styles = [
            {
                "id": style.id,
                "icon": base64_of(style.icon or self.portrait),
                "voice_samples": [base64_of(sample.sound.content) for sample in style.samples],
                "voice_sample_transcripts": [sample.transcript for sample in style.samples],
            }
            for style in self.styles
        ]
        portrait = base64_of(self.portrait)
        return {"policy": self.policy, "portrait": portrait, "style_infos": styles}


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


class VoicevoxSpeakers:
    def __init__(
        self, speakers: Sequence[VoicevoxSpeaker], aliases: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        self._aliases = aliases
        self.offer(speakers)

    def offer(self, speakers: Sequence[VoicevoxSpeaker]) -> None:
        self.speakers = tuple(speakers)
        self._styles: Mapping[int, SpeakerStyle] = {
            style.id: style for speaker in speakers for style in speaker.styles
        }

    def find_style(self, style_id: int) -> SpeakerStyle | None:
        return self._styles.get(style_id) or self._styles.get(self._aliases.get(style_id, style_id))

    def find_speaker(self, uuid: str) -> VoicevoxSpeaker | None:
        return next((speaker for speaker in self.speakers if speaker.uuid == uuid), None)


USUAL_STYLE: Final = "ノーマル"
_ICON_PIXELS: Final = 64
_VERSION: Final = "1.0.0"


def speakers_of_characters(characters: Mapping[str, LoadedCharacter]) -> list[VoicevoxSpeaker]:
    return [
        speaker
        for character in characters.values()
        if character.text_engine is not None
        for speaker in speakers_of(character, character.text_engine)
    ]


def aliases_of(entries: Iterable[str], characters: Mapping[str, LoadedCharacter]) -> dict[int, int]:
    """Read further numbers of characters that take text, such as `3=mei`; raise BundleError."""
    first = {
        name: speakers_of(character, character.text_engine)[0].styles[0].id
        for name, character in characters.items()
        if character.text_engine is not None
    }
    aliases = {}
    for entry in entries:
        number, _, name = entry.partition("=")
        if not number.isdecimal() or name not in first:
            known = ", ".join(first)
            raise BundleError(
                f"VOICEVOX_SPEAKERS: expected NUMBER=CHARACTER with one of {known},"
                f" found {entry!r}."
            )
        aliases[int(number)] = first[name]
    return aliases


def speakers_of(character: LoadedCharacter, engine: PhraseEngine) -> list[VoicevoxSpeaker]:
    """Return the speakers in an AIVMX file, or the character as the only one."""
    manifest, marking = character.manifest, character.text_marking
    facts: AivmxFacts | None = getattr(engine, "facts", None)
    terms = ": ".join(filter(None, (manifest.licence.name, manifest.terms_url)))
    licence = "" if facts is None else facts.licence
    policy = "\n\n".join(filter(None, (manifest.credit, terms, licence)))
    if facts is None:
        number = str(uuid.uuid5(uuid.NAMESPACE_URL, f"urn:voice-avatar:character:{manifest.id}"))
        icon = picture_of(manifest) or plain_png(manifest.preview.colour)
        only = style_id(number, 0)
        normal = SpeakerStyle(only, USUAL_STYLE, engine, 0, icon=icon, marking=marking)
        return [VoicevoxSpeaker(number, manifest.name.ja, _VERSION, policy, icon, (normal,))]
    speakers = []
    for speaker in facts.voice.speakers:
        styles = []
        for style in speaker.styles:
            media = facts.media[style.id]
            icon = b"" if media.icon is None else media.icon.content
            named = (style.id, style.name, engine, style.id)
            styles.append(SpeakerStyle(*named, icon, media.samples, marking))
        portrait = facts.icons[speaker.uuid].content
        speakers.append(
            VoicevoxSpeaker(
                speaker.uuid, speaker.name, facts.version, policy, portrait, tuple(styles)
            )
        )
    return speakers


def picture_of(manifest: CharacterManifest) -> bytes | None:
    """Return the bitmap in a character's portrait, if there is one: clients show no SVG."""
    if manifest.preview.portrait is None:
        return None
    return picture_in((manifest.folder / manifest.preview.portrait).read_bytes())


def plain_png(colour: str) -> bytes:
    """Draw a square of one colour, `#rrggbb` (ISO/IEC 15948)."""
    row = b"\0" + bytes.fromhex(colour[1:]) * _ICON_PIXELS
    header = struct.pack(">IIBBBBB", _ICON_PIXELS, _ICON_PIXELS, 8, 2, 0, 0, 0)
    pixels = zlib.compress(row * _ICON_PIXELS)
    parts = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
