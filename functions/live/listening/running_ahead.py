"""Converts what is complete of a recording, up to a pause, while the visitor goes on.

Only characters that are slow gain from it. What is converted ahead changes nothing of the result:
the conversion at the end takes a piece only if it would convert it from the same input. It has half
of the places of conversions at most, and threads of its own: recordings that are complete come
first.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from conversion.conversion import conversion_options
from functions.live.listening.incoming import MOST_WAITING_BYTES
from shared.errors import PassingError
from shared.process.logs import about_voice
from shared.voices.voice import VoiceError
from speech.engines.interface.ahead import Ahead
from speech.engines.interface.engine import ConvertsAhead
from speech.signal.pauses import Pauses

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from conversion.admission import Admission
    from conversion.characters.lending import Characters
    from functions.live.listening.incoming import IncomingRecording, IncomingRecordings
    from shared.voices.voice import Voice
    from speech.signal.arrays import Samples

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AheadTools:
    """What all recordings share that are converted while they come.

    Attributes:
        recordings: decodes recordings while they come.
        characters: lends the characters.
        admission: how much is converted at once.
        executor: its threads convert.
    """

    recordings: IncomingRecordings
    characters: Characters
    admission: Admission
    executor: Executor


class ConversionsAhead:
    """Begins to convert recordings while they come.

    Args:
        tools: what they share.
    """

    def __init__(self, tools: AheadTools) -> None:
        self._tools = tools
        self._under_way: set[asyncio.Task[None]] = set()

    def __call__(self, voice: Voice) -> RunningAhead:
        """Begin with a voice."""
        return RunningAhead(self, self._tools, voice)

    def convert(self, voice: Voice, samples: Samples, sample_rate: int, ahead: Ahead) -> None:
        """Convert what is complete, if there is room; it goes on when the recording has ended."""
        task = asyncio.create_task(self._convert(voice, samples, sample_rate, ahead))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _convert(
        self, voice: Voice, samples: Samples, sample_rate: int, ahead: Ahead
    ) -> None:
        tools = self._tools
        with about_voice(voice.voice_id), _logged():
            async with (
                tools.characters.using(voice.character) as character,
                tools.admission.running_ahead() as may_run,
            ):
                if may_run and isinstance(character.engine, ConvertsAhead):
                    options = conversion_options(voice, ahead)
                    await asyncio.get_running_loop().run_in_executor(
                        tools.executor,
                        character.engine.convert_ahead,
                        samples,
                        sample_rate,
                        options,
                    )
                    extra = {"event": "converted_ahead", "seconds": len(samples) / sample_rate}
                    _LOG.info("converted what is complete", extra=extra)


class RunningAhead:
    """One recording that is converted while it comes; see ConvertingAhead.

    Args:
        conversions: converts.
        tools: what all recordings share.
        voice: whose recording comes.
    """

    def __init__(self, conversions: ConversionsAhead, tools: AheadTools, voice: Voice) -> None:
        self._conversions = conversions
        self._tools = tools
        self._voice = voice
        self._early = b""
        self._recording: IncomingRecording | None = None
        self.made = Ahead()
        self._task = asyncio.create_task(self._run())

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the recording; returns at once and raises nothing."""
        if self._task.done():
            return
        if self._recording is None:
            self._early += piece
            is_late = len(self._early) > MOST_WAITING_BYTES
        else:
            is_late = not self._recording.feed(piece)
        if is_late:
            self._task.cancel()

    async def aclose(self) -> None:
        """Decode no more; what is being converted goes on."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        with about_voice(self._voice.voice_id), _logged():
            async with self._tools.characters.using(self._voice.character) as character:
                is_slow = isinstance(character.engine, ConvertsAhead)
            # Whoever only hears a fast character must find a place.
            self._recording = self._tools.recordings.open() if is_slow else None
            if self._recording is None:
                return
            try:
                self._recording.feed(self._early)
                await self._listen(self._recording)
            finally:
                self._recording.close()

    async def _listen(self, recording: IncomingRecording) -> None:
        heard: list[Samples] = []
        pauses: Pauses | None = None
        async with recording.decoded() as decoded:
            async for piece in decoded.pieces():
                pauses = pauses or Pauses(piece.sample_rate)
                heard.append(piece.samples)
                if pauses.push(piece.samples):
                    so_far = np.concatenate(heard)
                    self._conversions.convert(self._voice, so_far, piece.sample_rate, self.made)


@contextmanager
def _logged() -> Iterator[None]:
    """Log errors: whatever they are, the recording goes on and is converted at its end."""
    try:
        yield
    except (VoiceError, PassingError) as error:
        _LOG.info("not converted ahead: %s", error, extra={"event": "ahead_unavailable"})
    except Exception:  # noqa: BLE001 - see above
        _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
