"""The speakers and styles that a client can ask for, and the engines that speak them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from speech.engines.interface.text_engine import PhraseEngine
    from speech.results.marking import Marking

_TALK = "talk"


@dataclass(frozen=True)
class OfferedSample:
    """A recording of a style, WAV or M4A, and what is said in it."""

    sound: bytes
    transcript: str


@dataclass(frozen=True)
class OfferedStyle:
    """A style that clients can ask for.

    Attributes:
        id: number by which clients ask for it.
        name: shown to people.
        engine: that speaks it.
        engine_style: the number by which the engine knows it.
        icon: a picture, PNG or JPEG; empty for the speaker's portrait.
        samples: to listen to.
        marking: what is written into its speech; None for nothing.
    """

    id: int
    name: str
    engine: PhraseEngine
    engine_style: int
    icon: bytes = b""
    samples: tuple[OfferedSample, ...] = ()
    marking: Marking | None = None


@dataclass(frozen=True)
class OfferedSpeaker:
    """A speaker that clients can ask for.

    Attributes:
        uuid: of the speaker.
        name: shown to people.
        version: of the voice.
        policy: licence and credit, in Markdown.
        portrait: a picture, PNG or JPEG.
        styles: the ways in which the speaker speaks.
    """

    uuid: str
    name: str
    version: str
    policy: str
    portrait: bytes
    styles: tuple[OfferedStyle, ...]

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


class Voices:
    """Every voice that clients can ask for.

    Args:
        speakers: in the order in which they are listed.
        aliases: the ids of styles by further numbers, as bots know them that were written for
            another engine.
    """

    def __init__(
        self, speakers: Sequence[OfferedSpeaker], aliases: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        self._aliases = aliases
        self.offer(speakers)

    def offer(self, speakers: Sequence[OfferedSpeaker]) -> None:
        """Offer these speakers from now on, in this order."""
        self.speakers = tuple(speakers)
        self._styles: Mapping[int, OfferedStyle] = {
            style.id: style for speaker in speakers for style in speaker.styles
        }

    def find_style(self, style_id: int) -> OfferedStyle | None:
        """Find a style by its number or an alias of it; None if there is none."""
        return self._styles.get(style_id) or self._styles.get(self._aliases.get(style_id, style_id))

    def find_speaker(self, uuid: str) -> OfferedSpeaker | None:
        """Find a speaker; None if there is none."""
        return next((speaker for speaker in self.speakers if speaker.uuid == uuid), None)
