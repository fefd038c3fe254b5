"""Routes for the user dictionary."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from functions.compat.voicevox.queries import words
from functions.compat.voicevox.routes.parameters import read_body, read_flag, read_number, read_text
from speech.text.phones.dictionary import WordError, WordType, make_word

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.compat.voicevox.memory.memory import UserDictionary
    from speech.text.phones.dictionary import DictionaryWord

_WORDS = TypeAdapter(dict[str, words.UserDictWord])


class DictionaryRoutes:
    """The words that clients add."""

    def __init__(self, dictionary: UserDictionary) -> None:
        self._dictionary = dictionary

    def routes(self) -> list[Route]:
        """Return the routes."""
        word = "/user_dict_word/{number}"
        return [
            Route("/user_dict", self._list_words),
            Route("/user_dict_word", self._add_word, methods=["POST"]),
            Route(word, self._update_word, methods=["PUT"]),
            Route(word, self._delete_word, methods=["DELETE"]),
            Route("/import_user_dict", self._import_words, methods=["POST"]),
        ]

    async def _list_words(self, _: Request) -> Response:
        await asyncio.to_thread(self._dictionary.refresh)
        known = self._dictionary.words()
        return JSONResponse(
            {number: words.body_of(word).model_dump() for number, word in known.items()}
        )

    async def _add_word(self, request: Request) -> Response:
        word = _word(request)
        return JSONResponse(await asyncio.to_thread(self._dictionary.add, word))

    async def _update_word(self, request: Request) -> Response:
        number = request.path_params["number"]
        if not await asyncio.to_thread(self._dictionary.update, number, _word(request)):
            raise _unknown_word()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _delete_word(self, request: Request) -> Response:
        if not await asyncio.to_thread(self._dictionary.delete, request.path_params["number"]):
            raise _unknown_word()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _import_words(self, request: Request) -> Response:
        override = read_flag(request, "override", default=False)
        bodies = _WORDS.validate_json(await read_body(request))
        known = {number: words.word_of(body) for number, body in bodies.items()}
        await asyncio.to_thread(self._dictionary.merge, known, override=override)
        return Response(status_code=HTTPStatus.NO_CONTENT)


def _unknown_word() -> HTTPException:
    return HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "該当する単語が見つかりません")


def _word(request: Request) -> DictionaryWord:
    kind = request.query_params.get("word_type", WordType.PROPER_NOUN)
    if kind not in set(WordType):
        raise WordError(f"word_type: expected one of {', '.join(WordType)}, found {kind[:40]!r}.")
    return make_word(
        read_text(request, "surface"),
        read_text(request, "pronunciation"),
        read_number(request, "accent_type"),
        WordType(kind),
        read_number(request, "priority", default=5),
    )
