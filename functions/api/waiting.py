"""Waiting for a voice: on a listener, for as long as the client is there."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from functions.api.problems import ClientGoneError, Problem
from shared.store import UnknownVoiceError
from shared.voice import Status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from shared.store import VoiceStore
    from shared.voice import Voice


async def wait_until_final(voices: VoiceStore, voice_id: str, seconds: float) -> Voice:
    """Return a voice as soon as it is done or failed.

    Raises:
        UnknownVoiceError: there is no such voice, or it was deleted meanwhile.
        Problem: `still_converting`, when `seconds` are over.
    """
    try:
        async with asyncio.timeout(seconds), voices.watch(voice_id) as states:
            async for voice in states:
                if voice is None:
                    raise UnknownVoiceError(voice_id)
                if voice.status.is_final:
                    return voice
    except TimeoutError:
        pass
    detail = "The voice is not done yet; call again to go on waiting."
    raise Problem(504, "still_converting", detail, {"Retry-After": "1"})


def final_voice_or_problem(voice: Voice) -> Voice:
    """Return a voice that is done.

    Raises:
        Problem: it failed; the code is the voice's own.
    """
    if voice.status is Status.FAILED and voice.error is not None:
        raise Problem(422, voice.error.code, voice.error.message)
    return voice


async def while_connected(request: Request, work: Callable[[], Awaitable[Voice]]) -> Voice:
    """Do some work, but give it up when the client goes away.

    Raises:
        ClientGoneError: it went away.
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
