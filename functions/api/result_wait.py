"""Waiting for a voice on a listener, for as long as the client is connected."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from functions.api.problems import ClientGoneError, Problem
from shared.voices.store import StoreUnavailableError, UnknownVoiceError
from shared.voices.voice import Status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request

    from shared.voices.store import VoiceStore
    from shared.voices.voice import Voice


CURRENT_STATE_SECONDS: Final = 10.0
"""How long the store may take to send the current state of a voice before it is unavailable."""


async def wait_until_final(
    voices: VoiceStore,
    voice_id: str,
    seconds: float,
    check: Callable[[Voice], Awaitable[None]],
) -> Voice:
    """Return a voice as soon as it is done or failed.

    The listener also sends the current state, so the voice need not be read first.

    Raises:
        UnknownVoiceError: there is no such voice, or it was deleted meanwhile.
        StoreUnavailableError: the store does not answer.
        Problem: `still_converting`: the voice was not final after `seconds`.
    """
    try:
        async with asyncio.timeout(seconds) as patience, voices.watch(voice_id) as states:
            voice = _required(await _current(states), voice_id)
            await check(voice)
            while not voice.status.is_final:
                voice = _required(await anext(states), voice_id)
            return voice
    except TimeoutError:
        if not patience.expired():
            raise
    detail = "The voice is not done yet; call again to go on waiting."
    raise Problem(504, "still_converting", detail, {"Retry-After": "1"})


async def _current(states: AsyncIterator[Voice | None]) -> Voice | None:
    try:
        async with asyncio.timeout(CURRENT_STATE_SECONDS):
            return await anext(states)
    except TimeoutError as error:
        raise StoreUnavailableError("the store did not send the state of the voice") from error


def _required(voice: Voice | None, voice_id: str) -> Voice:
    if voice is None:
        raise UnknownVoiceError(voice_id)
    return voice


def final_voice_or_problem(voice: Voice) -> Voice:
    """Return a voice that is done.

    Raises:
        Problem: the voice has failed; the code is that of its error.
    """
    if voice.status is Status.FAILED and voice.error is not None:
        raise Problem(422, voice.error.code, voice.error.message)
    return voice


async def while_connected(request: Request, work: Callable[[], Awaitable[Voice]]) -> Voice:
    """Do some work, but cancel it when the client closes its connection.

    Raises:
        ClientGoneError: the client has closed it.
    """
    working = asyncio.ensure_future(work())
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGoneError
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _disconnected(request: Request) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
