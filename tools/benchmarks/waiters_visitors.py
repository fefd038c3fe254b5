"""Clients that wait in the api, and the voices that they wait for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

from shared.google.firestore import RenewableClient
from shared.voices import voice as voices_of
from shared.voices.objects import result_name, upload_name
from shared.voices.store import Snapshot, VoiceStore, change, document_path, to_document
from shared.voices.voice import Input, Options, Result, Voice


@dataclass(eq=False, slots=True)
class Visitor:
    """A client that waits for one voice."""

    snapshot: Snapshot
    answer: asyncio.Task[tuple[str, float]]


class Crowd:
    """Clients that wait in the api at a port of 127.0.0.1, each over its own connection."""

    def __init__(self, port: int, client: RenewableClient) -> None:
        self._port = port
        self._client = client
        self._addresses = (str(address) for address in ip_network("10.0.0.0/8").hosts())

    async def arrive(self, count: int) -> list[Visitor]:
        """Let at most 500 clients arrive, and return when all of their requests are sent."""
        snapshots = await store_voices(self._client, count)
        sent = [asyncio.Event() for _ in snapshots]
        visitors = [
            Visitor(snapshot, asyncio.create_task(self._wait(snapshot.voice.voice_id, event)))
            for snapshot, event in zip(snapshots, sent, strict=True)
        ]
        for event in sent:
            await event.wait()
        return visitors

    async def _wait(self, voice_id: str, sent: asyncio.Event) -> tuple[str, float]:
        lines = (
            f"GET /api/v1/conversion/{voice_id} HTTP/1.1",
            "Host: localhost",
            f"X-Forwarded-For: {next(self._addresses)}",
            "Connection: close",
        )
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write("\r\n".join((*lines, "", "")).encode())
        finally:
            sent.set()
        try:
            answer = await reader.read()
            return answer.partition(b"\r\n")[0].decode(), time.time()
        finally:
            writer.close()


async def leave(visitors: Iterable[Visitor]) -> None:
    answers = [visitor.answer for visitor in visitors]
    for answer in answers:
        answer.cancel()
    await asyncio.gather(*answers, return_exceptions=True)


async def store_voices(client: RenewableClient, count: int) -> list[Snapshot]:
    converting = [converting_voice() for _ in range(count)]
    batch = client.batch()
    for voice in converting:
        reference = client.document(document_path(voice.voice_id))
        batch.create(reference, to_document(voice))
    written = await batch.commit()
    return [
        Snapshot(voice, result.update_time, result.update_time)
        for voice, result in zip(converting, written, strict=True)
    ]


async def finish(voices: VoiceStore, snapshot: Snapshot) -> float:
    voice_id = snapshot.voice.voice_id
    # `change` tries again if the emulator answers a write with the end of another stream.
    done = await change(voices, voice_id, lambda voice, _now: finished(voice), snapshot)
    if not isinstance(done.revision, datetime):
        raise TypeError(f"Firestore's revisions are times, not {done.revision!r}")
    return done.revision.timestamp()


def converting_voice() -> Voice:
    now = datetime.now(UTC)
    voice = voices_of.create(voices_of.new_voice_id(), "mei", Options(), now=now)
    upload = Input("uploads", upload_name(voice.voice_id), 1, "audio/webm", 50_000)
    return voices_of.lease(voices_of.queue(voice, now, upload), now, upload)


def finished(voice: Voice) -> Voice:
    now, name = datetime.now(UTC), result_name(voice.voice_id, voice.attempt, "wav")
    result = Result(
        bucket="results",
        object=name,
        # As long as a signed address.
        url=f"https://storage.example/results/{name}?{'x' * 700}",
        url_expires_at=now + timedelta(hours=1),
        content_type="audio/wav",
        bytes=150_000,
        seconds=3.0,
        sha256="ab" * 32,
        synthetic={"comment": "Synthetic speech", "character": voice.character},
    )
    timings = {"decode": 1.5, "network": 20.0}
    return voices_of.finish(voice, now, voice.attempt, result, seconds=3.0, timings=timings)


@asynccontextmanager
async def warm_up_target() -> AsyncIterator[str]:

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
