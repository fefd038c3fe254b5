"""Routes from text to what clients change and send back: accent phrases and queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import TypeAdapter
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from functions.compat.keys.access import takes_turns_as
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

    from functions.compat.speech.synthesis import Synthesis
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
        synthesis: reads texts when it is their turn: a long one takes a quarter of a second.
    """

    def __init__(
        self,
        voices: Voices,
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
            return _PHRASES.dump_json([queries.body_of(phrase) for phrase in phrases])

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

    def _query(self, text: str, style: OfferedStyle) -> AudioQuery:
        return queries.query_of(self._read(text, style), text)

    def _read(self, text: str, style: OfferedStyle) -> Sequence[AccentPhrase]:
        self._dictionary.refresh()
        return style.engine.read_phrases(text)


def _written(query: AudioQuery) -> bytes:
    return query.model_dump_json(by_alias=True).encode()
