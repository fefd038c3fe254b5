"""Which speakers the characters that take text offer."""

from __future__ import annotations

import struct
import uuid
import zlib
from typing import TYPE_CHECKING, Final

from functions.compat.voicevox.speech.voices import OfferedSample, OfferedSpeaker, OfferedStyle
from speech.bundles.files import BundleError
from speech.bundles.portraits import picture_in
from speech.engines.style_bert_vits2.aivm import style_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from conversion.characters.lending import LoadedCharacter
    from shared.characters.manifest import CharacterManifest
    from speech.engines.interface.text_engine import PhraseEngine
    from speech.engines.style_bert_vits2.aivm import AivmxFacts
    from speech.engines.style_bert_vits2.aivm_media import StyleMedia

USUAL_STYLE: Final = "ノーマル"
_ICON_PIXELS: Final = 64
_VERSION: Final = "1.0.0"


def offered_speakers(characters: Mapping[str, LoadedCharacter]) -> list[OfferedSpeaker]:
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
        characters: that are offered.

    Returns:
        The ids of styles: the first of each character.

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


def _speakers_of(character: LoadedCharacter, engine: PhraseEngine) -> Iterable[OfferedSpeaker]:
    facts: AivmxFacts | None = getattr(engine, "facts", None)
    if facts is not None:
        return _speakers_in(facts, character, engine)
    return [_only_speaker(character, engine)]


def _only_speaker(character: LoadedCharacter, engine: PhraseEngine) -> OfferedSpeaker:
    manifest = character.manifest
    number = str(uuid.uuid5(uuid.NAMESPACE_URL, f"urn:voice-avatar:character:{manifest.id}"))
    icon = _picture_of(manifest) or plain_png(manifest.preview.colour)
    style = OfferedStyle(
        style_id(number, 0), USUAL_STYLE, engine, 0, icon=icon, marking=character.text_marking
    )
    return OfferedSpeaker(
        number, manifest.name.ja, _VERSION, _policy(manifest, None), icon, (style,)
    )


def _speakers_in(
    facts: AivmxFacts, character: LoadedCharacter, engine: PhraseEngine
) -> Iterable[OfferedSpeaker]:
    policy = _policy(character.manifest, facts.licence)
    for speaker in facts.voice.speakers:
        icon = facts.icons[speaker.uuid].content
        styles = tuple(
            OfferedStyle(
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
        yield OfferedSpeaker(speaker.uuid, speaker.name, facts.version, policy, icon, styles)


def _picture_of(manifest: CharacterManifest) -> bytes | None:
    """Return the picture in a character's portrait, if there is one: clients show no SVG."""
    if manifest.preview.portrait is None:
        return None
    return picture_in((manifest.folder / manifest.preview.portrait).read_bytes())


def _icon_of(media: StyleMedia) -> bytes:
    return b"" if media.icon is None else media.icon.content


def _samples_of(media: StyleMedia) -> tuple[OfferedSample, ...]:
    return tuple(OfferedSample(each.sound.content, each.transcript) for each in media.samples)


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
