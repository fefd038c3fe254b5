"""Routes from queries to speech."""

from __future__ import annotations

import asyncio
import io
import zipfile
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import TYPE_CHECKING

import numpy as np
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from functions.convert.live.voicevox.parameters import read_body, read_flag, read_style
from functions.convert.live.voicevox.waves import connect_waves
from speech.audio.wav import begin_wav, to_pcm16, write_wav
from speech.voicevox import queries
from speech.voicevox.models import AudioQuery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from functions.convert.admission import Admission
    from functions.convert.live.voicevox.voices import OfferedStyle, Voices

_QUERIES = TypeAdapter(list[AudioQuery])
_WAVES = TypeAdapter(list[str])
_MOST_QUERIES = 32
_CLIENT_CLOSED_REQUEST = 499  # nginx's; nobody is there to read it


class SynthesisRoutes:
    """From query to speech; bounded.

    Args:
        voices: that speak.
        admission: how much is spoken at once, and how much may wait.
    """

    def __init__(self, voices: Voices, admission: Admission) -> None:
        self._voices = voices
        self._admission = admission

    def routes(self) -> list[Route]:
        """Return the routes."""
        posts: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/synthesis": self._synthesis,
            "/multi_synthesis": self._multi_synthesis,
            "/connect_waves": self._connect_waves,
        }
        return [Route(path, handler, methods=["POST"]) for path, handler in posts.items()]

    async def _synthesis(self, request: Request) -> Response:
        style = read_style(self._voices, request)
        query = AudioQuery.model_validate_json(await read_body(request))
        questions = read_flag(request, "enable_interrogative_upspeak", default=True)
        if read_flag(request, "stream", default=False):
            return await self._stream(query, style, raise_questions=questions)
        (spoken,) = await self._speak(request, [query], style, raise_questions=questions)
        return Response(spoken, media_type="audio/wav")

    async def _stream(
        self, query: AudioQuery, style: OfferedStyle, *, raise_questions: bool
    ) -> Response:
        """Answer each sentence as soon as it is spoken, in a WAV file of unknown length.

        Raises:
            OverloadedError: as many requests as may be here are here.
        """
        async with AsyncExitStack() as turn:
            turn.enter_context(self._admission.admit())
            await turn.enter_async_context(self._admission.running())
            pieces = await _begin(query, style, raise_questions=raise_questions)
            first = await asyncio.to_thread(next, pieces, None)
            rest_of_turn = turn.pop_all()

        async def sound() -> AsyncIterator[bytes]:
            channels = 2 if query.output_stereo else 1
            yield begin_wav(query.output_sampling_rate, channels, style.marking)
            piece = first
            while piece is not None:
                yield to_pcm16(piece).tobytes()
                piece = await asyncio.to_thread(next, pieces, None)

        return _Sound(sound(), rest_of_turn.aclose)

    async def _connect_waves(self, request: Request) -> Response:
        waves = _WAVES.validate_json(await read_body(request))
        return Response(await asyncio.to_thread(connect_waves, waves), media_type="audio/wav")

    async def _multi_synthesis(self, request: Request) -> Response:
        style = read_style(self._voices, request)
        asked = _QUERIES.validate_json(await read_body(request))
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
        return Response(_zip(waves), media_type="application/zip")

    async def _speak(
        self,
        request: Request,
        asked: Sequence[AudioQuery],
        style: OfferedStyle,
        *,
        raise_questions: bool,
    ) -> list[bytes]:
        """Speak queries when it is their turn, for as long as somebody listens.

        Raises:
            OverloadedError: as many requests as may be here are here.
        """
        with self._admission.admit():
            async with self._admission.running():
                return [
                    await _say(request, query, style, raise_questions=raise_questions)
                    for query in asked
                ]


async def _say(
    request: Request, query: AudioQuery, style: OfferedStyle, *, raise_questions: bool
) -> bytes:
    """Speak one query, piece by piece, so that a client that left stops it."""
    speak = await _begin(query, style, raise_questions=raise_questions)
    pieces: list[NDArray[np.float32]] = []
    while not await request.is_disconnected():
        piece = await asyncio.to_thread(next, speak, None)
        if piece is None:
            rate = query.output_sampling_rate
            return write_wav(np.concatenate(pieces), rate, style.marking)
        pieces.append(piece)
    raise HTTPException(_CLIENT_CLOSED_REQUEST, "The client closed the connection.")


class _Sound(StreamingResponse):
    """A WAV file that is sent while it is made; `end` is called however that ends."""

    def __init__(self, content: AsyncIterator[bytes], end: Callable[[], Awaitable[None]]) -> None:
        super().__init__(content, media_type="audio/wav")
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._end()


async def _begin(
    query: AudioQuery, style: OfferedStyle, *, raise_questions: bool
) -> Iterator[NDArray[np.float32]]:
    """Begin to speak a query; each piece is computed when it is asked for."""
    return await asyncio.to_thread(
        queries.speak, style.engine, query, style.engine_style, raise_questions=raise_questions
    )


def _zip(waves: Sequence[bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, spoken in enumerate(waves, start=1):
            archive.writestr(f"{number:03}.wav", spoken)
    return file.getvalue()
