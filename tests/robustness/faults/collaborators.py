"""The services that a process under test uses, with barriers around the important steps."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, BinaryIO

from shared.voices.voice import Status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from shared.ports import Bucket, Publisher
    from shared.speech.decoding.decoder import Decoder
    from shared.speech.decoding.recording import DecodeLimits, Recording
    from shared.speech.engines.interface import ConversionOptions, Engine, Stream
    from shared.speech.signal.sound import Samples, StageClock
    from shared.voices.objects import ObjectFacts
    from shared.voices.store import FoundVoices, Snapshot, VoiceStore
    from shared.voices.voice import Voice
    from tests.robustness.faults.barriers import Checkpoints

_VOICE_ID: ContextVar[str] = ContextVar("voice_id")
"""The voice of the current task, because the decoder and the engines do not get it."""


class BarrierVoices:
    """A `VoiceStore` with a point before every read, before every change of status and after it.

    They are named `before_reading_document`, `before_queued`, `queued`, `before_leased`, `leased`,
    `before_done`, `done`, `before_failed` and `failed`; a renewed or handed back lease has none.
    The note at the later point is the time of the change, by the store's clock.
    """

    def __init__(self, voices: VoiceStore, checkpoints: Checkpoints) -> None:
        self._voices = voices
        self._checkpoints = checkpoints

    async def create(self, voice: Voice) -> None:
        await self._voices.create(voice)

    async def read(self, voice_id: str) -> Snapshot:
        await self._checkpoints.pass_by("before_reading_document", voice_id)
        return await self._voices.read(voice_id)

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        is_new = (voice.status, voice.attempt) != (snapshot.voice.status, snapshot.voice.attempt)
        if not is_new:
            return await self._voices.replace(snapshot, voice)
        point = "leased" if voice.status is Status.CONVERTING else voice.status.value
        await self._checkpoints.pass_by(f"before_{point}", voice.voice_id)
        written = await self._voices.replace(snapshot, voice)
        await self._checkpoints.pass_by(point, voice.voice_id, voice.updated_at.isoformat())
        return written

    async def delete(self, voice_id: str) -> None:
        await self._voices.delete(voice_id)

    async def find_unchanged(
        self, status: Status, *, since: datetime, limit: int, after: object = None
    ) -> FoundVoices:
        return await self._voices.find_unchanged(status, since=since, limit=limit, after=after)

    def watch(self, voice_id: str) -> AbstractAsyncContextManager[AsyncIterator[Voice | None]]:
        return self._voices.watch(voice_id)

    async def aclose(self) -> None:
        await self._voices.aclose()


class BarrierUploads:
    """The recordings' bucket with points.

    They are `reading`, `storing_recording`, `recording_stored` and `emptying`.
    """

    def __init__(self, bucket: Bucket, checkpoints: Checkpoints) -> None:
        self._bucket = bucket
        self._checkpoints = checkpoints

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bucket, name)

    async def read(self, name: str, generation: int, *, max_bytes: int) -> bytes:
        _VOICE_ID.set(name)
        await self._checkpoints.pass_by("reading", name)
        return await self._bucket.read(name, generation, max_bytes=max_bytes)

    async def write(self, name: str, content: BinaryIO, **facts: Any) -> ObjectFacts:
        await self._checkpoints.pass_by("storing_recording", name)
        written = await self._bucket.write(name, content, **facts)
        await self._checkpoints.pass_by("recording_stored", name)
        return written

    async def empty(self, name: str, generation: int | None = None) -> None:
        await self._checkpoints.pass_by("emptying", name)
        await self._bucket.empty(name, generation)


class BarrierResults:
    """The results' bucket with the points `storing`, `standing_still` and `stored`.

    Who is held at `standing_still` is held with its whole event loop.
    """

    def __init__(self, bucket: Bucket, checkpoints: Checkpoints) -> None:
        self._bucket = bucket
        self._checkpoints = checkpoints

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bucket, name)

    async def write(
        self, name: str, content: BinaryIO, *, content_type: str, size: int | None = None
    ) -> ObjectFacts:
        voice_id = name.partition("/")[0]
        await self._checkpoints.pass_by("storing", voice_id)
        self._checkpoints.reach("standing_still", voice_id)
        written = await self._bucket.write(name, content, content_type=content_type, size=size)
        await self._checkpoints.pass_by("stored", voice_id)
        return written


class BarrierDecoder:
    """The decoder with the point `decoding`."""

    def __init__(self, decoder: Decoder, checkpoints: Checkpoints) -> None:
        self._decoder = decoder
        self._checkpoints = checkpoints

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)

    async def decode(self, data: bytes, *, limits: DecodeLimits) -> Recording:
        await self._checkpoints.pass_by("decoding", _VOICE_ID.get())
        return await self._decoder.decode(data, limits=limits)


class BarrierEngine:
    """An engine with the point `converting`, at which its thread waits."""

    def __init__(self, engine: Engine, checkpoints: Checkpoints) -> None:
        self._engine = engine
        self._checkpoints = checkpoints

    @property
    def sample_rate(self) -> int:
        return self._engine.sample_rate

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> Samples:
        self._checkpoints.reach("converting", _VOICE_ID.get())
        return self._engine.convert(samples, sample_rate, options, stopwatch)

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> Stream | None:
        return self._engine.open_stream(sample_rate, options)


class NotedPublisher:
    """A topic that notes each message as `published`."""

    def __init__(self, publisher: Publisher, checkpoints: Checkpoints) -> None:
        self._publisher = publisher
        self._checkpoints = checkpoints
        self.aclose = publisher.aclose

    async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
        await self._publisher.publish(data, attributes)
        await self._checkpoints.pass_by("published", attributes["voice_id"])
