"""The engines by name, each imported only by a process that has a character for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MANIFEST, CharacterManifest
from shared.runtime.quoting import quoted
from shared.speech.engines import harmonic, waveform
from shared.speech.engines.interface import Engine, EngineKind, TextEngineWrapper
from shared.speech.engines.kokoro_packages import KokoroPackages
from shared.speech.graphs.bundle import CharacterBundle, Contract
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.text.languages import JAPANESE
from shared.voices.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    from shared.speech.engines.interface import ConversionOptions
    from shared.speech.engines.text_interface import PhraseEngine
    from shared.speech.signal.sound import Samples, StageClock

_LOG = logging.getLogger(__name__)


def _rvc_contracts(manifest: CharacterManifest) -> Mapping[str, Contract]:
    from shared.speech.engines import rvc  # noqa: PLC0415 - only where a character needs it

    return rvc.contracts(manifest)


def _build_rvc(character: CharacterBundle, settings: SessionSettings) -> Engine:
    from shared.speech.engines import rvc  # noqa: PLC0415 - only where a character needs it

    return rvc.build(character, settings)


def _style_bert_vits2_contracts(_: CharacterManifest) -> Mapping[str, Contract]:
    from shared.speech.engines import style_bert_vits2  # noqa: PLC0415 - only where it is needed

    return style_bert_vits2.CONTRACTS


def _build_style_bert_vits2(
    character: CharacterBundle, _: Engine, settings: SessionSettings
) -> PhraseEngine:
    from shared.speech.engines import style_bert_vits2  # noqa: PLC0415 - only where it is needed

    return style_bert_vits2.build(character, settings)


class TextOnlyEngine:
    """Refuses every recording, for characters that only speak text."""

    def __init__(self, character: CharacterBundle, settings: SessionSettings) -> None:
        del settings
        self.sample_rate = character.manifest.sample_rate

    def convert(
        self,
        samples: Samples,
        sample_rate: int,
        options: ConversionOptions,
        stopwatch: StageClock | None = None,
    ) -> NoReturn:
        del samples, sample_rate, options, stopwatch
        raise VoiceError(
            ErrorCode.SPEECH_NOT_TAKEN,
            "The character speaks text only; send a text, or choose another character.",
        )

    def open_stream(self, sample_rate: int, options: ConversionOptions) -> None:
        del sample_rate, options


class LazyTextEngine(TextEngineWrapper):
    """Builds an engine for the first text: a process that only converts spends nothing on it."""

    def __init__(
        self, sample_rate: int, languages: Sequence[str], build: Callable[[], PhraseEngine]
    ) -> None:
        super().__init__(self._build_once)
        self._sample_rate = sample_rate
        self._languages = languages
        self._build = build
        self._built: PhraseEngine | None = None
        self._lock = Lock()

    @property
    def sample_rate(self) -> int:
        return self._sample_rate

    @property
    def languages(self) -> Sequence[str]:
        return self._languages

    def _build_once(self) -> PhraseEngine:
        with self._lock:
            if self._built is None:
                self._built = self._build()
            return self._built


ENGINES: Mapping[str, EngineKind] = MappingProxyType(
    {
        "harmonic": EngineKind(harmonic.contracts, harmonic.build),
        "rvc": EngineKind(_rvc_contracts, _build_rvc),
        "style_bert_vits2": EngineKind(_style_bert_vits2_contracts, TextOnlyEngine),
        "waveform": EngineKind(waveform.contracts, waveform.build),
    }
)
"""Each engine by the name that manifests give it."""


def build_engine(
    character: CharacterBundle,
    settings: SessionSettings,
    engines: Mapping[str, EngineKind] = ENGINES,
) -> Engine:
    """CONTRIBUTING.md gives `engines` with one more."""
    return engines[character.manifest.engine].build(character, settings)


def _languages_of(manifest: CharacterManifest, settings: SessionSettings) -> Sequence[str]:
    if KokoroPackages(settings.kokoro).is_complete():
        return manifest.text_languages
    _LOG.warning(
        "Kokoro is off, or its packages are not installed: %s speaks Japanese alone, and English"
        " words as katakana",
        manifest.id,
        extra={"event": "japanese_alone", "character": manifest.id},
    )
    return (JAPANESE,)


TextEngineBuilder: TypeAlias = Callable[[CharacterBundle, Engine, SessionSettings], "PhraseEngine"]


def _build_japanese(
    character: CharacterBundle, engine: Engine, settings: SessionSettings
) -> PhraseEngine:
    manifest = character.manifest

    def build() -> PhraseEngine:
        from shared.speech.engines import japanese  # noqa: PLC0415 - only for the first text

        own = japanese.build(manifest, settings)
        if languages == (JAPANESE,):
            return own
        from shared.speech.engines.two_step_speech import SpeechByLanguage  # noqa: PLC0415

        other = _build_two_step(character, engine, settings)
        return SpeechByLanguage({each: own if each == JAPANESE else other for each in languages})

    languages = _languages_of(manifest, settings)
    return LazyTextEngine(manifest.sample_rate, languages, build)


def _build_kokoro(
    character: CharacterBundle, engine: Engine, settings: SessionSettings
) -> PhraseEngine:
    manifest = character.manifest
    if not KokoroPackages(settings.kokoro).is_complete():
        return _build_two_step(character, engine, settings)

    def build() -> PhraseEngine:
        from shared.speech.engines import kokoro  # noqa: PLC0415 - only for the first text

        return kokoro.build(manifest, settings)

    return LazyTextEngine(manifest.sample_rate, _languages_of(manifest, settings), build)


def _build_two_step(
    character: CharacterBundle, engine: Engine, settings: SessionSettings
) -> PhraseEngine:
    manifest = character.manifest

    def build() -> PhraseEngine:
        from shared.speech.engines.two_step_speech import TwoStepSpeech  # noqa: PLC0415 - as above

        if KokoroPackages(settings.kokoro).is_complete():
            from shared.speech.engines import kokoro  # noqa: PLC0415 - as above

            spoken = kokoro.built_in(settings, manifest.text_languages)
            return TwoStepSpeech(spoken, kokoro.MEDIAN_HZ, engine, manifest)
        from shared.speech.engines import japanese  # noqa: PLC0415 - as above

        return TwoStepSpeech(japanese.built_in(settings), japanese.MEDIAN_HZ, engine, manifest)

    return LazyTextEngine(engine.sample_rate, _languages_of(manifest, settings), build)


TEXT_ENGINES: Mapping[str, TextEngineBuilder] = MappingProxyType(
    {
        "japanese": _build_japanese,
        "kokoro": _build_kokoro,
        "style_bert_vits2": _build_style_bert_vits2,
    }
)
"""The builders of the engines that speak text, by their names in manifests."""


def build_text_engine(
    character: CharacterBundle, engine: Engine, settings: SessionSettings
) -> PhraseEngine | None:
    """Build the engine that speaks a character's texts; None if the character takes none.

    Where the manifest names no engine for text, and the character's own engine speaks none, the
    built-in engine speaks and the character converts that. Raises BundleError if no engine of the
    name speaks text, or its graphs do not work.
    """
    manifest = character.manifest
    if not manifest.takes_text:
        return None
    named = manifest.text.engine if manifest.text else None
    if named is not None and named not in TEXT_ENGINES:
        raise BundleError(
            f"{MANIFEST}: field 'text.engine': expected one of {', '.join(TEXT_ENGINES)} for a"
            f" character that takes text, found {quoted(named)}."
        )
    build = TEXT_ENGINES.get(named or manifest.engine, _build_two_step)
    return build(character, engine, settings)
