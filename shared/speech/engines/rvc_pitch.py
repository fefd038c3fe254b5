"""The pitch models RMVPE and FCPE, and the mel spectrograms that they take."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shared.characters.bundle_files import BundleError
from shared.runtime.quoting import quoted
from shared.speech.graphs.bundle import Graph
from shared.speech.graphs.onnx_files import Tensor
from shared.speech.graphs.sessions import GraphSession, first_line
from shared.speech.signal.pitch import HOP

Array = NDArray[np.float32]
Scale = Literal["htk", "slaney"]

BANDS = 128
_SAMPLE_RATE = 16_000
_WINDOW = 1_024
_HOP = 160
_QUIETEST = 1e-5
_BLOCK = 256

# Slaney's scale is linear up to 1 kHz and logarithmic above ("Auditory toolbox", 1998).
_LINEAR_HZ = 200 / 3
_KNEE_HZ = 1_000.0
_KNEE = _KNEE_HZ / _LINEAR_HZ
_LOG_STEP = float(np.log(6.4)) / 27


@dataclass(frozen=True)
class MelKind:
    scale: Scale
    low_hz: float
    high_hz: float
    padding: int
    floor: float


RMVPE_MEL = MelKind("htk", 30.0, 8_000.0, padding=_WINDOW // 2, floor=0.0)
FCPE_MEL = MelKind("slaney", 0.0, 8_000.0, padding=(_WINDOW - _HOP) // 2, floor=1e-9)


def log_mel(wave: Array, kind: MelKind) -> Array:
    """Compute the natural logarithm of the magnitudes in 128 bands, every 10 ms.

    Takes float32 [N] at 16 kHz, at least two samples; returns float32 [N // 160 + 1, 128]. A frame
    that would end after the padding repeats the last.
    """
    frames = len(wave) // _HOP + 1
    padded = np.pad(wave, kind.padding, mode="reflect")
    short = max(_WINDOW - len(padded), 0)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(padded, (0, short)), _WINDOW)
    every = windows[::_HOP][:frames]
    hann = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_WINDOW) / _WINDOW)).astype(np.float32)
    filters = _filters(kind)
    logs = np.empty((frames, BANDS), np.float32)
    for at in range(0, len(every), _BLOCK):
        spectra = np.fft.rfft(every[at : at + _BLOCK] * hann)
        magnitudes = np.sqrt(spectra.real**2 + spectra.imag**2 + kind.floor)
        bands = magnitudes.astype(np.float32) @ filters
        logs[at : at + len(bands)] = np.log(np.maximum(bands, np.float32(_QUIETEST)))
    logs[len(every) :] = logs[len(every) - 1]
    return logs


@lru_cache(maxsize=2)
def _filters(kind: MelKind) -> Array:
    """Triangles over the spectrum, each with the area 1 (Slaney's normalisation): [513, 128]."""
    if kind.scale == "htk":
        low, high = (2595 * np.log10(1 + hertz / 700) for hertz in (kind.low_hz, kind.high_hz))
        corners = 700 * (10 ** (np.linspace(low, high, BANDS + 2) / 2595) - 1)
    else:
        top = _KNEE + np.log(kind.high_hz / _KNEE_HZ) / _LOG_STEP
        mel = np.linspace(kind.low_hz / _LINEAR_HZ, top, BANDS + 2)
        above = _KNEE_HZ * np.exp(_LOG_STEP * (np.maximum(mel, _KNEE) - _KNEE))
        corners = np.where(mel < _KNEE, mel * _LINEAR_HZ, above)
    hertz = np.arange(_WINDOW // 2 + 1)[:, None] * _SAMPLE_RATE / _WINDOW
    rising = (hertz - corners[:-2]) / (corners[1:-1] - corners[:-2])
    falling = (corners[2:] - hertz) / (corners[2:] - corners[1:-1])
    triangles = np.maximum(np.minimum(rising, falling), 0)
    filters: Array = (triangles * 2 / (corners[2:] - corners[:-2])).astype(np.float32)
    return filters


Kind = Literal["rmvpe salience", "rmvpe mel", "rmvpe waveform", "fcpe"]

_TRIAL_SAMPLES = 16_000
# As the original tools set them; the model that takes a mel spectrogram and a threshold compares
# it with something else and hears a voice everywhere.
_THRESHOLDS: Mapping[Kind, float] = {"rmvpe mel": 0.03, "rmvpe waveform": 0.03, "fcpe": 0.006}
_VOICED = 0.03
_MULTIPLE = 32  # of frames: RMVPE halves their number five times

_STATES = 360
_LOWEST_CENTS, _CENTS_PER_STATE = 1997.3794084376191, 20.0
_REFERENCE_HZ = 10.0
_AROUND = 4

_LONGEST = 2_000  # frames at once: 20 s
_CONTEXT = 50


class PitchModelContract:
    """The contract of the role `pitch`: one of the forms in which RMVPE and FCPE are exported.

    The names are free; what counts is the shapes of the inputs that the graph takes:

        RMVPE  float32 [1, 128, T], T a multiple of 32  gives the salience [1, T, 360]
        RMVPE  float32 [1, 128, T] and a threshold      gives hertz [1, T]
        RMVPE  float32 [1, N] and a threshold           gives hertz [1, T], perhaps also what is
                                                        unvoiced [1, T]
        FCPE   float32 [1, T, 128] and a threshold      gives hertz [1, T, 1]
    """

    def check(self, graph: Graph) -> None:
        _recognise(graph)


class OnnxPitchModel:
    """A pitch model's graph, tried on a second of silence; safe for threads."""

    def __init__(self, graph: Graph, session: GraphSession) -> None:
        self._session = session
        self._kind, sound, self._threshold = _recognise(graph)
        self._sound = sound.name
        self._outputs = list(graph.facts.outputs)
        frames = _TRIAL_SAMPLES // HOP + 1
        try:
            hertz = self._track_at_once(np.zeros(_TRIAL_SAMPLES, np.float32))
        except Exception as error:  # those of ONNX Runtime share no narrower base
            raise BundleError(
                f"{graph.file}: expected a pitch model ({self._kind}) that follows a second of"
                f" silence, found: {first_line(error)}."
            ) from error
        if hertz.shape != (frames,) or not np.isfinite(hertz).all():
            raise BundleError(
                f"{graph.file}: expected {frames} frames of finite hertz for a second of silence,"
                f" found {list(hertz.shape)}."
            )

    @property
    def hears_voicing(self) -> bool:
        return self._kind != "rmvpe mel"

    def track(self, wave: Array) -> Array:
        frames = len(wave) // HOP + 1
        ends = ((at, min(at + _LONGEST, frames)) for at in range(0, frames, _LONGEST))
        parts = []
        for begin, end in ends:
            # Each part knows a little of its surroundings.
            first = max(begin - _CONTEXT, 0)
            hertz = self._track_at_once(wave[first * HOP : (end + _CONTEXT) * HOP])
            parts.append(hertz[begin - first : end - first])
        return np.concatenate(parts)

    def _track_at_once(self, wave: Array) -> Array:
        frames = len(wave) // HOP + 1
        match self._kind:
            case "rmvpe waveform":
                sound = wave[None]
            case "fcpe":
                sound = log_mel(wave, FCPE_MEL)[None]
            case _:
                mel = np.pad(log_mel(wave, RMVPE_MEL), ((0, -frames % _MULTIPLE), (0, 0)))
                sound = np.ascontiguousarray(mel.T)[None]
        first, *others = self._run(sound)
        if self._kind == "rmvpe salience":
            return decode_salience(first.reshape(-1, _STATES)[:frames])
        hertz = _fit(first, frames)
        if self._kind == "rmvpe waveform" and others:
            return np.where(_fit(others[0], frames) > 0, 0, hertz)
        return hertz

    def _run(self, sound: Array) -> list[Array]:
        inputs: dict[str, NDArray[Any]] = {self._sound: sound}
        if self._threshold is not None:
            shape = (1,) if self._threshold.shape else ()
            inputs[self._threshold.name] = np.full(shape, _THRESHOLDS[self._kind], np.float32)
        outputs = self._session.run_all(inputs, self._outputs)
        return [np.asarray(value, np.float32) for value in outputs]


def decode_salience(salience: Array) -> Array:
    """Read the fundamental frequency out of RMVPE's salience (Wei et al., "RMVPE", 2023).

    It is the mean of the pitches, in cents, of the strongest state and four on either side, weighed
    by their salience. A frame whose strongest state is at most 0.03 is unvoiced. Takes 360 states,
    20 cents apart, float32 [T, 360]; returns hertz, 0 where unvoiced, float32 [T].
    """
    strongest = np.argmax(salience, axis=1)
    places = strongest[:, None] + np.arange(-_AROUND, _AROUND + 1)
    inside = (places >= 0) & (places < _STATES)
    places = np.clip(places, 0, _STATES - 1)
    weights = np.take_along_axis(salience, places, axis=1) * inside
    cents = _LOWEST_CENTS + _CENTS_PER_STATE * places
    total = np.maximum(weights.sum(axis=1), np.float32(1e-9))
    hertz = _REFERENCE_HZ * 2 ** ((weights * cents).sum(axis=1) / total / 1_200)
    voiced = salience.max(axis=1) > _VOICED
    return np.where(voiced, hertz, 0).astype(np.float32)


def _fit(values: Array, frames: int) -> Array:
    line = values.reshape(-1)[:frames]
    return np.pad(line, (0, frames - len(line)), mode="edge")


def _recognise(graph: Graph) -> tuple[Kind, Tensor, Tensor | None]:
    """Find the form of a pitch model, its input for sound, and that for a threshold."""
    inputs = list(graph.facts.inputs.values())
    thresholds = [
        each for each in inputs if each.element_type == "float32" and each.shape in {(), (1,)}
    ]
    sounds = [each for each in inputs if each not in thresholds]
    if len(sounds) == 1 and len(thresholds) <= 1 and sounds[0].element_type == "float32":
        threshold = thresholds[0] if thresholds else None
        match sounds[0].shape or ():  # 128 is the number of bands
            case (_, 128, _):
                kind: Kind = "rmvpe mel" if threshold else "rmvpe salience"
                return kind, sounds[0], threshold
            case (_, _, 128) if threshold:
                return "fcpe", sounds[0], threshold
            case (_, _) if threshold:
                return "rmvpe waveform", sounds[0], threshold
    found = ", ".join(f"{quoted(tensor.name)} {tensor}" for tensor in inputs) or "none"
    raise BundleError(
        f"{graph.file}: expected a pitch model that takes float32 [1, {BANDS}, frames], or with a"
        f" threshold float32 [1, {BANDS}, frames], [1, frames, {BANDS}] or [1, samples], found the"
        f" inputs {found}."
    )
