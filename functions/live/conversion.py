"""The attempt at a recording that came over a WebSocket.

Its bytes are here already, so it computes while it stores the recording and takes the lease. The
writes keep their order: first the recording, then the lease, then the result, then the end of the
voice.
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
from shared.conversion.worker import Attempt
from shared.pipeline import LIVE, store_recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from functions.live.messages import ClientAnswer
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
    """A complete recording of a voice as it was read at `read_at` of the loop's time."""

    voice: Snapshot
    read_at: float
    data: bytes
    content_type: str
    stream: RecordingStream | None = None


@dataclass(frozen=True, slots=True)
class LiveConversion:
    """The conversion of recordings that came over a WebSocket."""

    voices: VoiceStore
    uploads: Bucket
    conversion: Conversion
    characters: CharacterLender
    admission: Admission
    worker: Worker

    async def convert(self, recording: CompleteRecording, answer: ClientAnswer) -> Voice | None:
        """Convert a recording, commit the outcome and answer; return None if the voice was deleted.

        Raises:
            ObjectExistsError: the voice has another recording; nothing was stored.
            StorageUnavailableError: it is unknown whether the recording was stored.
            Exception: as `Worker.carry_out` says; the recording is stored.
        """
        attempt = LiveAttempt(self, recording, answer)
        try:
            await attempt.store_recording()
            return await self.worker.carry_out(attempt)
        finally:
            await attempt.aclose()


class LiveAttempt(Attempt):
    """An attempt that begins at once with the part that needs neither storage nor a lease."""

    def __init__(
        self, shared: LiveConversion, recording: CompleteRecording, answer: ClientAnswer
    ) -> None:
        super().__init__(recording.voice.voice.voice_id)
        self._shared = shared
        self._recording = recording
        self._answer = answer
        self._upload: Input | None = None
        self._stage = ""
        self._enter_stage: Callable[[str], None] | None = None

        def report_stage(stage: str) -> None:
            self._stage = stage
            if self._enter_stage is not None:
                self._enter_stage(stage)

        self._stages = Stages(report_stage)
        self._has_turn = asyncio.Event()
        self._computation = asyncio.create_task(self._compute())
        # If it ends before it had its turn, the worker must not wait for that.
        self._computation.add_done_callback(lambda _: self._has_turn.set())

    async def store_recording(self) -> None:
        data = self._recording.data
        facts = await store_recording(
            self._shared.uploads,
            self.voice_id,
            io.BytesIO(data),
            size=len(data),
            content_type=self._recording.content_type,
            metadata=LIVE,
        )
        self._upload = facts.as_input()
        self.uploaded_at = datetime.now(UTC).isoformat()
        self._answer.is_stored = True

    async def take_lease(self) -> Lease:
        """Lease the voice, without a wait for another attempt's: the visitor has the document."""
        if self._upload is None:
            raise RuntimeError(f"the recording of {self.voice_id} is not stored")
        read = self._recording.voice
        elapsed = timedelta(seconds=asyncio.get_running_loop().time() - self._recording.read_at)
        known = replace(read, read_at=read.read_at + elapsed)
        return await take_lease(
            self._shared.voices, self.voice_id, self._upload, sleep=None, known=known
        )

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        await self._has_turn.wait()
        yield

    async def convert(
        self,
        voice: Voice,
        character: LoadedCharacter,
        enter_stage: Callable[[str], None],
        pass_on: PassOn,
    ) -> Outcome:
        """Wait for the result, send it and store it."""
        del character, pass_on  # the computation has borrowed the character itself
        self._enter_stage = enter_stage
        if self._stage:
            enter_stage(self._stage)
        made = await self._computation
        self._answer.send_sound(made.encoded)
        return await self._shared.conversion.store(voice, made, self._stages)

    def announce_end(self, voice: Voice) -> None:
        self._answer.send_end(voice)

    async def aclose(self) -> None:
        self._computation.cancel()
        await asyncio.gather(self._computation, return_exceptions=True)

    async def _compute(self) -> UnstoredResult:
        recording, voice = self._recording, self._recording.voice.voice
        async with self._borrow(voice.character) as character, self._shared.admission.turn():
            self._has_turn.set()
            return await self._shared.conversion.make(
                voice,
                character,
                recording.data,
                recording.content_type,
                self._stages,
                early=recording.stream,
            )

    @asynccontextmanager
    async def _borrow(self, character_id: str) -> AsyncIterator[LoadedCharacter]:
        stream = self._recording.stream
        if stream is not None and (lent := await stream.character()) is not None:
            yield lent
            return
        async with self._shared.characters.lend(character_id) as character:
            yield character
