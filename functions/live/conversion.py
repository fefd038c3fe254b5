"""Converting a recording whose bytes are here already, at the same time as it is stored and leased.

What is written keeps its order: first the recording, then the lease, then the result, then the end
of the voice. Only the computing does not wait for the first two.
"""

from __future__ import annotations

import asyncio
import io
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from shared.conversion.leases import take_lease
from shared.conversion.stopwatch import Stages
from shared.conversion.worker import ConversionJob
from shared.pipeline import LIVE, store_recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from functions.live.stream import RecordingStream
    from shared.container.admission import Admission, PassOn
    from shared.conversion.characters import CharacterLender, LoadedCharacter
    from shared.conversion.leases import Lease
    from shared.conversion.stages import Conversion, Outcome, UnstoredResult
    from shared.conversion.worker import Worker
    from shared.ports import Bucket
    from shared.voices.store import Snapshot, VoiceStore
    from shared.voices.voice import Input, Voice


@dataclass(frozen=True, slots=True)
class CompleteRecording:
    """A complete recording.

    Attributes:
        voice: the voice, as it was read at `read_at`.
        data: the recording's bytes.
        listening: knows what was done while it came; None if nothing was.
    """

    voice: Snapshot
    read_at: float
    data: bytes
    content_type: str
    listening: RecordingStream | None = None


@dataclass(frozen=True, slots=True)
class ConversionEvents:
    """What is called while a recording is converted."""

    stored: Callable[[], None]
    made: Callable[[UnstoredResult], None]
    ended: Callable[[Voice], None]


class LiveConversion:
    """Stores, leases and converts recordings that came over a WebSocket."""

    def __init__(
        self,
        voices: VoiceStore,
        uploads: Bucket,
        computing: ComputationDependencies,
        worker: Worker,
    ) -> None:
        self._voices = voices
        self._uploads = uploads
        self._computing = computing
        self._worker = worker

    async def convert(
        self, recording: CompleteRecording, progress: ConversionEvents
    ) -> Voice | None:
        """Convert a recording and commit the outcome.

        Returns:
            The voice in its final state, or None if it was deleted.

        Raises:
            ObjectExistsError: the voice has another recording; nothing was stored.
            StorageUnavailableError: it is unknown whether the recording was stored.
            Exception: as `Worker.carry_out` says; the recording is stored.
        """
        computation = EarlyComputation(self._computing, recording)
        try:
            upload = await self._store(recording)
            progress.stored()
            job = self._job(recording, upload, computation, progress)
            return await self._worker.carry_out(job)
        finally:
            await computation.aclose()

    def _job(
        self,
        recording: CompleteRecording,
        upload: Input,
        computation: EarlyComputation,
        progress: ConversionEvents,
    ) -> ConversionJob:
        voice_id = recording.voice.voice.voice_id

        async def take() -> Lease:
            # It does not wait for another attempt's lease: the visitor waits for the document then.
            elapsed = timedelta(seconds=asyncio.get_running_loop().time() - recording.read_at)
            known = replace(recording.voice, read_at=recording.voice.read_at + elapsed)
            return await take_lease(self._voices, voice_id, upload, sleep=None, known=known)

        async def run(
            voice: Voice,
            _character: LoadedCharacter,
            enter_stage: Callable[[str], None],
            _pass_on: PassOn,
        ) -> Outcome:
            made = await computation.result(enter_stage)
            progress.made(made)
            return await self._computing.conversion.store(voice, made, computation.stages)

        uploaded_at = datetime.now(UTC).isoformat()
        return ConversionJob(voice_id, take, computation.begun, run, uploaded_at, progress.ended)

    async def _store(self, recording: CompleteRecording) -> Input:
        facts = await store_recording(
            self._uploads,
            recording.voice.voice.voice_id,
            io.BytesIO(recording.data),
            size=len(recording.data),
            content_type=recording.content_type,
            metadata=LIVE,
        )
        return facts.as_input()


@dataclass(frozen=True, slots=True)
class ComputationDependencies:
    """What computes results."""

    conversion: Conversion
    characters: CharacterLender
    admission: Admission


class EarlyComputation:
    """The part of a conversion that needs neither the stored recording nor the lease.

    It begins at once.
    """

    def __init__(self, computing: ComputationDependencies, recording: CompleteRecording) -> None:
        self._computing = computing
        self._recording = recording
        self._stage = ""
        self._tell: Callable[[str], None] | None = None
        self._has_begun = asyncio.Event()
        self.stages = Stages(self._report)
        self._task = asyncio.create_task(self._compute())
        # If it ends before it could begin, nobody must wait for its beginning.
        self._task.add_done_callback(lambda _: self._has_begun.set())

    @asynccontextmanager
    async def begun(self) -> AsyncIterator[None]:
        """Wait until the computing has begun."""
        await self._has_begun.wait()
        yield

    async def result(self, enter_stage: Callable[[str], None]) -> UnstoredResult:
        """Wait for the result; `enter_stage` is called with the present and later stages.

        Raises:
            Exception: as `Conversion.make` says.
        """
        self._tell = enter_stage
        if self._stage:
            enter_stage(self._stage)
        return await self._task

    async def aclose(self) -> None:
        """Stop, if it goes on."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _compute(self) -> UnstoredResult:
        recording, voice = self._recording, self._recording.voice.voice
        borrowed = self._character(voice.character)
        async with borrowed as character, self._computing.admission.running():
            self._has_begun.set()
            return await self._computing.conversion.make(
                voice,
                character,
                recording.data,
                recording.content_type,
                self.stages,
                early=recording.listening,
            )

    @asynccontextmanager
    async def _character(self, character_id: str) -> AsyncIterator[LoadedCharacter]:
        listening = self._recording.listening
        if listening is not None and (lent := await listening.character()) is not None:
            yield lent
            return
        async with self._computing.characters.using(character_id) as character:
            yield character

    def _report(self, stage: str) -> None:
        self._stage = stage
        if self._tell is not None:
            self._tell(stage)
