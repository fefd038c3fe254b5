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
_TOLERANCE_SECONDS = 0.1  # a graph may round the length to its own frames


@dataclass(frozen=True)
class WaveformSettings:
    """The manifest's settings; see the module's docstring."""

    input: str
    output: str
    input_sample_rate: int


def contracts(manifest: CharacterManifest) -> dict[str, GraphContract]:
    """List the graphs that the engine needs.

    Raises:
        BundleError: the manifest does not suit the engine.
    """
    refuse_options(manifest)
    settings = read_settings(manifest)
    return {
        ROLE: GraphContract(
            inputs=(TensorContract(settings.input, _SHAPES),),
            outputs=(TensorContract(settings.output, _SHAPES),),
        )
    }


def read_settings(manifest: CharacterManifest) -> WaveformSettings:
    """Read the engine's settings from a manifest.

    Raises:
        BundleError: one is missing, unknown or wrong.
    """
    known = list(WaveformSettings.__dataclass_fields__)
    for name in manifest.settings:
        if name not in known:
            raise _wrong_setting(name, f"only {', '.join(known)}", name)
    rates = (manifest.settings.get("input_sample_rate"), manifest.sample_rate)
    for name, rate in zip(("settings.input_sample_rate", "sample_rate"), rates, strict=True):
        if isinstance(rate, bool) or not isinstance(rate, int) or not _is_usable(rate):
            expected = f"a multiple of {FRAMES_PER_SECOND} from {LOWEST_RATE} to {HIGHEST_RATE}"
            raise _wrong_setting(name.removeprefix("settings."), expected, rate)
    return WaveformSettings(
        _name_setting(manifest, "input"),
        _name_setting(manifest, "output"),
        int(manifest.settings["input_sample_rate"]),
    )


def _is_usable(rate: int) -> bool:
    return LOWEST_RATE <= rate <= HIGHEST_RATE and rate % FRAMES_PER_SECOND == 0


def _name_setting(manifest: CharacterManifest, name: str) -> str:
    value = manifest.settings.get(name)
    if not isinstance(value, str) or not value:
        raise _wrong_setting(name, "the name of a tensor", value)
    return value


def _wrong_setting(name: str, expected: str, found: object) -> BundleError:
    field = name if name == "sample_rate" else f"settings.{name}"
    shown = "nothing" if found is None else quoted(found)
    return BundleError(f"{MANIFEST}: field {quoted(field)}: expected {expected}, found {shown}.")


def build(character: CharacterBundle, settings: SessionSettings) -> "WaveformEngine":
    """Build the engine; see EngineBuilder."""
    graph = character.graphs[ROLE]
    shape = graph.facts.inputs[read_settings(character.manifest).input].shape
    session = GraphSession(graph, settings)
    engine = WaveformEngine(character.manifest, session, 2 if shape is None else len(shape))
    engine.try_out(graph.file)
    return engine


class WaveformEngine:
    """Converts with one graph from audio to audio; see Engine."""

    def __init__(self, manifest: CharacterManifest, session: GraphSession, rank: int) -> None:
        self._manifest = manifest
        self._session = session
        self._rank = rank
        self._settings = read_settings(manifest)
        self._in_hop = self._settings.input_sample_rate // FRAMES_PER_SECOND
        self._hop = manifest.sample_rate // FRAMES_PER_SECOND

    @property
    def sample_rate(self) -> int:
        """Sample rate of the converted audio in Hz."""
        return self._manifest.sample_rate

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> Samples:
        """Convert one recording; see Engine. The graph decides the pitch."""
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
        """Return None: this engine converts only whole recordings."""
        del sample_rate, options

    def try_out(self, file: str) -> None:
        """Run the graph on one and on two seconds of silence.

        Raises:
            BundleError: it fails, or its output is wrong.
        """
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
        """Run the graph over all of a recording, piece by piece: float32 [T hop]."""
        chunks = cut_at_pauses(analysis.levels.frames)
        padded = fit_length(heard, len(analysis.speech) * self._in_hop)
        pieces = [self._speak_chunk(padded, analysis, chunk) for chunk in chunks]
        return join_pieces(analysis, chunks, pieces, self._hop)

    def _speak_chunk(self, heard: Samples, analysis: Analysis, chunk: Chunk) -> Samples:
        """Run the graph over one piece, from its `first` frame to its `last`."""
        length = (chunk.last - chunk.first) * self._hop
        if not analysis.has_speech(chunk):
            return np.zeros(length, np.float32)
        piece = heard[chunk.first * self._in_hop : chunk.last * self._in_hop]
        audio = self._session.run(self._batch(piece), self._settings.output)
        return fit_length(audio.ravel(), length)

    def _batch(self, samples: Samples) -> dict[str, Samples]:
        return {self._settings.input: samples.reshape((1,) * (self._rank - 1) + (-1,))}
