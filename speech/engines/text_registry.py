"""The engines that speak text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from shared.characters.manifest import MANIFEST
from shared.process.quoting import quoted
from speech.bundles.bundle import Character
from speech.bundles.files import BundleError
from speech.engines import style_bert_vits2
from speech.engines.converted.deferred import DeferredEngine
from speech.engines.interface.engine import Engine
from speech.engines.kokoro import packages
from speech.networks.settings import SessionSettings

if TYPE_CHECKING:
    from shared.characters.manifest import CharacterManifest
    from speech.engines.interface.text_engine import PhraseEngine

TextEngineBuilder: TypeAlias = Callable[[Character, Engine, SessionSettings], "PhraseEngine"]

_KOKORO = "kokoro"


def _build_japanese(
    character: Character, engine: Engine, settings: SessionSettings
) -> PhraseEngine:
    del engine
    manifest = character.manifest

    def build() -> PhraseEngine:
        # Only the first text spends the time to import the engine.
        from speech.engines.japanese import engine as japanese  # noqa: PLC0415 - see above

        return japanese.build(manifest, settings)

    return DeferredEngine(manifest.sample_rate, build)


def _build_kokoro(character: Character, engine: Engine, settings: SessionSettings) -> PhraseEngine:
    manifest = character.manifest
    if not packages.is_installed():
        return _build_converted(character, engine, settings)

    def build() -> PhraseEngine:
        from speech.engines.kokoro import engine as kokoro  # noqa: PLC0415 - as above

        return kokoro.build(manifest, settings)

    return DeferredEngine(manifest.sample_rate, build)


def _build_converted(
    character: Character, engine: Engine, settings: SessionSettings
) -> PhraseEngine:
    manifest = character.manifest

    def build() -> PhraseEngine:
        from speech.engines.converted.engine import ConvertedSpeech  # noqa: PLC0415 - as above

        return ConvertedSpeech(*_built_in(settings), engine, manifest)

    return DeferredEngine(engine.sample_rate, build)


def _built_in(settings: SessionSettings) -> tuple[PhraseEngine, float]:
    """Return the best voice that is installed, and how high it speaks in Hz."""
    if packages.is_installed():
        from speech.engines.kokoro import engine as kokoro  # noqa: PLC0415 - as above

        return kokoro.built_in(settings), kokoro.MEDIAN_HZ
    from speech.engines.japanese import engine as japanese  # noqa: PLC0415 - as above

    return japanese.built_in(settings), japanese.MEDIAN_HZ


def _build_style_bert_vits2(
    character: Character, engine: Engine, settings: SessionSettings
) -> PhraseEngine:
    del engine
    return style_bert_vits2.build(character, settings)


TEXT_ENGINES: Mapping[str, TextEngineBuilder] = MappingProxyType(
    {
        "japanese": _build_japanese,
        _KOKORO: _build_kokoro,
        "style_bert_vits2": _build_style_bert_vits2,
    }
)
"""The builders of the engines that speak text, by their names in manifests."""


def build_text_engine(
    character: Character,
    engine: Engine,
    settings: SessionSettings,
    engines: Mapping[str, TextEngineBuilder] = TEXT_ENGINES,
) -> PhraseEngine | None:
    """Build the engine that speaks a character's texts; None if the character takes none.

    Where the manifest names no engine for text, and the character's own engine speaks none, the
    built-in voice speaks and the character converts that.

    Args:
        character: a verified one.
        engine: that converts recordings for it.
        settings: how to run its graphs.
        engines: by name.

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
