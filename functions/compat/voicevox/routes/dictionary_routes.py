"""Routes for the user dictionary."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

from pydantic import FailFast, Field, TypeAdapter
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from functions.compat.keys.access import takes_turns_as
from functions.compat.voicevox.memory.memory import MOST_WORDS
from functions.compat.voicevox.queries import words
from functions.compat.voicevox.routes.parameters import read_body, read_flag, read_number, read_text
from speech.text.phones.dictionary import WordError, WordType, make_word

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from functions.compat.speech.synthesis import Synthesis
    from functions.compat.voicevox.memory.memory import UserDictionary
    from speech.text.phones.dictionary import DictionaryWord

_WORDS = TypeAdapter(
    Annotated[dict[UUID, words.UserDictWord], Field(max_length=MOST_WORDS), FailFast()]
)
_ANY_WORDS = TypeAdapter(dict[str, words.UserDictWord])
_Result = TypeVar("_Result")


class DictionaryRoutes:
    """The words that clients add.

    Args:
        dictionary: the words.
        synthesis: compiles them when it is the request's turn: thousands take a while.
    """

    def __init__(self, dictionary: UserDictionary, synthesis: Synthesis) -> None:
        self._dictionary = dictionary
        self._synthesis = synthesis

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

    async def _list_words(self, request: Request) -> Response:
        content = await self._in_turn(request, self._write_all)
        return Response(content, media_type="application/json")

    def _write_all(self) -> bytes:
        self._dictionary.refresh()
        known = self._dictionary.words()
        return _ANY_WORDS.dump_json({name: words.body_of(word) for name, word in known.items()})

    async def _add_word(self, request: Request) -> Response:
        word = _word(request)
        return JSONResponse(await self._in_turn(request, lambda: self._dictionary.add(word)))

    async def _update_word(self, request: Request) -> Response:
        number, word = request.path_params["number"], _word(request)
        if not await self._in_turn(request, lambda: self._dictionary.update(number, word)):
            raise _unknown_word()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _delete_word(self, request: Request) -> Response:
        number = request.path_params["number"]
        if not await self._in_turn(request, lambda: self._dictionary.delete(number)):
            raise _unknown_word()
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _import_words(self, request: Request) -> Response:
        override = read_flag(request, "override", default=False)
        body = await read_body(request)

        def take_in() -> None:
            bodies = _WORDS.validate_json(body)
            known = {str(number): words.word_of(each) for number, each in bodies.items()}
            self._dictionary.merge(known, override=override)

        await self._in_turn(request, take_in)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _in_turn(self, request: Request, act: Callable[[], _Result]) -> _Result:
        return await self._synthesis.think(act, takes_turns_as(request.scope))


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
