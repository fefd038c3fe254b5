"""The routes of ElevenLabs that turn one voice into another."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from functions.compat.elevenlabs.errors import FieldError, UnknownVoiceError, exception_handlers
from functions.compat.elevenlabs.pieces import convert_in_pieces
from functions.compat.keys.access import client_of, takes_turns_as
from functions.compat.keys.metering import Meter
from functions.compat.speech.answers import MARKED, SpokenAnswer
from functions.compat.speech.encoders import open_encoder
from functions.compat.speech.formats import FORMATS_WITHOUT_FILE, RAW_RATES, Codec, SoundFormat
from functions.compat.speech.synthesis import ClientLeftError, Speech
from speech.engines.interface.engine import ConversionOptions
from speech.results.wav import wav_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager

    from starlette.datastructures import FormData
    from starlette.requests import Request

    from conversion.characters.lending import LoadedCharacter
    from functions.compat.elevenlabs.recordings import Recordings
    from functions.compat.speech.synthesis import Synthesis
    from speech.decoding.recordings.recording import Recording

_CHANGERS: Final = ("/v1/speech-to-speech/", "/v1/voice-changer/")
PATHS: Final = (*_CHANGERS, "/v1/voices", "/v2/", "/v1/text-to-speech/", "/v1/user")
"""Its clients understand what is missing here, where OpenAI's have no such path."""


_MP3: Final = ((22_050, 32), (24_000, 48), *((44_100, rate) for rate in (32, 64, 96, 128, 192)))
_OPUS: Final = (32, 64, 96, 128, 192)
_USUAL: Final = "mp3_44100_128"
_MOST_SEED: Final = (1 << 32) - 1

FORMATS: Final[Mapping[str, SoundFormat]] = {
    **{f"mp3_{rate}_{kbit}": SoundFormat(Codec.MP3, rate, kbit * 1000) for rate, kbit in _MP3},
    **{f"opus_48000_{kbit}": SoundFormat(Codec.OPUS, 48_000, kbit * 1000) for kbit in _OPUS},
    **FORMATS_WITHOUT_FILE,
    **{f"wav_{rate}": SoundFormat(Codec.WAV, rate) for rate in RAW_RATES},
}


@dataclass(frozen=True, slots=True)
class _Taken:
    """A recording that was taken in, as something to be converted, and how long it is."""

    speech: Speech
    seconds: float


class ElevenLabsRoutes:
    """From voice to voice in one call, and the list of voices.

    Args:
        characters: all that are loaded, which may change; those that take speech are offered.
        recordings: takes recordings in.
        synthesis: sends what is converted; bounded.
        meter: counts what each key has.
    """

    def __init__(
        self,
        characters: Mapping[str, LoadedCharacter],
        recordings: Recordings,
        synthesis: Synthesis,
        meter: Meter,
    ) -> None:
        self._meter = meter
        self._loaded = characters
        self._recordings = recordings
        self._synthesis = synthesis

    def routes(self) -> list[Route]:
        """Return the routes; newer clients call the voice changer what older ones do not."""
        changers = [
            route
            for name in ("speech-to-speech", "voice-changer")
            for route in (
                Route(f"/v1/{name}/{{voice_id}}", self._convert, methods=["POST"]),
                Route(f"/v1/{name}/{{voice_id}}/stream", self._stream, methods=["POST"]),
            )
        ]
        return [
            *changers,
            Route("/v1/voices", self._list_voices),
            Route("/v2/voices", self._search_voices),
            Route("/v1/voices/{voice_id}", self._voice),
        ]

    async def _stream(self, request: Request) -> Response:
        """Answer each piece as soon as it is converted."""
        character, sound = self._find(request), _find_format(request)
        taken = await self._take(request, character, sound)
        async with self._counting(request, taken):
            stream = await self._synthesis.stream(taken.speech, takes_turns_as(request.scope))
        return SpokenAnswer(self._synthesis, stream, sound.content_type)

    async def _convert(self, request: Request) -> Response:
        """Answer likewise, unless the format says at its beginning how long it is."""
        sound = _find_format(request)
        if sound.codec is not Codec.WAV:
            return await self._stream(request)
        character = self._find(request)
        raw = SoundFormat(Codec.PCM, sound.sample_rate)
        taken = await self._take(request, character, raw)
        async with self._counting(request, taken):
            (pcm,) = await self._synthesis.speak(
                [taken.speech], request.is_disconnected, takes_turns_as(request.scope)
            )
        wave = await asyncio.to_thread(wav_file, pcm, sound.sample_rate, 1, character.marking)
        return Response(wave, media_type=sound.content_type, headers=MARKED)

    def _counting(self, request: Request, taken: _Taken) -> AbstractAsyncContextManager[None]:
        owner = client_of(request.scope)
        left = (ClientLeftError,)
        return self._meter.counting(owner, "elevenlabs", seconds=taken.seconds, left=left)

    async def _take(
        self, request: Request, character: LoadedCharacter, sound: SoundFormat
    ) -> _Taken:
        """Take the recording of a request in, as something that is converted piece by piece."""
        async with self._recordings.form(request) as form:
            options = _options_in(form)
            recording = await self._recordings.decode(form)
        return _Taken(_speech_of(character, recording, options, sound), recording.seconds)

    @property
    def _characters(self) -> dict[str, LoadedCharacter]:
        return {name: each for name, each in self._loaded.items() if each.manifest.takes_speech}

    def _find(self, request: Request) -> LoadedCharacter:
        name = request.path_params["voice_id"]
        character = self._characters.get(name)
        if character is None:
            known = ", ".join(self._characters)
            raise UnknownVoiceError(f"There is no voice {name!r}; choose one of {known}.")
        return character

    async def _list_voices(self, _: Request) -> Response:
        return JSONResponse({"voices": self._bodies()})

    async def _search_voices(self, _: Request) -> Response:
        voices = self._bodies()
        return JSONResponse({"voices": voices, "has_more": False, "total_count": len(voices)})

    async def _voice(self, request: Request) -> Response:
        return JSONResponse(_voice_body(self._find(request)))

    def _bodies(self) -> list[dict[str, Any]]:
        return [_voice_body(character) for character in self._characters.values()]


def build(
    characters: Mapping[str, LoadedCharacter],
    recordings: Recordings,
    synthesis: Synthesis,
    meter: Meter | None = None,
    retry_after_seconds: int = 1,
) -> Starlette:
    """Build the application; see ElevenLabsRoutes.

    Args:
        characters: all that are loaded.
        recordings: takes recordings in.
        synthesis: sends what is converted.
        meter: counts what each key has; None for one without limits.
        retry_after_seconds: when clients may come again that are sent away with 503.
    """
    return Starlette(
        routes=ElevenLabsRoutes(characters, recordings, synthesis, meter or Meter()).routes(),
        exception_handlers=exception_handlers(retry_after_seconds),
    )


def _speech_of(
    character: LoadedCharacter,
    recording: Recording,
    options: ConversionOptions,
    sound: SoundFormat,
) -> Speech:
    rate = character.engine.sample_rate
    begin = partial(
        convert_in_pieces,
        character.engine,
        character.manifest,
        recording.samples,
        recording.sample_rate,
        options,
    )
    return Speech(begin, rate, partial(open_encoder, sound, rate, character.marking))


def _find_format(request: Request) -> SoundFormat:
    name = request.query_params.get("output_format") or _USUAL
    sound = FORMATS.get(name)
    if sound is None:
        raise FieldError("output_format", f"Expected one of {', '.join(FORMATS)}.", "query")
    return sound


def _options_in(form: FormData) -> ConversionOptions:
    """Read how to convert; what has no meaning here is checked and then ignored.

    `remove_background_noise` asks for what is always done: only the voice is converted, and
    nothing is heard where nobody speaks.
    """
    seed = str(form.get("seed") or "0")
    # The length first: Python makes no number of more than some thousand digits.
    if not seed.isdecimal() or len(seed) > len(str(_MOST_SEED)) or int(seed) > _MOST_SEED:
        raise FieldError("seed", f"Expected a whole number from 0 to {_MOST_SEED}.")
    noise = str(form.get("remove_background_noise") or "false").lower()
    if noise not in {"true", "false"}:
        raise FieldError("remove_background_noise", "Expected true or false.")
    settings = form.get("voice_settings")
    if settings is not None:
        try:
            json.loads(str(settings))
        except (ValueError, RecursionError) as error:
            raise FieldError("voice_settings", "Expected JSON.") from error
    return ConversionOptions(seed=int(seed))


def _voice_body(character: LoadedCharacter) -> dict[str, Any]:
    manifest = character.manifest
    return {
        "voice_id": manifest.id,
        "name": manifest.name.en,
        "category": "premade",
        "description": manifest.credit,
        "labels": {"name_ja": manifest.name.ja, "licence": manifest.licence.name},
        "preview_url": None,
        "available_for_tiers": [],
        "high_quality_base_model_ids": [],
    }
