"""Waiting for a voice on a listener, for as long as the client is connected."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from functions.api.problems import ClientGoneError, Problem
from shared.voices.store import StoreUnavailableError, UnknownVoiceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from shared.voices.store import VoiceStore
    from shared.voices.voice import Voice


CURRENT_STATE_SECONDS: Final = 10.0  # in which the store must send the state of a voice


async def wait_until_final(
    voices: VoiceStore,
    voice_id: str,
    seconds: float,
    check: Callable[[Voice], Awaitable[None]],
) -> Voice:
    """Return a voice as soon as it is done or failed; `check` gets its current state first."""
    try:
        async with asyncio.timeout(seconds) as patience, voices.watch(voice_id) as states:
            try:
                async with asyncio.timeout(CURRENT_STATE_SECONDS):
                    voice = await anext(states)
            except TimeoutError as error:
                message = "the store did not send the state of the voice"
                raise StoreUnavailableError(message) from error
            if voice is not None:
                await check(voice)
            while voice is not None and not voice.status.is_final:
                voice = await anext(states)
            if voice is None:
                raise UnknownVoiceError(voice_id)
            return voice
    except TimeoutError:
        if not patience.expired():
            raise
    detail = "The voice is not done yet; call again to go on waiting."
    raise Problem(504, "still_converting", detail, {"Retry-After": "1"})


async def while_connected(request: Request, work: Callable[[], Awaitable[Voice]]) -> Voice:
    """Do some work, but cancel it and raise `ClientGoneError` when the client disconnects."""
    work_task = asyncio.ensure_future(work())
    disconnection = asyncio.ensure_future(_wait_for_disconnection(request))
    try:
        await asyncio.wait({work_task, disconnection}, return_when=asyncio.FIRST_COMPLETED)
        if not work_task.done():
            raise ClientGoneError
        return work_task.result()
    finally:
        for task in (work_task, disconnection):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _wait_for_disconnection(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
