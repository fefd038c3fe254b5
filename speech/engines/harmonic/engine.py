"""The engine `harmonic`: a network that filters pulses and noise at the pitch it is given.

One graph, role `harmonic`. With T frames of 10 ms and R the character's sample rate, it takes

    wave     float32 [1, 160 T]            the recording at 16 kHz; frame t is centred at 160 t
    f0       float32 [1, T]                fundamental frequency to speak at, in Hz, above 0
    voicing  float32 [1, T]                1 where the recording is voiced, otherwise 0
    noise    float32 [1, (T + 1) R / 100]  standard normal

and returns `audio`, float32 [1, T R / 100]. Its pulses start with phase 0 one frame before the
first sample. Their phase is the sum of f0 / R over all samples, with f0 interpolated linearly
between frames.

A bundle whose `harmonic` graph takes `content`, float32 [1, T, size], in place of `wave` has a
graph of the role `content`, too, which characters share; see speech.engines.harmonic.content.

A bundle may have a further graph, role `harmonic_stream`, with which visitors hear the character
while they speak; see speech.engines.harmonic.graph.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from shared.characters.manifest import MANIFEST, CharacterManifest, Pitch
from speech.bundles.bundle import Character
from speech.bundles.contracts import Contract, GraphContract, TensorContract, refuse_options
from speech.bundles.files import BundleError
from speech.engines.harmonic import content
from speech.engines.harmonic.content import ContentEncoder
from speech.engines.harmonic.graph import StateVoices, StreamContract
from speech.engines.harmonic.stream import VoiceStream
from speech.engines.harmonic.voices import RunningVoice
from speech.engines.interface.engine import ConversionOptions, Stream
from speech.networks.session import GraphSession, shared_session
from speech.networks.settings import SessionSettings
from speech.signal.arrays import Samples
from speech.signal.chunks import Chunk, cut_at_pauses
from speech.signal.clock import NoClock, StageClock
from speech.signal.levels import FRAMES_PER_SECOND
from speech.signal.noise import Noise, draw_noise
from speech.signal.phases import join_phases
from speech.signal.pitch.f0 import HOP
from speech.signal.pitch.shifting import plan_pitch
from speech.signal.samples import check_rate, check_samples, converted_length
from speech.signal.whole.analysis import Analysis, analyse
from speech.signal.whole.finishing import finish, join_pieces

ROLE = "harmonic"
STREAM_ROLE = "harmonic_stream"
_WAVE = TensorContract("wave", [(1, "160*frames")])
_CONTENT = TensorContract("content", [(1, "frames", None)])


def _contract(heard: TensorContract) -> GraphContract:
    return GraphContract(
        inputs=(
            heard,
            TensorContract("f0", [(1, "frames")]),
            TensorContract("voicing", [(1, "frames")]),
            TensorContract("noise", [(1, "samples")]),
        ),
        outputs=(TensorContract("audio", [(1, "samples")]),),
    )


_TRIAL_FRAMES = 9


def contracts(manifest: CharacterManifest) -> dict[str, Contract]:
    """List the graphs that the engine needs.

    Raises:
        BundleError: the manifest does not suit the engine.
    """
    refuse_options(manifest)
    _pitch_of(manifest)
    hop = _hop_of(manifest)
    needed: dict[str, Contract] = {}
    if content.ROLE in manifest.graphs:
        needed |= {content.ROLE: content.CONTRACT, ROLE: _contract(_CONTENT)}
    else:
        needed |= {ROLE: _contract(_WAVE)}
    if STREAM_ROLE in manifest.graphs:
        needed |= {STREAM_ROLE: StreamContract(hop)}
        if content.STREAM_ROLE in manifest.graphs:
            needed |= {content.STREAM_ROLE: content.CONTRACT}
    return needed


def build(character: Character, settings: SessionSettings) -> "HarmonicEngine":
    """Build the engine; see EngineBuilder."""
    graph = character.graphs[ROLE]
    # Measured: optimising these graphs takes half of their loading time and makes none faster.
    session = GraphSession(graph, settings, is_optimised=True)
    encoder, size = _encoder(character, settings)
    voices = _state_voices(character, settings)
    engine = HarmonicEngine(character.manifest, session, encoder, voices)
    engine.try_out(graph.file, size)
    return engine


def _encoder(character: Character, settings: SessionSettings) -> tuple[ContentEncoder | None, int]:
    """Load the content encoder once for all characters; also its size. None if there is none."""
    graph = character.graphs.get(content.ROLE)
    if graph is None:
        return None, 0
    encoder = ContentEncoder(shared_session(graph, settings))
    return encoder, encoder.try_out(graph.file)


def _state_voices(
    character: Character, settings: SessionSettings
) -> Callable[[], RunningVoice] | None:
    """Make the opener of voices that keep their state, if the bundle has their graph."""
    stream, whole = character.graphs.get(STREAM_ROLE), character.graphs[ROLE]
    if stream is None:
        return None
    student = character.graphs.get(content.STREAM_ROLE)
    holders = (whole,) if student is None else (whole, student)
    return StateVoices(stream, holders, _hop_of(character.manifest), settings)


class HarmonicEngine:
    """Converts with one `harmonic` graph; see Engine.

    Args:
        manifest: of the character.
        session: its graph.
        encoder: hears what the graph is given; None if it hears the recording itself.
        open_voice: opens a voice that goes on; None if nobody can hear it while they speak.
    """

    def __init__(
        self,
        manifest: CharacterManifest,
        session: GraphSession,
        encoder: ContentEncoder | None = None,
        open_voice: Callable[[], RunningVoice] | None = None,
    ) -> None:
        self._manifest = manifest
        self._session = session
        self._encoder = encoder
        self._pitch = _pitch_of(manifest)
        self._hop = _hop_of(manifest)
        self._open_voice = open_voice

    @cached_property
    def _noise(self) -> Samples:
        """Drawn at the first conversion; in the container this is the rehearsal."""
        return draw_noise(self.sample_rate)

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
        """Convert one recording; see Engine."""
        clock = stopwatch or NoClock()
        check_samples(samples, sample_rate, self._manifest)
        length = converted_length(len(samples), sample_rate, self.sample_rate)
        analysis = analyse(samples, sample_rate, clock)
        if not analysis.has_speech():
            return np.zeros(length, np.float32)
        with clock.stage("network"):
            voice = self._speak(analysis, options)
        with clock.stage("post"):
            return finish(voice, self.sample_rate, length, analysis)

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> Stream | None:
        """Begin a conversion while somebody speaks; see Engine."""
        check_rate(sample_rate)
        if self._open_voice is None:
            return None
        return VoiceStream(
            self._open_voice(),
            sample_rate=sample_rate,
            spoken_rate=self.sample_rate,
            pitch=self._pitch,
            semitones=options.pitch_shift,
            noise=Noise(self._noise, options.seed),
        )

    def try_out(self, file: str, content_size: int = 0) -> None:
        """Run the graph on a short silence, or on content of so many numbers.

        Raises:
            BundleError: it fails, or its output is wrong.
        """
        frames = _TRIAL_FRAMES
        wave = {"wave": np.zeros((1, frames * HOP), np.float32)}
        heard = {"content": np.zeros((1, frames, content_size), np.float32)}
        inputs = (heard if content_size else wave) | {
            "f0": np.full((1, frames), self._pitch.median_hz, np.float32),
            "voicing": np.ones((1, frames), np.float32),
            "noise": np.zeros((1, (frames + 1) * self._hop), np.float32),
        }
        audio = self._session.try_out(inputs, "audio")
        if audio.shape != (1, frames * self._hop):
            raise BundleError(
                f"{file}: output 'audio': expected float32 [1, {frames * self._hop}] for"
                f" {frames} frames, found {list(audio.shape)}."
            )

    def _speak(self, analysis: Analysis, options: ConversionOptions) -> Samples:
        """Run the network over all of a recording, piece by piece: float32 [T hop]."""
        pitch = plan_pitch(analysis.track, self._pitch, options.pitch_shift)
        noise = Noise(self._noise, options.seed).read(0, (len(pitch) + 1) * self._hop)
        chunks = cut_at_pauses(analysis.levels.frames)
        contours = join_phases(chunks, pitch)
        heard = self._hear(analysis, chunks)
        pieces = [
            self._speak_chunk(analysis, chunk, inputs | {"f0": contour}, noise)
            for chunk, inputs, contour in zip(chunks, heard, contours, strict=True)
        ]
        return join_pieces(analysis, chunks, pieces, self._hop)

    def _hear(self, analysis: Analysis, chunks: Sequence[Chunk]) -> list[dict[str, Samples]]:
        """Prepare the network's input of each piece, by the name of the input."""
        if self._encoder is None:
            return [
                {"wave": analysis.wave[chunk.first * HOP : chunk.last * HOP]} for chunk in chunks
            ]
        contents = self._encoder.hear(analysis, chunks)
        return [{} if content is None else {"content": content} for content in contents]

    def _speak_chunk(
        self, analysis: Analysis, chunk: Chunk, heard: Mapping[str, Samples], noise: Samples
    ) -> Samples:
        """Run the network over one piece, from its `first` frame to its `last`."""
        if not analysis.has_speech(chunk):
            return np.zeros((chunk.last - chunk.first) * self._hop, np.float32)
        inputs = {
            **heard,
            "voicing": analysis.track.voicing[chunk.first : chunk.last],
            "noise": noise[chunk.first * self._hop : (chunk.last + 1) * self._hop],
        }
        batch = {name: value[None] for name, value in inputs.items()}
        return self._session.run(batch, "audio").ravel()


def _pitch_of(manifest: CharacterManifest) -> Pitch:
    if manifest.pitch is None:
        raise BundleError(
            f"{MANIFEST}: field 'pitch': expected an object for the engine harmonic, found null."
        )
    return manifest.pitch


def _hop_of(manifest: CharacterManifest) -> int:
    if manifest.sample_rate % FRAMES_PER_SECOND:
        raise BundleError(
            f"{MANIFEST}: field 'sample_rate': expected a multiple of {FRAMES_PER_SECOND},"
            f" found {manifest.sample_rate}."
        )
    return manifest.sample_rate // FRAMES_PER_SECOND
