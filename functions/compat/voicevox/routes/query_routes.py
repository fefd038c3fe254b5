"""Routes from text to what clients change and send back: accent phrases and queries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pydantic import TypeAdapter
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from functions.compat.voicevox.queries import queries
from functions.compat.voicevox.queries.kana import parse_kana
from functions.compat.voicevox.queries.models import AccentPhrases, AudioQuery
from functions.compat.voicevox.routes.errors import unknown_preset
from functions.compat.voicevox.routes.parameters import (
    find_style,
    read_body,
    read_flag,
    read_number,
    read_style,
    read_text,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request

    from functions.compat.voicevox.memory.memory import Presets, UserDictionary
    from functions.compat.voicevox.speech.voices import OfferedStyle, Voices
    from speech.text.phones.accents import AccentPhrase

_PHRASES = TypeAdapter(AccentPhrases)


class QueryRoutes:
    """From text to query.

    Args:
        voices: that read texts.
        presets: with which queries can be made.
        dictionary: the words that clients added.
    """

    def __init__(self, voices: Voices, presets: Presets, dictionary: UserDictionary) -> None:
        self._voices = voices
        self._presets = presets
        self._dictionary = dictionary

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
        style = read_style(self._voices, request)
        return _answer(await self._query(read_text(request, "text"), style))

    async def _audio_query_from_preset(self, request: Request) -> Response:
        preset = self._presets.find(read_number(request, "preset_id"))
        if preset is None:
            raise unknown_preset()
        style = find_style(self._voices, preset.style_id)
        query = await self._query(read_text(request, "text"), style)
        return _answer(queries.apply_preset(query, preset))

    async def _accent_phrases(self, request: Request) -> Response:
        style = read_style(self._voices, request)
        text = read_text(request, "text")
        if read_flag(request, "is_kana", default=False):
            phrases: Sequence[AccentPhrase] = parse_kana(text)
        else:
            phrases = await self._read(text, style)
        bodies = [queries.body_of(phrase) for phrase in phrases]
        return JSONResponse(_PHRASES.dump_python(bodies, mode="json", by_alias=True))

    async def _unchanged(self, request: Request) -> Response:
        """Answer what was sent: lengths and pitch are the voices' own."""
        read_style(self._voices, request)
        phrases = _PHRASES.validate_json(await read_body(request))
        return JSONResponse(_PHRASES.dump_python(phrases, mode="json", by_alias=True))

    async def _validate_kana(self, request: Request) -> Response:
        parse_kana(read_text(request, "text"))
        return JSONResponse(content=True)

    async def _query(self, text: str, style: OfferedStyle) -> AudioQuery:
        return queries.query_of(await self._read(text, style), text)

    async def _read(self, text: str, style: OfferedStyle) -> Sequence[AccentPhrase]:
        def read() -> Sequence[AccentPhrase]:
            self._dictionary.refresh()
            return style.engine.read_phrases(text)

        return await asyncio.to_thread(read)


def _answer(query: AudioQuery) -> Response:
    return JSONResponse(query.model_dump(by_alias=True))
