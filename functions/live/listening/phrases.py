"""Converts the phrases of a recording, up to a pause, while the visitor goes on.

Only characters that are slow gain from it. What is converted ahead changes nothing of the result:
the conversion at the end takes a piece only if it would convert it from the same input. It has half
of the places of conversions at most, and threads of its own: recordings that are complete come
first.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import numpy as np

from shared.errors import PassingError
from shared.voices.voice import VoiceError
from speech.signal.pauses import Pauses

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from conversion.admission import Admission
    from speech.decoding.sandbox.streaming import Piece
    from speech.engines.interface.engine import ConversionOptions, ConvertsAhead
    from speech.signal.arrays import Samples

_LOG = logging.getLogger(__name__)


class Phrases:
    """Converts one recording's phrases as soon as a pause ends them.

    Args:
        engine: of the character.
        options: of the voice; their `ahead` keeps what was converted.
        admission: how much is converted at once.
        executor: its threads convert.
    """

    def __init__(
        self,
        engine: ConvertsAhead,
        options: ConversionOptions,
        admission: Admission,
        executor: Executor,
    ) -> None:
        self._engine = engine
        self._options = options
        self._admission = admission
        self._executor = executor
        self._heard: list[Samples] = []
        self._pauses: Pauses | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    def take(self, piece: Piece) -> None:
        """Take the next decoded samples; returns at once."""
        self._pauses = self._pauses or Pauses(piece.sample_rate)
        self._heard.append(piece.samples)
        if self._pauses.push(piece.samples):
            task = asyncio.create_task(self._convert(piece.sample_rate))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def finish(self) -> None:
        """Wait for the conversions under way: threads cannot be stopped."""
        await asyncio.gather(*self._under_way)

    async def _convert(self, sample_rate: int) -> None:
        samples = np.concatenate(self._heard)
        try:
            async with self._admission.running_ahead() as may_run:
                if may_run:
                    await asyncio.get_running_loop().run_in_executor(
                        self._executor,
                        self._engine.convert_ahead,
                        samples,
                        sample_rate,
                        self._options,
                    )
                    extra = {"event": "converted_ahead", "seconds": len(samples) / sample_rate}
                    _LOG.info("converted what is complete", extra=extra)
        except (VoiceError, PassingError) as error:
            _LOG.info("not converted ahead: %s", error, extra={"event": "ahead_unavailable"})
        except Exception:  # noqa: BLE001 - the recording goes on and is converted at its end
            _LOG.exception("unexpected error", extra={"event": "unexpected_error"})
