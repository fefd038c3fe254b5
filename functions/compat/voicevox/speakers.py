"""The speakers and styles that a client can ask for, and the engines that speak them."""

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
    from shared.speech.engines.aivmx import AivmxFacts, StyleMedia
    from shared.speech.engines.text_interface import PhraseEngine
    from shared.speech.results.statement import Marking


_TALK = "talk"


@dataclass(frozen=True)
class SpeakerSample:
    """A recording of a style, WAV or M4A, and what is said in it."""

    sound: bytes
    transcript: str


@dataclass(frozen=True)
class SpeakerStyle:
    """A style that clients can ask for.

    Attributes:
        marking: what is written into its speech; None for nothing.
    """

    id: int
    name: str
    engine: PhraseEngine
    engine_style: int
    icon: bytes = b""
    samples: tuple[SpeakerSample, ...] = ()
    marking: Marking | None = None


@dataclass(frozen=True)
class VoicevoxSpeaker:
    """A speaker that clients can ask for."""

    uuid: str
    name: str
    version: str
    policy: str
    portrait: bytes
    styles: tuple[SpeakerStyle, ...]

    def summary(self) -> dict[str, Any]:
        """The answer to `GET /speakers`."""
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
        """The answer to `GET /speaker_info`."""
        styles = [
            {
                "id": style.id,
                "icon": _base64(style.icon or self.portrait),
                "voice_samples": [_base64(sample.sound) for sample in style.samples],
                "voice_sample_transcripts": [sample.transcript for sample in style.samples],
            }
            for style in self.styles
        ]
        portrait = _base64(self.portrait)
        return {"policy": self.policy, "portrait": portrait, "style_infos": styles}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


class VoicevoxSpeakers:
    """Every voice that clients can ask for.

    Args:
        speakers: in the order in which they are listed.
    """

    def __init__(
        self, speakers: Sequence[VoicevoxSpeaker], aliases: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        self._aliases = aliases
        self.offer(speakers)

    def offer(self, speakers: Sequence[VoicevoxSpeaker]) -> None:
        """Offer these speakers from now on, in this order."""
        self.speakers = tuple(speakers)
        self._styles: Mapping[int, SpeakerStyle] = {
            style.id: style for speaker in speakers for style in speaker.styles
        }

    def find_style(self, style_id: int) -> SpeakerStyle | None:
        """Find a style by its number or an alias of it; None if there is none."""
        return self._styles.get(style_id) or self._styles.get(self._aliases.get(style_id, style_id))

    def find_speaker(self, uuid: str) -> VoicevoxSpeaker | None:
        """Find a speaker; None if there is none."""
        return next((speaker for speaker in self.speakers if speaker.uuid == uuid), None)


USUAL_STYLE: Final = "ノーマル"
_ICON_PIXELS: Final = 64
_VERSION: Final = "1.0.0"


def speakers_of_characters(characters: Mapping[str, LoadedCharacter]) -> list[VoicevoxSpeaker]:
    """Return the speakers of all characters that take text."""
    return [
        speaker
        for character in characters.values()
        if character.text_engine is not None
        for speaker in _speakers_of(character, character.text_engine)
    ]


def aliases_of(entries: Iterable[str], characters: Mapping[str, LoadedCharacter]) -> dict[int, int]:
    """Read which further numbers a client may ask for.

    Args:
        entries: each NUMBER=CHARACTER, such as `3=mei`.

    Raises:
        BundleError: an entry has another form, or no character takes text that has this id.
    """
    first = {
        name: next(iter(_speakers_of(character, character.text_engine))).styles[0].id
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


def _speakers_of(character: LoadedCharacter, engine: PhraseEngine) -> Iterable[VoicevoxSpeaker]:
    facts: AivmxFacts | None = getattr(engine, "facts", None)
    if facts is not None:
        return _speakers_in(facts, character, engine)
    return [_only_speaker(character, engine)]


def _only_speaker(character: LoadedCharacter, engine: PhraseEngine) -> VoicevoxSpeaker:
    manifest = character.manifest
    number = str(uuid.uuid5(uuid.NAMESPACE_URL, f"urn:voice-avatar:character:{manifest.id}"))
    icon = _picture_of(manifest) or plain_png(manifest.preview.colour)
    style = SpeakerStyle(
        style_id(number, 0), USUAL_STYLE, engine, 0, icon=icon, marking=character.text_marking
    )
    return VoicevoxSpeaker(
        number, manifest.name.ja, _VERSION, _policy(manifest, None), icon, (style,)
    )


def _speakers_in(
    facts: AivmxFacts, character: LoadedCharacter, engine: PhraseEngine
) -> Iterable[VoicevoxSpeaker]:
    policy = _policy(character.manifest, facts.licence)
    for speaker in facts.voice.speakers:
        icon = facts.icons[speaker.uuid].content
        styles = tuple(
            SpeakerStyle(
                style.id,
                style.name,
                engine,
                style.id,
                icon=_icon_of(facts.media[style.id]),
                samples=_samples_of(facts.media[style.id]),
                marking=character.text_marking,
            )
            for style in speaker.styles
        )
        yield VoicevoxSpeaker(speaker.uuid, speaker.name, facts.version, policy, icon, styles)


def _picture_of(manifest: CharacterManifest) -> bytes | None:
    """Return the picture in a character's portrait, if there is one: clients show no SVG."""
    if manifest.preview.portrait is None:
        return None
    return picture_in((manifest.folder / manifest.preview.portrait).read_bytes())


def _icon_of(media: StyleMedia) -> bytes:
    return b"" if media.icon is None else media.icon.content


def _samples_of(media: StyleMedia) -> tuple[SpeakerSample, ...]:
    return tuple(SpeakerSample(each.sound.content, each.transcript) for each in media.samples)


def _policy(manifest: CharacterManifest, licence: str | None) -> str:
    terms = ": ".join(filter(None, (manifest.licence.name, manifest.terms_url)))
    lines = [manifest.credit, terms, licence or ""]
    return "\n\n".join(line for line in lines if line)


def plain_png(colour: str) -> bytes:
    """Draw a square of one colour, `#rrggbb`, for clients that show no SVG (ISO/IEC 15948)."""
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
