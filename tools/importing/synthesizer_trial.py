"""Trial runs of a synthesizer: does it take every length, how long is a frame, is it repeatable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

from shared.runtime.quoting import quoted
from tools.bundles.files import VoiceFileError
from tools.importing.voice_file import FRAMES_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LENGTHS = (200, 64)
"""Frames; 200 is the only length that the official exports of 2023-10 to 2024-11 take."""

_FATAL_ONLY = 4
_HERTZ = 150.0
_SEED = 5


@dataclass(frozen=True)
class Inputs:
    """Inputs of a synthesizer under trial.

    Attributes:
        features: per frame.
        harmonics: of the source's noise; 0 where the graph draws it itself.
    """

    features: int
    noise_channels: int
    has_pitch: bool
    harmonics: int = 0


def open_session(content: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    options.add_session_config_entry("session.load_model_format", "ONNX")
    try:
        return onnxruntime.InferenceSession(
            content,
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,  # which would write to standard output
        )
    except Exception as error:  # its exceptions share no narrower base
        raise VoiceFileError(
            f"expected a graph that ONNX Runtime {onnxruntime.__version__} loads, found:"
            f" {reason(error)}."
        ) from error


def reason(error: Exception) -> str:
    """Return the first line of one of the runtime's errors, in ASCII."""
    lines = str(error).strip().splitlines() or [repr(error)]
    return quoted(lines[0].rstrip(".")).strip("'\"")


def feeds(inputs: Inputs, frames: int, hop: int) -> dict[str, NDArray[Any]]:
    """Make inputs of the contract: voiced and unvoiced frames in turn, with noise."""
    random = np.random.default_rng(_SEED)
    voiced = np.arange(frames) // 10 % 3 > 0
    hertz = np.where(voiced, _HERTZ + 40 * np.sin(np.arange(frames) / 9), 0.0)
    made: dict[str, NDArray[Any]] = {
        "phone": random.standard_normal((1, frames, inputs.features), np.float32),
        "phone_lengths": np.array([frames], np.int64),
        "ds": np.array([0], np.int64),
        "rnd": random.standard_normal((1, inputs.noise_channels, frames), np.float32),
    }
    if inputs.has_pitch:
        made["pitch"] = np.where(voiced, 60, 1).astype(np.int64)[None]
        made["pitchf"] = hertz.astype(np.float32)[None]
    if inputs.harmonics:
        shape = (1, frames * hop, inputs.harmonics)
        made["noise"] = random.standard_normal(shape, np.float32)
    return made


def run(
    session: Any, values: dict[str, NDArray[Any]], outputs: Sequence[str]
) -> list[NDArray[Any]]:
    names = {each.name for each in session.get_inputs()}
    given = {name: value for name, value in values.items() if name in names}
    try:
        return [np.asarray(value) for value in session.run(list(outputs), given)]
    except Exception as error:  # its exceptions share no narrower base
        raise VoiceFileError(f"expected a graph that runs, found: {reason(error)}.") from error


def check_lengths(content: bytes, inputs: Inputs, hop: int) -> None:
    """Run a graph at two lengths, and twice at one of them."""
    session = open_session(content)
    _audio(session, inputs, LENGTHS[0], hop)
    try:
        first = _audio(session, inputs, LENGTHS[1], hop)
    except VoiceFileError as error:
        raise VoiceFileError(
            f"expected a graph that takes any number of frames, found one that takes only"
            f" {LENGTHS[0]} (exports of RVC between October 2023 and November 2024 do); bring the"
            " voice's .pth instead."
        ) from error
    if not np.array_equal(first, _audio(session, inputs, LENGTHS[1], hop)):
        raise VoiceFileError(
            "expected the same audio from the same inputs, found other audio at the second run: the"
            " graph draws random numbers where they cannot be replaced."
        )


def _audio(session: Any, inputs: Inputs, frames: int, hop: int) -> NDArray[Any]:
    (audio,) = run(session, feeds(inputs, frames, hop), ["audio"])
    if audio.shape != (1, 1, frames * hop):
        raise VoiceFileError(
            f"output 'audio': expected {frames * hop} samples for {frames} frames, found the shape"
            f" {list(audio.shape)}."
        )
    if not np.isfinite(audio).all():
        raise VoiceFileError("output 'audio': expected finite samples, found others.")
    return audio


def hop_of(samples: int, frames: int) -> int:
    hop, rest = divmod(samples, frames)
    if rest or not 8_000 <= hop * FRAMES_PER_SECOND <= 192_000:  # noqa: PLR2004 - any of speech
        raise VoiceFileError(
            f"output 'audio': expected a multiple of {frames} samples for {frames} frames, found"
            f" {samples}."
        )
    return hop
