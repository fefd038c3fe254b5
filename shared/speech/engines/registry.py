"""The engine `rvc`: voices of Retrieval-based Voice Conversion.

A bundle has up to four graphs, by role:

    content      turns speech into features of what is said: ContentContract
    synthesizer  speaks the features in the voice: SynthesizerContract
    pitch        follows the fundamental frequency, in place of our own tracker: PitchModelContract
    retrieval    holds features of the voice's training: RetrievalContract

`pitch` and `retrieval` may be left out. The manifest's settings are VoiceOptions' and RvcSettings'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MANIFEST, CharacterManifest
from shared.runtime.quoting import quoted
from shared.speech.engines import harmonic, kokoro_packages, waveform
from shared.speech.engines.interface import Engine, EngineKind, speak_marked
from shared.speech.graphs.bundle import CharacterBundle, Contract
from shared.speech.graphs.sessions import SessionSettings
from shared.voices.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.speech.engines.interface import ConversionOptions, MarkedPiece
    from shared.speech.engines.text_interface import PhraseEngine, SpeechOptions
    from shared.speech.signal.sound import Samples, StageClock
    from shared.speech.text.accents import AccentPhrase


def rvc_contracts(manifest: CharacterManifest) -> Mapping[str, Contract]:
    """List the graphs that the engine needs.

    Raises:
        BundleError: the manifest does not suit the engine.
    """
    # Only a container that has such voices spends the time to import the engine.
    from shared.speech.engines import rvc  # noqa: PLC0415 - see above

    return rvc.contracts(manifest)


def build_rvc(character: CharacterBundle, settings: SessionSettings) -> Engine:
    """Build the engine; see EngineBuilder."""
    from shared.speech.engines import rvc  # noqa: PLC0415 - see contracts

    return rvc.build(character, settings)


def style_bert_vits2_contracts(manifest: CharacterManifest) -> Mapping[str, Contract]:
    """List the graphs that the engine needs."""
    del manifest
    # Only a container that has such voices spends the time to import the engine.
    from shared.speech.engines import style_bert_vits2  # noqa: PLC0415 - see above

    return style_bert_vits2.CONTRACTS


def build_style_bert_vits2(character: CharacterBundle, settings: SessionSettings) -> PhraseEngine:
    """Build the engine; see TextEngineBuilder."""
    from shared.speech.engines import style_bert_vits2  # noqa: PLC0415 - see contracts

    return style_bert_vits2.build(character, settings)


class TextOnlyEngine:
    """Refuses every recording; see Engine.

    Args:
        sample_rate: of the character's speech, in Hz.
    """

    def __init__(self, sample_rate: int) -> None:
        self._sample_rate = sample_rate

    @property
    def sample_rate(self) -> int:
        """Sample rate of the speech in Hz."""
        return self._sample_rate

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> NoReturn:
        """Refuse a recording.

        Raises:
            VoiceError: always.
        """
        del samples, sample_rate, options, stopwatch
        raise VoiceError(
            ErrorCode.SPEECH_NOT_TAKEN,
            "The character speaks text only; send a text, or choose another character.",
        )

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> None:
        """Open no stream."""
        del sample_rate, options


def build_text_only(character: CharacterBundle, settings: SessionSettings) -> TextOnlyEngine:
    """Build it; see EngineBuilder."""
    del settings
    return TextOnlyEngine(character.manifest.sample_rate)


class LazyTextEngine:
    """Builds an engine when the first text comes, and speaks with it; see PhraseEngine.

    A process that only converts recordings spends neither time nor memory on it.

    Args:
        sample_rate: of the speech, in Hz.
    """

    def __init__(self, sample_rate: int, build: Callable[[], PhraseEngine]) -> None:
        self._sample_rate = sample_rate
        self._build = build
        self._built: PhraseEngine | None = None
        self._building = Lock()

    @property
    def sample_rate(self) -> int:
        """Sample rate of the speech in Hz."""
        return self._sample_rate

    def estimate(self, text: str, options: SpeechOptions) -> float:
        """Estimate how long the speech of a text is; see TextEngine."""
        return self._engine().estimate(text, options)

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        """Speak a text; see TextEngine."""
        return self._engine().speak(text, options)

    def speak_marked(self, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
        """Speak a text with marks, if the engine knows them; see MarkingEngine."""
        return speak_marked(self._engine(), text, options)

    def read_phrases(self, text: str) -> list[AccentPhrase]:
        """Find the accent phrases of a text; see PhraseEngine."""
        return self._engine().read_phrases(text)

    def speak_phrases(
        self, phrases: Sequence[AccentPhrase], text: str | None, options: SpeechOptions
    ) -> Iterator[Samples]:
        """Speak accent phrases; see PhraseEngine."""
        return self._engine().speak_phrases(phrases, text, options)

    def _engine(self) -> PhraseEngine:
        with self._building:
            if self._built is None:
                self._built = self._build()
            return self._built


ENGINES: Mapping[str, EngineKind] = MappingProxyType(
    {
        "harmonic": EngineKind(harmonic.contracts, harmonic.build),
        "rvc": EngineKind(rvc_contracts, build_rvc),
        "style_bert_vits2": EngineKind(style_bert_vits2_contracts, build_text_only),
        "waveform": EngineKind(waveform.contracts, waveform.build),
    }
)
"""Each engine by the name that manifests give it."""


def build_engine(
    character: CharacterBundle,
    settings: SessionSettings,
    engines: Mapping[str, EngineKind] = ENGINES,
) -> Engine:
    """Build the engine that a verified character names, and try its graphs on silence.

    Raises:
        BundleError: a graph does not load, or its output is wrong.
    """
    return engines[character.manifest.engine].build(character, settings)


TextEngineBuilder: TypeAlias = Callable[[CharacterBundle, Engine, SessionSettings], "PhraseEngine"]

_KOKORO = "kokoro"


def _build_japanese(
    character: CharacterBundle, engine: Engine, settings: SessionSettings
) -> PhraseEngine:
    del engine
    manifest = character.manifest

    def build() -> PhraseEngine:
        # Only the first text spends the time to import the engine.
        from shared.speech.engines import japanese  # noqa: PLC0415 - see above

        return japanese.build(manifest, settings)

    return LazyTextEngine(manifest.sample_rate, build)


def _build_kokoro(
    character: CharacterBundle, engine: Engine, settings: SessionSettings
) -> PhraseEngine:
    manifest = character.manifest
    if not kokoro_packages.is_installed():
        return _build_converted(character, engine, settings)

    def build() -> PhraseEngine:
        from shared.speech.engines import kokoro  # noqa: PLC0415 - as above

        return kokoro.build(manifest, settings)

    return LazyTextEngine(manifest.sample_rate, build)


def _build_converted(
    character: CharacterBundle, engine: Engine, settings: SessionSettings
) -> PhraseEngine:
    manifest = character.manifest

    def build() -> PhraseEngine:
        from shared.speech.engines.two_step_speech import TwoStepSpeech  # noqa: PLC0415 - as above

        return TwoStepSpeech(*_built_in(settings), engine, manifest)

    return LazyTextEngine(engine.sample_rate, build)


def _built_in(settings: SessionSettings) -> tuple[PhraseEngine, float]:
    """Return the best voice that is installed, and how high it speaks in Hz."""
    if kokoro_packages.is_installed():
        from shared.speech.engines import kokoro  # noqa: PLC0415 - as above

        return kokoro.built_in(settings), kokoro.MEDIAN_HZ
    from shared.speech.engines import japanese  # noqa: PLC0415 - as above

    return japanese.built_in(settings), japanese.MEDIAN_HZ


def _build_style_bert_vits2(
    character: CharacterBundle, engine: Engine, settings: SessionSettings
) -> PhraseEngine:
    del engine
    return build_style_bert_vits2(character, settings)


TEXT_ENGINES: Mapping[str, TextEngineBuilder] = MappingProxyType(
    {
        "japanese": _build_japanese,
        _KOKORO: _build_kokoro,
        "style_bert_vits2": _build_style_bert_vits2,
    }
)
"""The builders of the engines that speak text, by their names in manifests."""


def build_text_engine(
    character: CharacterBundle,
    engine: Engine,
    settings: SessionSettings,
    engines: Mapping[str, TextEngineBuilder] = TEXT_ENGINES,
) -> PhraseEngine | None:
    """Build the engine that speaks a character's texts; None if the character takes none.

    Where the manifest names no engine for text, and the character's own engine speaks none, the
    built-in voice speaks and the character converts that.

    Raises:
        BundleError: no engine of its name speaks text, or its graphs do not work.
    """
    manifest = character.manifest
    if not manifest.takes_text:
        return None
    return _builder_for(manifest, engines)(character, engine, settings)


def _builder_for(
    manifest: CharacterManifest, engines: Mapping[str, TextEngineBuilder]
) -> TextEngineBuilder:
    named = manifest.text.engine if manifest.text else None
    if named is None:
        return engines.get(manifest.engine, _build_converted)
    build = engines.get(named)
    if build is None:
        raise BundleError(
            f"{MANIFEST}: field 'text.engine': expected one of {', '.join(engines)} for a character"
            f" that takes text, found {quoted(named)}."
        )
    return build
