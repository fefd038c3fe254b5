"""A TCP proxy whose connections can be cut, reset, delayed, and forgotten."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Self


class Proxy:
    """Passes bytes on between clients and a server at HOST:PORT.

    `connections` counts the connections that were let through; while it refuses, each one that
    comes is closed at once.
    """

    def __init__(self, target: str, delay_seconds: float = 0.0) -> None:
        self.delay_seconds = delay_seconds
        self._host, _, self._port = target.rpartition(":")
        self._writers: set[asyncio.StreamWriter] = set()
        self._piping: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Condition()
        self._refuses = False
        self._answering: set[asyncio.StreamWriter] = set()
        self._dead: set[asyncio.StreamWriter] = set()
        self._let_through: dict[asyncio.StreamWriter, int] = {}
        self.connections = 0
        self.refused = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._server.close()
        self.cut()
        for task in self._piping:
            task.cancel()
        await asyncio.gather(*self._piping, return_exceptions=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """End every connection without closing the protocol inside it."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    def reset(self) -> None:
        """End every connection with a reset (RST), as a host does that has started again."""
        for writer in tuple(self._writers):
            linger = struct.pack("ii", 1, 0)
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.cut()

    def cut_in_the_answer(self, after_bytes: int) -> None:
        """End each connection that is open when so many more bytes have come back on it."""
        self._let_through |= dict.fromkeys(self._answering, after_bytes)

    def forget(self) -> None:
        """Let nothing come back any more on the connections that are open; new ones work.

        As after a NAT has dropped its entries: what is sent goes nowhere, and nobody says so.
        """
        self._dead |= self._answering

    def refuse(self, refuses: bool) -> None:  # noqa: FBT001 - a switch
        self._refuses = refuses

    async def until_refused(self, times: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.refused >= times)

    async def until_connected(self, times: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.connections >= times)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            self.refused += 1
            writer.transport.abort()
            await self._notify()
            return
        self.connections += 1
        their_reader, their_writer = await asyncio.open_connection(self._host, int(self._port))
        self._writers |= {writer, their_writer}
        self._answering.add(writer)
        for source, sink in ((reader, their_writer), (their_reader, writer)):
            task = asyncio.create_task(self._pipe(source, sink))
            self._piping.add(task)
            task.add_done_callback(self._piping.discard)
        await self._notify()

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while data := await source.read(65_536):
                if sink in self._dead:
                    continue
                left = self._let_through.get(sink)
                if left is not None and len(data) > left:
                    sink.write(data[:left])
                    break
                if left is not None:
                    self._let_through[sink] = left - len(data)
                # What follows is not held up by what is held back.
                loop.call_later(self.delay_seconds, sink.write, data)
                await sink.drain()
        if sink in self._dead:
            # Whoever has forgotten a connection does not tell its end, either.
            return
        loop.call_later(self.delay_seconds, self._close, sink)
        self._let_through.pop(sink, None)
        self._answering.discard(sink)

    def _close(self, writer: asyncio.StreamWriter) -> None:
        writer.close()
        self._writers.discard(writer)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def forgotten(proxy: Proxy) -> None:
    proxy.forget()


def delayed(proxy: Proxy) -> None:
    proxy.delay_seconds = 1.0


def cut_in_the_answer(proxy: Proxy) -> None:
    proxy.cut_in_the_answer(10)


def reset(proxy: Proxy) -> None:
    proxy.reset()


def reset_while_it_waits(proxy: Proxy) -> None:
    """The client has sent what it wants and has no answer yet: it learns of the reset only then."""
    proxy.delay_seconds = 0.3
    asyncio.get_running_loop().call_later(0.2, proxy.reset)


FAULTS = (forgotten, delayed, cut_in_the_answer, reset, reset_while_it_waits)
