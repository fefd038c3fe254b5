"""The description of the voices for Home Assistant."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from functions.compat.wyoming.events import Event

if TYPE_CHECKING:
    from functions.compat.speech.voices import TextVoice, TextVoices

_LANGUAGES: Final = ("ja",)
_OWN: Final = MappingProxyType({"name": "Voice Avatar", "url": ""})


def describe(voices: TextVoices) -> Event:
    """Describe the voices, with their styles as speakers."""
    styles: dict[str, list[TextVoice]] = {}
    for voice in voices.all():
        styles.setdefault(voice.character.manifest.id, []).append(voice)
    program = {
        "name": "voice-avatar",
        "description": "Characters that speak",
        "attribution": dict(_OWN),
        "installed": True,
        "version": None,
        "voices": [_voice(name, each) for name, each in styles.items()],
        "supports_synthesize_streaming": True,
    }
    kinds = ("asr", "handle", "intent", "wake", "mic", "snd")
    return Event("info", {"tts": [program], **{kind: [] for kind in kinds}})


def _voice(name: str, voices: list[TextVoice]) -> dict[str, Any]:
    manifest = voices[0].character.manifest
    speakers = [{"name": each.style_name} for each in voices if each.style_name]
    return {
        "name": name,
        "description": manifest.name.en,
        "attribution": {
            "name": manifest.credit or manifest.name.en,
            "url": manifest.terms_url or "",
        },
        "installed": True,
        "version": None,
        "languages": list(_LANGUAGES),
        "speakers": speakers or None,
    }
