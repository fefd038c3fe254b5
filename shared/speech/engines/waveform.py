"""The engine `waveform`: one graph, audio to audio.

The graph, role `waveform`, takes one tensor of audio, float32 [N], [1, N] or [1, 1, N], for any N,
and returns one of the same duration in any of these shapes. The manifest's settings say the rest:

    input              name of the input
    output             name of the output
    input_sample_rate  sample rate of the input in Hz; the output's is the manifest's sample_rate
"""

from dataclasses import dataclass

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
from shared.speech.signal.analysis import Analysis, Chunk, analyse, cut_at_pauses
from shared.speech.signal.loudness import finish, join_pieces
from shared.speech.signal.samples import (
    FRAMES_PER_SECOND,
    HIGHEST_RATE,
    LOWEST_RATE,
    check_samples,
    converted_length,
    fit_length,
    resample,
)
from shared.speech.signal.sound import NoClock, Samples, StageClock
from shared.voices.voice import ErrorCode, VoiceError

ROLE = "waveform"
_SHAPES = (("samples",), (1, "samples"), (1, 1, "samples"))
_TRIAL_SECONDS = (1, 2)
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
    known = list(WaveformSettings.__dataclass_fields__)
    for name in settings:
        if name not in known:
            raise _wrong_setting(f"settings.{name}", f"only {', '.join(known)}", name)
    rates = {
        "settings.input_sample_rate": settings.get("input_sample_rate"),
        "sample_rate": manifest.sample_rate,
    }
    for name, rate in rates.items():
        is_whole = isinstance(rate, int) and not isinstance(rate, bool)
        if not is_whole or int(rate or 0) not in _RATES:
            expected = f"a multiple of {FRAMES_PER_SECOND} from {LOWEST_RATE} to {HIGHEST_RATE}"
            raise _wrong_setting(name, expected, rate)
    for name in ("input", "output"):
        if not isinstance(settings.get(name), str) or not settings[name]:
            raise _wrong_setting(f"settings.{name}", "the name of a tensor", settings.get(name))
    return WaveformSettings(
        str(settings["input"]), str(settings["output"]), int(settings["input_sample_rate"])
    )


def _wrong_setting(field: str, expected: str, found: object) -> BundleError:
    shown = "nothing" if found is None else quoted(found)
    return BundleError(f"{MANIFEST}: field {quoted(field)}: expected {expected}, found {shown}.")


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
        self._in_hop = self._settings.input_sample_rate // FRAMES_PER_SECOND
        self._hop = manifest.sample_rate // FRAMES_PER_SECOND

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> Samples:
        if options.pitch_shift is not None:
            raise VoiceError(
                ErrorCode.INTERNAL,
                f"{self._manifest.name.en} speaks at its own pitch; leave pitch_shift at auto.",
            )
        clock = stopwatch or NoClock()
        check_samples(samples, sample_rate, self._manifest)
        length = converted_length(len(samples), sample_rate, self.sample_rate)
        analysis = analyse(samples, sample_rate, clock)
        if not analysis.has_speech():
            return np.zeros(length, np.float32)
        with clock.stage("resample"):
            heard = resample(samples, sample_rate, self._settings.input_sample_rate)
        with clock.stage("network"):
            voice = self._speak(heard, analysis)
        with clock.stage("post"):
            return finish(voice, self.sample_rate, length, analysis)

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> None:
        del sample_rate, options

    def try_out(self, file: str) -> None:
        """Run the graph on one and on two seconds of silence."""
        output = self._settings.output
        for seconds in _TRIAL_SECONDS:
            silence = np.zeros(seconds * self._settings.input_sample_rate, np.float32)
            audio = self._session.try_out(self._batch(silence), output)
            wanted = seconds * self.sample_rate
            if abs(audio.size - wanted) > _TOLERANCE_SECONDS * self.sample_rate:
                raise BundleError(
                    f"{file}: output {quoted(output)}: expected about {wanted} samples for"
                    f" {seconds} s at {self.sample_rate} Hz, found {audio.size}."
                )

    def _speak(self, heard: Samples, analysis: Analysis) -> Samples:
        chunks = cut_at_pauses(analysis.levels.frames)
        padded = fit_length(heard, len(analysis.speech) * self._in_hop)
        pieces = [self._speak_chunk(padded, analysis, chunk) for chunk in chunks]
        return join_pieces(analysis, chunks, pieces, self._hop)

    def _speak_chunk(self, heard: Samples, analysis: Analysis, chunk: Chunk) -> Samples:
        length = (chunk.last - chunk.first) * self._hop
        if not analysis.has_speech(chunk):
            return np.zeros(length, np.float32)
        piece = heard[chunk.first * self._in_hop : chunk.last * self._in_hop]
        audio = self._session.run(self._batch(piece), self._settings.output)
        return fit_length(audio.ravel(), length)

    def _batch(self, samples: Samples) -> dict[str, Samples]:
        return {self._settings.input: samples.reshape((1,) * (self._rank - 1) + (-1,))}
