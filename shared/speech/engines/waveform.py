"""The engine `waveform`: one graph, audio to audio.

The graph, role `waveform`, takes one tensor of audio, float32 [N], [1, N] or [1, 1, N], for any N,
and returns one of the same duration in any of these shapes. The manifest's settings say the rest:

    input              name of the input
    output             name of the output
    input_sample_rate  sample rate of the input in Hz; the output's is the manifest's sample_rate
"""

from dataclasses import dataclass, fields

import numpy as np

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MANIFEST, CharacterManifest
from shared.runtime.quoting import quoted
from shared.speech.engines.interface import ConversionOptions
from shared.speech.graphs.bundle import (
    CharacterBundle,
    GraphContract,
    TensorContract,
    refuse_options,
)
from shared.speech.graphs.sessions import GraphSession, SessionSettings
from shared.speech.signal.analysis import Analysis, cut_at_pauses
from shared.speech.signal.loudness import convert_recording, join_pieces
from shared.speech.signal.samples import (
    FRAMES_PER_SECOND,
    HIGHEST_RATE,
    LOWEST_RATE,
    fit_length,
    resample,
)
from shared.speech.signal.sound import Samples, StageClock
from shared.voices.voice import ErrorCode, VoiceError

ROLE = "waveform"
_SHAPES = (("samples",), (1, "samples"), (1, 1, "samples"))

_RATES = range(LOWEST_RATE, HIGHEST_RATE + 1, FRAMES_PER_SECOND)
_TOLERANCE_SECONDS = 0.1  # a graph may round the length to its own frames


@dataclass(frozen=True)
class WaveformSettings:
    input: str
    output: str
    input_sample_rate: int


def contracts(manifest: CharacterManifest) -> dict[str, GraphContract]:
    refuse_options(manifest)
    settings = read_settings(manifest)
    return {
        ROLE: GraphContract(
            inputs=(TensorContract(settings.input, _SHAPES),),
            outputs=(TensorContract(settings.output, _SHAPES),),
        )
    }


def read_settings(manifest: CharacterManifest) -> WaveformSettings:
    settings = manifest.settings
    known = [field.name for field in fields(WaveformSettings)]
    rates = {
        "settings.input_sample_rate": settings.get("input_sample_rate"),
        "sample_rate": manifest.sample_rate,
    }
    for name in settings:
        _require(f"settings.{name}", f"only {', '.join(known)}", name, is_right=name in known)
    for name, rate in rates.items():
        is_whole = isinstance(rate, int) and not isinstance(rate, bool)
        expected = f"a multiple of {FRAMES_PER_SECOND} from {LOWEST_RATE} to {HIGHEST_RATE}"
        _require(name, expected, rate, is_right=is_whole and rate in _RATES)
    for name in ("input", "output"):
        tensor = settings.get(name)
        is_name = isinstance(tensor, str) and tensor != ""
        _require(f"settings.{name}", "the name of a tensor", tensor, is_right=is_name)
    return WaveformSettings(**settings)  # type: ignore[arg-type] # checked


def _require(field: str, expected: str, found: object, *, is_right: bool) -> None:
    if not is_right:
        shown = "nothing" if found is None else quoted(found)
        raise BundleError(f"{MANIFEST}: field {quoted(field)}: expected {expected}, found {shown}.")


def build(character: CharacterBundle, settings: SessionSettings) -> "WaveformEngine":
    graph = character.graphs[ROLE]
    shape = graph.facts.inputs[read_settings(character.manifest).input].shape
    session = GraphSession(graph, settings)
    engine = WaveformEngine(character.manifest, session, 2 if shape is None else len(shape))
    engine.try_out(graph.file)
    return engine


class WaveformEngine:
    """Converts with one graph from audio to audio, which decides the pitch."""

    def __init__(self, manifest: CharacterManifest, session: GraphSession, rank: int) -> None:
        self.sample_rate = manifest.sample_rate
        self._manifest = manifest
        self._session = session
        self._rank = rank
        self._settings = read_settings(manifest)

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> Samples:
        def speak(analysis: Analysis, clock: StageClock) -> Samples:
            with clock.stage("resample"):
                heard = resample(samples, sample_rate, self._settings.input_sample_rate)
            with clock.stage("network"):
                return self._speak(heard, analysis)

        if options.pitch_shift is not None:
            raise VoiceError(
                ErrorCode.INTERNAL,
                f"{self._manifest.name.en} speaks at its own pitch; leave pitch_shift at auto.",
            )
        return convert_recording(samples, sample_rate, self._manifest, speak, stopwatch)

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> None:
        del sample_rate, options

    def try_out(self, file: str) -> None:
        output = self._settings.output
        for seconds in (1, 2):
            silence = np.zeros(seconds * self._settings.input_sample_rate, np.float32)
            audio = self._session.try_out(self._batch(silence), output)
            wanted = seconds * self.sample_rate
            if abs(audio.size - wanted) > _TOLERANCE_SECONDS * self.sample_rate:
                raise BundleError(
                    f"{file}: output {quoted(output)}: expected about {wanted} samples for"
                    f" {seconds} s at {self.sample_rate} Hz, found {audio.size}."
                )

    def _speak(self, heard: Samples, analysis: Analysis) -> Samples:
        in_hop, hop = (
            rate // FRAMES_PER_SECOND
            for rate in (self._settings.input_sample_rate, self.sample_rate)
        )
        chunks = cut_at_pauses(analysis.levels.frames)
        padded = fit_length(heard, len(analysis.speech) * in_hop)
        pieces = []
        for chunk in chunks:
            audio = np.zeros(0, np.float32)
            if analysis.has_speech(chunk):
                piece = self._batch(padded[chunk.first * in_hop : chunk.last * in_hop])
                audio = self._session.run(piece, self._settings.output).ravel()
            pieces.append(fit_length(audio, (chunk.last - chunk.first) * hop))
        return join_pieces(analysis, chunks, pieces, hop)

    def _batch(self, samples: Samples) -> dict[str, Samples]:
        return {self._settings.input: samples.reshape((1,) * (self._rank - 1) + (-1,))}
