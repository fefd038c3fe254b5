"""The dialects of one process behind one port."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from functions.compat import elevenlabs, openai, text_socket
from functions.compat.character_watch import OfferedCharacters
from functions.compat.elevenlabs import RecordingLimits, Recordings, refuse_elevenlabs
from functions.compat.openai import refuse_openai
from functions.compat.service import keys
from functions.compat.service.http_messages import DialectRouter, SlowReadersMiddleware
from functions.compat.service.keys import OPERATOR, Access, AccessMiddleware, KeyLimits, Meter
from functions.compat.service.synthesis import SpeechLimits, Synthesis
from functions.compat.service.texts import TextSpeakers, names_of, text_speakers_of
from functions.compat.voicevox import app as voicevox
from functions.compat.voicevox.requests import refuse as refuse_voicevox
from functions.compat.voicevox.speakers import VoicevoxSpeakers, aliases_of, speakers_of_characters
from functions.compat.wyoming import WyomingServer
from shared.characters.bundle_files import BundleError
from shared.runtime.origins import AllowedOriginsMiddleware
from shared.runtime.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pydantic import SecretStr
    from starlette.types import ASGIApp

    from functions.compat.service.keys import Refuse
    from functions.compat.service.shared_files import LockedJsonFile
    from functions.compat.settings import DialectSettings
    from functions.compat.voicevox.user_data import UserData
    from shared.container.admission import Admission
    from shared.conversion.characters import LoadedCharacter
    from shared.speech.decoding.decoder import Decoder

_SHORTEST_KEY: Final = 32
_KEY_NAME: Final = re.compile("[A-Za-z0-9-]{1,64}")
_HEADERS: Final = ("Authorization", "Content-Type", "X-API-Key", "xi-api-key")


@dataclass(frozen=True, slots=True)
class SpeechResources:
    characters: Mapping[str, LoadedCharacter]
    user_data: UserData
    decoder: Decoder
    admission: Admission
    characters_dir: Path
    usage_file: LockedJsonFile | None = None  # in which several processes count together


def keys_of(key: SecretStr | None, named: Iterable[SecretStr] = ()) -> dict[str, str]:
    keys = {} if key is None else {OPERATOR: key.get_secret_value()}
    for entry in named:
        name, _, secret = entry.get_secret_value().partition("=")
        if not _KEY_NAME.fullmatch(name) or len(secret) < _SHORTEST_KEY or name in keys:
            raise SettingsError(
                "API_KEYS: expected NAME=KEY with names of letters, digits and hyphens, each once,"
                f" and keys of {_SHORTEST_KEY} characters or more; found another one."
            )
        keys[name] = secret
    return keys


@dataclass(frozen=True, slots=True)
class Compat:
    app: ASGIApp
    wyoming: WyomingServer
    offered: OfferedCharacters
    sockets: text_socket.SpeechSockets

    async def retire(self) -> None:
        """End each connection that stays open between texts when it is quiet, until cancelled."""
        await asyncio.gather(self.sockets.retire(), self.wyoming.retire())


def build(
    config: DialectSettings,
    resources: SpeechResources,
    allowed_hosts: tuple[str, ...],
    *,
    is_alone: bool = True,
) -> Compat:
    """Build all dialects; raise BundleError if no character takes text, or one is unknown.

    `is_alone` says that no other instance serves clients of VOICEVOX.
    """
    characters = dict(resources.characters)
    limits = KeyLimits(config.key_characters_per_day, config.key_seconds_per_day)
    meter = Meter(limits, resources.usage_file)
    keys_by_owner = keys_of(config.voicevox_key, config.api_keys)
    access = Access(keys_by_owner, config.allowed_origins, allowed_hosts)
    speakers = speakers_of_characters(characters)
    if not speakers:
        raise BundleError(f"{resources.characters_dir}: expected a character that takes text.")
    synthesis = Synthesis(resources.admission, SpeechLimits(config.max_speech_seconds))
    voicevox_speakers = VoicevoxSpeakers(speakers, aliases_of(config.voicevox_speakers, characters))
    text_speakers = TextSpeakers(text_speakers_of(characters), names_of(config.openai_voices))
    recordings = Recordings(resources.decoder, resources.admission, RecordingLimits())
    sockets = text_socket.SpeechSockets(text_speakers, synthesis, meter=meter)
    voicevox_app = voicevox.build(
        voicevox.VoicevoxServices(voicevox_speakers, resources.user_data, synthesis, meter),
        is_alone=is_alone,
    )
    elevenlabs_app = elevenlabs.build(characters, text_speakers, recordings, synthesis, meter)
    dialects: list[tuple[tuple[str, ...], ASGIApp, Refuse]] = [
        (elevenlabs.PATHS, elevenlabs_app, refuse_elevenlabs),
        (openai.PATHS, openai.build(text_speakers, synthesis, meter), refuse_openai),
        (text_socket.PATHS, text_socket.build(sockets), keys.refuse),
        (keys.PATHS, keys.build(meter), keys.refuse),
        (("/",), voicevox_app, refuse_voicevox),
    ]
    router = DialectRouter(
        [(paths, AccessMiddleware(app, access, refuse)) for paths, app, refuse in dialects]
    )
    app = AllowedOriginsMiddleware(SlowReadersMiddleware(router), config.allowed_origins, _HEADERS)
    wyoming = WyomingServer(text_speakers, synthesis, meter)
    offered = OfferedCharacters(characters, voicevox_speakers, text_speakers)
    return Compat(app, wyoming, offered, sockets)
