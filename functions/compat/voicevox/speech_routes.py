"""Routes from text to what clients change and send back: accent phrases and queries."""

from __future__ import annotations

import asyncio
import io
import zipfile
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

from pydantic import FailFast, Field, TypeAdapter
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from functions.compat.service.http_messages import MARKED
from functions.compat.service.keys import key_owner_of, takes_turns_as
from functions.compat.service.synthesis import ClientLeftError, Speech, too_long
from functions.compat.voicevox import queries
from functions.compat.voicevox.queries import AccentPhraseBodies, AudioQuery, parse_kana
from functions.compat.voicevox.requests import (
    find_style,
    read_body,
    read_flag,
    read_number,
    read_seconds,
    read_style,
    read_text,
    unknown_preset,
)
from functions.compat.voicevox.waves import MOST_WAVES, connect_waves, is_marked
from shared.speech.results.audio_files import begin_wav, wav_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from functions.compat.service.keys import Meter
    from functions.compat.service.synthesis import SpokenStream, Synthesis
    from functions.compat.voicevox.speakers import SpeakerStyle, VoicevoxSpeakers
    from functions.compat.voicevox.user_data import Presets, UserDictionary
    from shared.speech.signal.sound import Samples
    from shared.speech.text.accents import AccentPhrase


_PHRASES = TypeAdapter(AccentPhraseBodies)


class QueryRoutes:
    """From text to query.

    Args:
        synthesis: reads texts when it is their turn: a long one takes a quarter of a second.
    """

    def __init__(
        self,
        voices: VoicevoxSpeakers,
        presets: Presets,
        dictionary: UserDictionary,
        synthesis: Synthesis,
    ) -> None:
        self._voices = voices
        self._presets = presets
        self._dictionary = dictionary
        self._synthesis = synthesis

    def routes(self) -> list[Route]:
        """Return the routes."""
        posts: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/audio_query": self._audio_query,
            "/audio_query_from_preset": self._audio_query_from_preset,
            "/accent_phrases": self._accent_phrases,
            "/mora_data": self._unchanged,
            "/mora_length": self._unchanged,
            "/mora_pitch": self._unchanged,
            "/validate_kana": self._validate_kana,
        }
        return [Route(path, handler, methods=["POST"]) for path, handler in posts.items()]

    async def _audio_query(self, request: Request) -> Response:
        style, text = read_style(self._voices, request), read_text(request, "text")
        return await self._answer(request, lambda: _written(self._query(text, style)))

    async def _audio_query_from_preset(self, request: Request) -> Response:
        number, text = read_number(request, "preset_id"), read_text(request, "text")

        def answer() -> bytes:
            preset = self._presets.find(number)
            if preset is None:
                raise unknown_preset()
            style = find_style(self._voices, preset.style_id)
            return _written(queries.apply_preset(self._query(text, style), preset))

        return await self._answer(request, answer)

    async def _accent_phrases(self, request: Request) -> Response:
        style, text = read_style(self._voices, request), read_text(request, "text")
        is_kana = read_flag(request, "is_kana", default=False)

        def answer() -> bytes:
            phrases = parse_kana(text) if is_kana else self._read(text, style)
            return _PHRASES.dump_json([queries.query_body_of(phrase) for phrase in phrases])

        return await self._answer(request, answer)

    async def _unchanged(self, request: Request) -> Response:
        """Answer what was sent: lengths and pitch are the voices' own."""
        read_style(self._voices, request)
        body = await read_body(request)
        return await self._answer(request, lambda: _PHRASES.dump_json(_PHRASES.validate_json(body)))

    async def _validate_kana(self, request: Request) -> Response:
        parse_kana(read_text(request, "text"))
        return JSONResponse(content=True)

    async def _answer(self, request: Request, answer: Callable[[], bytes]) -> Response:
        """Answer with JSON that is made when it is the request's turn."""
        client = takes_turns_as(request.scope)
        content = await self._synthesis.think(answer, client)
        return Response(content, media_type="application/json")

    def _query(self, text: str, style: SpeakerStyle) -> AudioQuery:
        return queries.query_of(self._read(text, style), text)

    def _read(self, text: str, style: SpeakerStyle) -> Sequence[AccentPhrase]:
        self._dictionary.refresh()
        return style.engine.read_phrases(text)


def _written(query: AudioQuery) -> bytes:
    return query.model_dump_json(by_alias=True).encode()


_MOST_QUERIES = 32
_QUERIES = TypeAdapter(Annotated[list[AudioQuery], Field(max_length=_MOST_QUERIES), FailFast()])
_WAVES = TypeAdapter(Annotated[list[str], Field(max_length=MOST_WAVES), FailFast()])
_SEGMENT_SECONDS = 0.3


class SynthesisRoutes:
    """From query to speech; bounded."""

    def __init__(self, voices: VoicevoxSpeakers, synthesis: Synthesis, meter: Meter) -> None:
        self._meter = meter
        self._voices = voices
        self._synthesiser = synthesis

    def routes(self) -> list[Route]:
        """Return the routes."""
        posts: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/synthesis": self._synthesis,
            "/streaming_synthesis": self._streaming_synthesis,
            "/multi_synthesis": self._multi_synthesis,
            "/connect_waves": self._connect_waves,
        }
        return [Route(path, handler, methods=["POST"]) for path, handler in posts.items()]

    async def _synthesis(self, request: Request) -> Response:
        style = read_style(self._voices, request)
        query = await asyncio.to_thread(AudioQuery.model_validate_json, await read_body(request))
        questions = read_flag(request, "enable_interrogative_upspeak", default=True)
        if read_flag(request, "stream", default=False):
            return await self._stream(request, query, style, raise_questions=questions)
        (spoken,) = await self._speak(request, [query], style, raise_questions=questions)
        return Response(spoken, media_type="audio/wav", headers=MARKED)

    async def _streaming_synthesis(self, request: Request) -> Response:
        """Answer as VOICEVOX has done since September 2026.

        It knows how long the speech is before it is spoken, and sends segments of one length. Here
        a sentence is a segment, so `segment_length` is checked and then ignored.
        """
        style = read_style(self._voices, request)
        query = await asyncio.to_thread(AudioQuery.model_validate_json, await read_body(request))
        questions = read_flag(request, "enable_interrogative_upspeak", default=True)
        # Nothing is spoken for longer than the limit, so later there is nothing, either.
        start = min(read_seconds(request, "start_offset", 0.0), self._synthesiser.limits.seconds)
        read_seconds(request, "segment_length", _SEGMENT_SECONDS, least=0.0)
        return await self._stream(request, query, style, raise_questions=questions, start=start)

    async def _stream(
        self,
        request: Request,
        query: AudioQuery,
        style: SpeakerStyle,
        *,
        raise_questions: bool,
        start: float = 0.0,
    ) -> Response:
        """Answer each sentence as soon as it is spoken, in a WAV file of unknown length.

        Args:
            start: how many seconds at the beginning are left out.
        """
        self._check([query])
        async with self._counting(request, [query]):
            stream = await self._begin(
                takes_turns_as(request.scope),
                query,
                style,
                raise_questions=raise_questions,
                start=start,
            )

        async def sound() -> AsyncIterator[bytes]:
            yield begin_wav(query.output_sampling_rate, _channels(query), style.marking)
            async for pcm in stream.read():
                yield pcm

        return _Sound(sound(), lambda: self._synthesiser.close(stream))

    async def _begin(
        self,
        client: str | None,
        query: AudioQuery,
        style: SpeakerStyle,
        *,
        raise_questions: bool,
        start: float,
    ) -> SpokenStream:
        whole = _speech(query, style, raise_questions)
        left_out = round(start * query.output_sampling_rate)
        speech = replace(whole, begin=lambda: _without_beginning(whole.begin(), left_out))
        return await self._synthesiser.stream(speech, client)

    async def _connect_waves(self, request: Request) -> Response:
        waves = _WAVES.validate_json(await read_body(request))
        joined = await asyncio.to_thread(connect_waves, waves)
        marked = MARKED if is_marked(joined) else None
        return Response(joined, media_type="audio/wav", headers=marked)

    async def _multi_synthesis(self, request: Request) -> Response:
        style = read_style(self._voices, request)
        asked = await asyncio.to_thread(_QUERIES.validate_json, await read_body(request))
        if not 1 <= len(asked) <= _MOST_QUERIES:
            raise HTTPException(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"音声合成クエリは1から{_MOST_QUERIES}個までです",
            )
        if len({query.output_sampling_rate for query in asked}) > 1:
            raise HTTPException(
                HTTPStatus.UNPROCESSABLE_ENTITY, "サンプリングレートを揃えてください"
            )
        questions = read_flag(request, "enable_interrogative_upspeak", default=True)
        waves = await self._speak(request, asked, style, raise_questions=questions)
        archive = await asyncio.to_thread(_zip, waves)
        return Response(archive, media_type="application/zip", headers=MARKED)

    async def _speak(
        self,
        request: Request,
        asked: Sequence[AudioQuery],
        style: SpeakerStyle,
        *,
        raise_questions: bool,
    ) -> list[bytes]:
        """Speak queries when it is their turn, for as long as somebody listens: WAV files."""
        self._check(asked)
        speeches = [_speech(query, style, raise_questions) for query in asked]
        async with self._counting(request, asked):
            spoken = await self._synthesiser.speak(
                speeches, request.is_disconnected, takes_turns_as(request.scope)
            )

        def write() -> list[bytes]:
            return [
                wav_file(pcm, query.output_sampling_rate, _channels(query), style.marking)
                for pcm, query in zip(spoken, asked, strict=True)
            ]

        return await asyncio.to_thread(write)

    def _counting(
        self, request: Request, asked: Sequence[AudioQuery]
    ) -> AbstractAsyncContextManager[None]:
        characters = sum(map(queries.characters_of, asked))
        owner = key_owner_of(request.scope)
        left = (ClientLeftError,)
        return self._meter.counting(owner, "voicevox", characters=characters, left=left)

    def _check(self, asked: Sequence[AudioQuery]) -> None:
        """Refuse what is too long before anything is made."""
        limits = self._synthesiser.limits
        estimates = [queries.seconds_of(query) for query in asked]
        size = sum(
            2 * seconds * query.output_sampling_rate * _channels(query)
            for seconds, query in zip(estimates, asked, strict=True)
        )
        if sum(estimates) > limits.seconds or size > limits.bytes:
            raise too_long(limits.seconds)


def _channels(query: AudioQuery) -> int:
    return 2 if query.output_stereo else 1


def _speech(query: AudioQuery, style: SpeakerStyle, raise_questions: bool) -> Speech:  # noqa: FBT001
    begin = partial(
        queries.speak, style.engine, query, style.engine_style, raise_questions=raise_questions
    )
    return Speech(begin, query.output_sampling_rate)


def _without_beginning(pieces: Iterator[Samples], samples: int) -> Iterator[Samples]:
    for piece in pieces:
        if len(piece) > samples:
            yield piece[samples:]
        samples = max(samples - len(piece), 0)


class _Sound(StreamingResponse):
    """A WAV file that is sent while it is made; `end` is called however that ends."""

    def __init__(self, content: AsyncIterator[bytes], end: Callable[[], None]) -> None:
        super().__init__(content, media_type="audio/wav", headers=MARKED)
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


def _zip(waves: Sequence[bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, spoken in enumerate(waves, start=1):
            archive.writestr(f"{number:03}.wav", spoken)
    return file.getvalue()
