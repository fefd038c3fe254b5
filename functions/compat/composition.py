"""Puts all dialects together behind one port, wherever they are served."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from functions.compat.elevenlabs import routes as elevenlabs
from functions.compat.elevenlabs.errors import refuse as refuse_elevenlabs
from functions.compat.elevenlabs.recordings import RecordingLimits, Recordings
from functions.compat.following import OfferedCharacters
from functions.compat.keys import metrics
from functions.compat.keys.access import OPERATOR, Access, AccessMiddleware
from functions.compat.keys.metering import Meter
from functions.compat.openai import routes as openai
from functions.compat.openai.errors import refuse as refuse_openai
from functions.compat.running import routes as running
from functions.compat.speech.dialects import Dialect, Dialects
from functions.compat.speech.slow_readers import SlowReadersMiddleware
from functions.compat.speech.synthesis import SpeechLimits, Synthesis
from functions.compat.speech.voices import TextVoices, names_of, text_voices_of
from functions.compat.voicevox import app as voicevox
from functions.compat.voicevox.routes.errors import refuse as refuse_voicevox
from functions.compat.voicevox.speech.offers import aliases_of, offered_speakers
from functions.compat.voicevox.speech.voices import Voices
from functions.compat.wyoming.server import WyomingServer
from shared.http.origins import AllowedOriginsMiddleware
from shared.process.settings import SettingsError
from speech.bundles.files import BundleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pydantic import SecretStr
    from starlette.types import ASGIApp

    from conversion.admission import Admission
    from conversion.characters.lending import LoadedCharacter
    from functions.compat.voicevox.memory.kept import Kept
    from speech.decoding.decoder import Decoder

LEAST_CHARACTERS: Final = 32
NAME: Final = re.compile("[A-Za-z0-9-]{1,64}")
_HEADERS: Final = ("Authorization", "Content-Type", "X-API-Key", "xi-api-key")


@dataclass(frozen=True, slots=True)
class Doors:
    """What the dialects offer, and to whom.

    Attributes:
        access: who may call.
        max_seconds: the longest speech of one request.
        numbers: by which further numbers clients of VOICEVOX may ask for a character, each
            NUMBER=CHARACTER.
        names: by which further names clients of OpenAI may ask for a voice, each NAME=CHARACTER.
        is_alone: whether no other instance serves the same clients.
        recordings: what a recording may be that is converted in one call.
    """

    access: Access
    max_seconds: float = 300.0
    numbers: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    is_alone: bool = True
    recordings: RecordingLimits = field(default_factory=RecordingLimits)


@dataclass(frozen=True, slots=True)
class Room:
    """What all dialects speak with.

    Attributes:
        characters: all that are loaded; those that take text speak, those that take speech convert.
        kept: what clients of VOICEVOX leave.
        decoder: has been started.
        admission: how much this process does at once, whoever asks for it.
        characters_dir: the folder that an error names.
        meter: counts what each key has.
    """

    characters: Mapping[str, LoadedCharacter]
    kept: Kept
    decoder: Decoder
    admission: Admission
    characters_dir: Path
    meter: Meter = field(default_factory=Meter)


def keys_of(key: SecretStr | None, named: Iterable[SecretStr] = ()) -> dict[str, str]:
    """Return the keys that requests may carry, by the names of their owners.

    Args:
        key: the operator's.
        named: further ones, each NAME=KEY.

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
        app: all dialects of HTTP, behind one port.
        wyoming: serves clients of Wyoming, where an operator gives it a port.
        offered: the characters of all dialects, which may change while they serve.
        sockets: serve clients that send texts in pieces.
    """

    app: ASGIApp
    wyoming: WyomingServer
    offered: OfferedCharacters
    sockets: running.SpeechSockets

    async def retire(self) -> None:
        """End each connection that stays open between texts when it is quiet, until cancelled."""
        await asyncio.gather(self.sockets.retire(), self.wyoming.retire())


def compose(doors: Doors, room: Room) -> Compat:
    """Build all dialects of one process.

    Raises:
        BundleError: no character takes text, or one that a number or a name names.
    """
    characters = dict(room.characters)
    speakers = offered_speakers(characters)
    if not speakers:
        raise BundleError(f"{room.characters_dir}: expected a character that takes text.")
    limits = SpeechLimits(doors.max_seconds)
    synthesis = Synthesis(room.admission, limits)
    voices = Voices(speakers, aliases_of(doors.numbers, characters))
    services = voicevox.Services(voices, room.kept.presets, room.kept.dictionary, room.admission)
    served = voicevox.Settings(voicevox.VERSION, limits, is_alone=doors.is_alone)
    text_voices = TextVoices(text_voices_of(characters), names_of(doors.names))
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
        Dialect(metrics.PATHS, metrics.build(room.meter), metrics.refuse),
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
