"""Pitch models that a voice owner brings (RMVPE, FCPE), tried on a tone of known pitch."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from importing.files.errors import VoiceFileError
from speech.bundles.bundle import Graph
from speech.bundles.files import BundleError
from speech.bundles.onnx_model import UnsafeModelError, inspect_model
from speech.engines.rvc.pitch.models import OnnxPitchModel, PitchModelContract
from speech.networks.session import GraphSession
from speech.networks.settings import SessionSettings

if TYPE_CHECKING:
    from speech.signal.arrays import Samples

TONE_HZ = 220.0
_SAMPLE_RATE = 16_000
_SECONDS = 3
_HARMONICS = 12
_FILE = "model"


@dataclass(frozen=True)
class PitchModel:
    """What a pitch model hears.

    Attributes:
        content: the ONNX file.
        tone_hz: what it makes of a tone of 220 Hz with overtones, the median of its frames.
        hears_voicing: whether it tells voiced frames from unvoiced ones.
        real_time_factor: seconds of work per second of audio, with one thread.
    """

    content: bytes = field(repr=False)
    tone_hz: float
    hears_voicing: bool
    real_time_factor: float


def is_pitch_model(content: bytes) -> bool:
    """Whether a graph takes what pitch models take."""
    try:
        PitchModelContract().check(_graph(content))
    except (BundleError, UnsafeModelError):
        return False
    return True


def inspect_pitch_model(content: bytes) -> PitchModel:
    """Try a pitch model.

    Args:
        content: the whole ONNX file.

    Raises:
        VoiceFileError: it is none, or does not run; in one sentence, why.
    """
    try:
        graph = _graph(content)
        PitchModelContract().check(graph)
        model = OnnxPitchModel(graph, GraphSession(graph, SessionSettings(threads=1)))
    except (BundleError, UnsafeModelError) as error:
        raise VoiceFileError(str(error).removeprefix(f"{_FILE}: ")) from error
    tone = _tone()
    begin = time.perf_counter()
    hertz = model.track(tone)
    elapsed = time.perf_counter() - begin
    return PitchModel(content, float(np.median(hertz)), model.hears_voicing, elapsed / _SECONDS)


def _graph(content: bytes) -> Graph:
    return Graph(_FILE, content, inspect_model(content))


def _tone() -> Samples:
    at = np.arange(_SECONDS * _SAMPLE_RATE) / _SAMPLE_RATE
    overtones = (np.sin(2 * np.pi * TONE_HZ * n * at) / n for n in range(1, _HARMONICS + 1))
    tone: Samples = (0.2 * np.sum(list(overtones), axis=0)).astype(np.float32)
    return tone
