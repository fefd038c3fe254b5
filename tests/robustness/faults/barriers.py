"""Barriers: points at which a process under test waits until the test lets it continue.

The process reports a point over a connection and waits for the answer, so that the test knows
exactly where it is when it kills it, cuts its connections or lets another one overtake it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

VARIABLE = "BARRIERS"
"""The environment variable with the address at which the test listens."""

PATIENCE_SECONDS = 60.0
"""How long a test waits for an arrival; only a failing test waits so long."""

_GO = b"go\n"
_FAIL = b"fail\n"


class InjectedError(MemoryError):
    """The error that a process under test raises when the test orders a failure.

    A lack of memory counts as an attempt and is tried again; a mistake would end the voice at once.
    """


class Checkpoints:
    """The side of the process: reports points and waits.

    Args:
        address: HOST:PORT of the test's `Barriers`.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))

    def reach(self, point: str, voice_id: str) -> None:
        """Report a point and wait for permission; raise `InjectedError` if the test orders it."""
        with socket.create_connection(self._address) as connection:
            connection.sendall(_arrival(voice_id, point))
            answer = connection.recv(len(_FAIL))
        if answer == _FAIL:
            raise InjectedError(f"the test lets {point} fail")

    async def pass_by(self, point: str, voice_id: str, note: str = "") -> None:
        """Do the same as `reach` without blocking the event loop; the test can read `note`."""
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            writer.write(_arrival(voice_id, point, note))
            answer = await reader.readline()
        finally:
            writer.close()
        if answer == _FAIL:
            raise InjectedError(f"the test lets {point} fail")


def _arrival(voice_id: str, point: str, note: str = "") -> bytes:
    return json.dumps([voice_id, point, note, os.getpid()]).encode() + b"\n"


@dataclass
class _Point:
    is_held: bool = False
    fails: bool = False
    notes: list[str] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)


class Barriers:
    """The side of the test: chooses which points of which voice are held, and releases them."""

    def __init__(self) -> None:
        self._points: defaultdict[tuple[str, str], _Point] = defaultdict(_Point)
        self._changed = asyncio.Condition()
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def hold(self, voice_id: str, point: str) -> None:
        self._points[voice_id, point].is_held = True

    def fail(self, voice_id: str, point: str) -> None:
        self._points[voice_id, point].fails = True

    def release(self, voice_id: str, point: str) -> None:
        """Release every process that waits at a point, and hold no other one there."""
        held = self._points[voice_id, point]
        held.is_held = False
        held.gate.set()

    async def arrival(self, voice_id: str, point: str, times: int = 1) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._points[voice_id, point].notes) >= times)

    def notes(self, voice_id: str, point: str) -> list[str]:
        return self._points[voice_id, point].notes

    def pids(self, voice_id: str, point: str) -> list[int]:
        return self._points[voice_id, point].pids

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        with suppress(ConnectionError):
            # Nothing comes from a process that was killed before it named the point.
            if arrival := await reader.readline():
                await self._answer(arrival, writer)
        writer.close()

    async def _answer(self, arrival: bytes, writer: asyncio.StreamWriter) -> None:
        voice_id, point, note, pid = json.loads(arrival)
        reached = self._points[voice_id, point]
        reached.notes.append(note)
        reached.pids.append(pid)
        async with self._changed:
            self._changed.notify_all()
        if reached.is_held:
            await reached.gate.wait()
        writer.write(_FAIL if reached.fails else _GO)
        await writer.drain()
