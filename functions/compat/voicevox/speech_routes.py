"""Routes from text to accent phrases and queries, which clients change, and from these to WAV."""

from __future__ import annotations

import asyncio
import base64
import io
import struct
import wave
import zipfile
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import FailFast, Field, TypeAdapter
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from functions.compat.service.http_messages import MARKED, SpokenAnswer, unread_header
from functions.compat.service.keys import key_owner_of
from functions.compat.service.synthesis import BYTES_PER_SECOND, Speech
from functions.compat.voicevox import queries
from functions.compat.voicevox.queries import AccentPhraseBodies, AudioQuery, Preset, parse_kana
from functions.compat.voicevox.requests import (
    WavesError,
    find_style,
    read_body,
    read_flag,
    read_number,
    read_seconds,
    read_style,
    read_text,
    unknown_preset,
)
from shared.speech.engines.text_interface import SpeechOptions, divide_text
from shared.speech.results.audio_files import begin_wav, wav_file
from shared.speech.results.statement import DIGITAL_SOURCE_TYPE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request

    from functions.compat.service.keys import Meter
    from functions.compat.service.synthesis import Synthesis
    from functions.compat.voicevox.speakers import SpeakerStyle, VoicevoxSpeakers
    from functions.compat.voicevox.user_data import UserData
    from shared.speech.signal.sound import Samples
    from shared.speech.text.accents import AccentPhrase

MOST_WAVES = 128

_STATEMENTS: Final = (b"LIST", b"_PMX")
_SYNTHETIC: Final = DIGITAL_SOURCE_TYPE.encode()
_MOST_BEFORE: Final = 64 << 10  # the part of a file that is searched
_HEAD_BYTES, _FORMAT_END = 8, 36  # of a chunk; in the files that the module writes


def connect_waves(encoded: Sequence[str]) -> tuple[bytes, bool]:
    """Join WAV files, each in base64; return the file, and whether it states synthetic speech.

    The statement is that of the first file that has one.
    """
    if not 1 <= len(encoded) <= MOST_WAVES:
        raise WavesError("wavファイルが含まれていません")
    parts = [_read(each) for each in encoded]
    parameters = parts[0][0]
    if any(other[:3] != parameters[:3] for other, _, _ in parts):
        raise WavesError("expected files of one sample rate, width and number of channels")
    joined = io.BytesIO()
    with wave.open(joined, "wb") as writer:
        writer.setparams(parameters)
        for _, frames, _ in parts:
            writer.writeframes(frames)
    marks = next((marks for _, _, marks in parts if marks), b"")
    wav = joined.getvalue()
    size = len(wav) + len(marks) - _HEAD_BYTES
    beginning = b"RIFF" + struct.pack("<I", size) + wav[8:_FORMAT_END]
    return beginning + marks + wav[_FORMAT_END:], bool(marks)


def _marks_in(wav: bytes) -> bytes:
    """Return the chunks with the statement; they come before the samples."""
    marks, begin = b"", 12
    while begin + _HEAD_BYTES <= min(len(wav), _MOST_BEFORE) and wav[begin : begin + 4] != b"data":
        (size,) = struct.unpack_from("<I", wav, begin + 4)
        end = begin + _HEAD_BYTES + size + size % 2
        if wav[begin : begin + 4] in _STATEMENTS and _SYNTHETIC in wav[begin:end]:
            marks += wav[begin:end]
        begin = end
    return marks


def _read(encoded: str) -> tuple[Any, bytes, bytes]:
    try:
        content = base64.b64decode(encoded, validate=True)
        with wave.open(io.BytesIO(content)) as reader:
            frames = reader.readframes(reader.getnframes())
            return reader.getparams(), frames, _marks_in(content)
    except (ValueError, RuntimeError, wave.Error, EOFError) as error:
        # The module seeks beyond a chunk that is cut off, which is a RuntimeError.
        raise WavesError("expected WAV files in base64, found others") from error


_PHRASES = TypeAdapter(AccentPhraseBodies)


class QueryRoutes:
    """From text to query; reading a long text takes a quarter of a second, and so its turn."""

    def __init__(self, voices: VoicevoxSpeakers, user_data: UserData, synthesis: Synthesis) -> None:
        self._voices = voices
        self._presets, self._dictionary = user_data.presets, user_data.dictionary
        self._synthesis = synthesis

    def routes(self) -> list[Route]:
        posts: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/audio_query": self.audio_query,
            "/audio_query_from_preset": self.audio_query_from_preset,
            "/accent_phrases": self.accent_phrases,
            "/mora_data": self.check_phrases,
            "/mora_length": self.check_phrases,
            "/mora_pitch": self.check_phrases,
            "/validate_kana": self.validate_kana,
        }
        return [Route(path, handler, methods=["POST"]) for path, handler in posts.items()]

    async def audio_query(self, request: Request) -> Response:
        style, text = read_style(self._voices, request), read_text(request, "text")
        return await self._answer(request, lambda: self._query(text, style))

    async def audio_query_from_preset(self, request: Request) -> Response:
        number, text = read_number(request, "preset_id"), read_text(request, "text")

        def answer() -> tuple[bytes, dict[str, str]]:
            preset = self._presets.find(number)
            if preset is None:
                raise unknown_preset()
            return self._query(text, find_style(self._voices, preset.style_id), preset)

        return await self._answer(request, answer)

    async def accent_phrases(self, request: Request) -> Response:
        style, text = read_style(self._voices, request), read_text(request, "text")
        is_kana = read_flag(request, "is_kana", default=False)

        def answer() -> tuple[bytes, dict[str, str]]:
            phrases, headers = (parse_kana(text), {}) if is_kana else self._read(text, style)
            return _PHRASES.dump_json(list(map(queries.query_body_of, phrases))), headers

        return await self._answer(request, answer)

    async def check_phrases(self, request: Request) -> Response:
        read_style(self._voices, request)
        body = await read_body(request)
        return await self._answer(
            request, lambda: (_PHRASES.dump_json(_PHRASES.validate_json(body)), {})
        )

    async def validate_kana(self, request: Request) -> Response:
        parse_kana(read_text(request, "text"))
        return JSONResponse(content=True)

    async def _answer(
        self, request: Request, answer: Callable[[], tuple[bytes, dict[str, str]]]
    ) -> Response:
        content, headers = await self._synthesis.compute(answer, key_owner_of(request.scope))
        return Response(content, media_type="application/json", headers=headers)

    def _query(
        self, text: str, style: SpeakerStyle, preset: Preset | None = None
    ) -> tuple[bytes, dict[str, str]]:
        phrases, headers = self._read(text, style)
        query = queries.query_of(phrases, text)
        if preset is not None:
            others = {"id", "name", "speaker_uuid", "style_id"}
            query = query.model_copy(update=preset.model_dump(exclude=others))
        return query.model_dump_json(by_alias=True).encode(), headers

    def _read(self, text: str, style: SpeakerStyle) -> tuple[list[AccentPhrase], dict[str, str]]:
        self._dictionary.refresh()
        headers = {}
        if text.strip():  # clients ask for queries of empty texts, and write into them
            headers = unread_header(divide_text(style.engine, text, SpeechOptions()))
        return style.engine.read_phrases(text), headers


_MOST_QUERIES = 32
_QUERIES = TypeAdapter(Annotated[list[AudioQuery], Field(max_length=_MOST_QUERIES), FailFast()])
_WAVES = TypeAdapter(Annotated[list[str], Field(max_length=MOST_WAVES), FailFast()])
_SEGMENT_SECONDS = 0.3


class SynthesisRoutes:
    def __init__(self, voices: VoicevoxSpeakers, synthesis: Synthesis, meter: Meter) -> None:
        self._voices = voices
        self._synthesis = synthesis
        self._meter = meter

    def routes(self) -> list[Route]:
        posts: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/synthesis": self.synthesise,
            "/streaming_synthesis": self.stream_segments,
            "/multi_synthesis": self.synthesise_many,
            "/connect_waves": self.connect_waves,
        }
        return [Route(path, handler, methods=["POST"]) for path, handler in posts.items()]

    async def synthesise(self, request: Request) -> Response:
        utterance = await self._read(request)
        if read_flag(request, "stream", default=False):
            return await self._stream(request, utterance)
        (spoken,) = await self._speak(request, [utterance])
        return Response(spoken, media_type="audio/wav", headers=MARKED)

    async def stream_segments(self, request: Request) -> Response:
        """Answer as VOICEVOX has done since September 2026.

        VOICEVOX sends segments of one length. Here a sentence is a segment, so `segment_length` is
        checked and then ignored.
        """
        utterance = await self._read(request)
        # Nothing is spoken for longer than the limit, so there is nothing after it, either.
        start = min(read_seconds(request, "start_offset", 0.0), self._synthesis.limits.seconds)
        read_seconds(request, "segment_length", _SEGMENT_SECONDS, least=0.0)
        return await self._stream(request, utterance, start)

    async def synthesise_many(self, request: Request) -> Response:
        style = read_style(self._voices, request)
        asked = await asyncio.to_thread(_QUERIES.validate_json, await read_body(request))
        if not 1 <= len(asked) <= _MOST_QUERIES:
            detail = f"音声合成クエリは1から{_MOST_QUERIES}個までです"
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
        if len({query.output_sampling_rate for query in asked}) > 1:
            detail = "サンプリングレートを揃えてください"
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
        questions = read_flag(request, "enable_interrogative_upspeak", default=True)
        waves = await self._speak(request, [Utterance(each, style, questions) for each in asked])

        def archive() -> bytes:
            with zipfile.ZipFile(file := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as written:
                for number, spoken in enumerate(waves, start=1):
                    written.writestr(f"{number:03}.wav", spoken)
            return file.getvalue()

        content = await asyncio.to_thread(archive)
        return Response(content, media_type="application/zip", headers=MARKED)

    async def connect_waves(self, request: Request) -> Response:
        waves = _WAVES.validate_json(await read_body(request))
        joined, is_marked = await asyncio.to_thread(connect_waves, waves)
        return Response(joined, media_type="audio/wav", headers=MARKED if is_marked else None)

    async def _read(self, request: Request) -> Utterance:
        style = read_style(self._voices, request)
        query = await asyncio.to_thread(AudioQuery.model_validate_json, await read_body(request))
        questions = read_flag(request, "enable_interrogative_upspeak", default=True)
        return Utterance(query, style, questions)

    async def _stream(self, request: Request, utterance: Utterance, start: float = 0.0) -> Response:
        """Answer with each sentence as soon as it is spoken, without the first `start` seconds.

        The WAV file says that its length is unknown.
        """
        speech = utterance.speech()

        def begin() -> Iterator[Samples]:
            left_out = round(start * speech.sample_rate)
            for piece in speech.begin():
                if len(piece) > left_out:
                    yield piece[left_out:]
                left_out = max(left_out - len(piece), 0)

        later = replace(speech, begin=begin)
        owner = key_owner_of(request.scope)
        async with self._count(owner, [utterance]):
            stream = await self._synthesis.stream(later, owner)

        async def with_header(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            yield begin_wav(speech.sample_rate, utterance.channels, utterance.style.marking)
            async for pcm in pieces:
                yield pcm

        return SpokenAnswer(self._synthesis, stream, "audio/wav", with_header)

    async def _speak(self, request: Request, asked: Sequence[Utterance]) -> list[bytes]:
        owner = key_owner_of(request.scope)
        speeches = [each.speech() for each in asked]
        async with self._count(owner, asked):
            spoken = await self._synthesis.speak(speeches, request.is_disconnected, owner)
        return await asyncio.to_thread(
            lambda: [
                wav_file(pcm, each.query.output_sampling_rate, each.channels, each.style.marking)
                for pcm, each in zip(spoken, asked, strict=True)
            ]
        )

    def _count(
        self, owner: str | None, asked: Sequence[Utterance]
    ) -> AbstractAsyncContextManager[None]:
        characters = sum(queries.characters_of(each.query) for each in asked)
        return self._meter.count(owner, "voicevox", characters=characters)


@dataclass(frozen=True, slots=True)
class Utterance:
    query: AudioQuery
    style: SpeakerStyle
    raise_questions: bool

    @property
    def channels(self) -> int:
        return 2 if self.query.output_stereo else 1

    def speech(self) -> Speech:
        asked = self.style.engine, self.query, self.style.engine_style
        # A second with more bytes than usual counts for as many seconds as these take.
        size = 2 * self.query.output_sampling_rate * self.channels
        factor = max(1.0, size / BYTES_PER_SECOND)
        return Speech(
            partial(queries.speak, *asked, raise_questions=self.raise_questions),
            self.query.output_sampling_rate,
            estimate=lambda: queries.estimate(*asked) * factor,
        )
