"""Speaking a voice's text, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from conversion.admission import stay
from shared.voices.voice import ErrorCode, VoiceError
from speech.engines.interface.marks import MarkedPiece, speak_marked
from speech.engines.interface.text_engine import TextError

if TYPE_CHECKING:
    from conversion.admission import PassOn
    from conversion.threads import Threads
    from speech.engines.interface.marks import Mark
    from speech.engines.interface.text_engine import SpeechOptions, TextEngine
    from speech.signal.arrays import Samples


async def speak(
    threads: Threads,
    engine: TextEngine | None,
    data: bytes,
    options: SpeechOptions,
    max_seconds: float,
    *,
    pass_on: PassOn = stay,
) -> MarkedPiece:
    """Speak a text, at the engine's sample rate, with marks where the voice knows any.

    Each piece is computed in a thread of its own, so that cancelling ends the work after a piece.
    A text whose estimate is longer than may be spoken costs hardly more than reading it.

    Args:
        threads: where it is computed.
        engine: speaks for the character; None if the character takes no text.
        data: the text in UTF-8.
        options: how it is spoken.
        max_seconds: the longest speech.
        pass_on: is called between two pieces, so that other voices take turns with a long text.

    Raises:
        VoiceError: the text cannot be spoken, or takes too long to say.
    """
    if engine is None:
        raise VoiceError(
            ErrorCode.TEXT_NOT_TAKEN,
            "The character converts recordings only; record your voice, or choose another one.",
        )
    most = round(max_seconds * engine.sample_rate)
    pieces: list[Samples] = []
    marks: list[Mark] = []
    begin = 0
    try:
        text = _decode(data)
        if await threads.run(engine.estimate, text, options) > max_seconds:
            raise _too_long(max_seconds)
        spoken = await threads.run(speak_marked, engine, text, options)
        while (piece := await threads.run(next, spoken, None)) is not None:
            marks += [mark.later(begin / engine.sample_rate) for mark in piece.marks]
            pieces.append(piece.samples)
            begin += len(piece.samples)
            if begin > most:
                raise _too_long(max_seconds)
            await pass_on()
    except TextError as error:
        raise VoiceError(ErrorCode(error.code.value), error.message) from error
    return MarkedPiece(np.concatenate(pieces), tuple(marks))


def _too_long(max_seconds: float) -> VoiceError:
    message = f"The text takes more than {max_seconds:g} seconds to say; send it in parts."
    return VoiceError(ErrorCode.TOO_LONG, message)


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise VoiceError(
            ErrorCode.TEXT_UNREADABLE, "The text is not in UTF-8; send it again."
        ) from error
