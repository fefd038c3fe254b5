"""Puts all dialects together behind one port, wherever they are served."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from functions.compat import elevenlabs, openai
from functions.compat import text_socket as running
from functions.compat.character_watch import OfferedCharacters
from functions.compat.elevenlabs import RecordingLimits, Recordings, refuse_elevenlabs
from functions.compat.openai import refuse_openai
from functions.compat.service import keys
from functions.compat.service.http_messages import Dialect, Dialects, SlowReadersMiddleware
from functions.compat.service.keys import OPERATOR, Access, AccessMiddleware, Meter
from functions.compat.service.synthesis import SpeechLimits, Synthesis
from functions.compat.service.voices import TextSpeakers, names_of, text_speakers_of
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

    from functions.compat.voicevox.user_data import UserData
    from shared.container.admission import Admission
    from shared.conversion.characters import LoadedCharacter
    from shared.speech.decoding.decoder import Decoder

LEAST_CHARACTERS: Final = 32
NAME: Final = re.compile("[A-Za-z0-9-]{1,64}")
_HEADERS: Final = ("Authorization", "Content-Type", "X-API-Key", "xi-api-key")


@dataclass(frozen=True, slots=True)
class CompatOptions:
    """What the dialects offer, and to whom."""

    access: Access
    max_seconds: float = 300.0
    numbers: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    is_alone: bool = True
    recordings: RecordingLimits = field(default_factory=RecordingLimits)


@dataclass(frozen=True, slots=True)
class SpeechResources:
    """What all dialects speak with."""

    characters: Mapping[str, LoadedCharacter]
    kept: UserData
    decoder: Decoder
    admission: Admission
    characters_dir: Path
    meter: Meter = field(default_factory=Meter)


def keys_of(key: SecretStr | None, named: Iterable[SecretStr] = ()) -> dict[str, str]:
    """Return the keys that requests may carry, by the names of their owners.

    Raises:
        SettingsError: one has no name, or a key that is too short.
    """
    keys = {} if key is None else {OPERATOR: key.get_secret_value()}
    for entry in named:
        name, _, secret = entry.get_secret_value().partition("=")
        if not NAME.fullmatch(name) or len(secret) < LEAST_CHARACTERS or name in keys:
            raise SettingsError(
                "API_KEYS: expected NAME=KEY with names of letters, digits and hyphens, each once,"
                f" and keys of {LEAST_CHARACTERS} characters or more; found another one."
            )
        keys[name] = secret
    return keys


@dataclass(frozen=True, slots=True)
class Compat:
    """What one process serves.

    Attributes:
        offered: the characters of all dialects, which may change while they serve.
    """

    app: ASGIApp
    wyoming: WyomingServer
    offered: OfferedCharacters
    sockets: running.SpeechSockets

    async def retire(self) -> None:
        """End each connection that stays open between texts when it is quiet, until cancelled."""
        await asyncio.gather(self.sockets.retire(), self.wyoming.retire())


def compose(doors: CompatOptions, room: SpeechResources) -> Compat:
    """Build all dialects of one process.

    Raises:
        BundleError: no character takes text, or one that a number or a name names.
    """
    characters = dict(room.characters)
    speakers = speakers_of_characters(characters)
    if not speakers:
        raise BundleError(f"{room.characters_dir}: expected a character that takes text.")
    limits = SpeechLimits(doors.max_seconds)
    synthesis = Synthesis(room.admission, limits)
    voices = VoicevoxSpeakers(speakers, aliases_of(doors.numbers, characters))
    services = voicevox.VoicevoxServices(
        voices, room.kept.presets, room.kept.dictionary, room.admission
    )
    served = voicevox.VoicevoxSettings(voicevox.VERSION, limits, is_alone=doors.is_alone)
    text_voices = TextSpeakers(text_speakers_of(characters), names_of(doors.names))
    recordings = Recordings(room.decoder, room.admission, doors.recordings)
    sockets = running.SpeechSockets(text_voices, synthesis, meter=room.meter)
    dialects = (
        Dialect(
            elevenlabs.PATHS,
            elevenlabs.build(characters, recordings, synthesis, room.meter),
            refuse_elevenlabs,
        ),
        Dialect(openai.PATHS, openai.build(text_voices, synthesis, room.meter), refuse_openai),
        Dialect(
            running.PATHS,
            running.build(sockets),
            running.refuse,
        ),
        Dialect(keys.PATHS, keys.build(room.meter), keys.refuse),
        Dialect(("/",), voicevox.build(served, services, synthesis, room.meter), refuse_voicevox),
    )
    protected = [
        Dialect(each.paths, AccessMiddleware(each.app, doors.access, each.refuse), each.refuse)
        for each in dialects
    ]
    app = AllowedOriginsMiddleware(
        SlowReadersMiddleware(Dialects(protected)), doors.access.allowed_origins, _HEADERS
    )
    wyoming = WyomingServer(text_voices, synthesis, room.meter)
    return Compat(app, wyoming, OfferedCharacters(characters, voices, text_voices), sockets)
