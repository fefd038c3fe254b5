"""The engines that speak text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from shared.characters import MANIFEST
from speech.bundles.bundle import BundleError, Character
from speech.engines import style_bert_vits2
from speech.engines.base import SessionSettings
from speech.engines.deferred import DeferredEngine

if TYPE_CHECKING:
    from speech.engines.speaking import PhraseEngine

TextEngineBuilder: TypeAlias = Callable[[Character, SessionSettings], "PhraseEngine"]


def _build_japanese(character: Character, settings: SessionSettings) -> PhraseEngine:
    manifest = character.manifest

    def build() -> PhraseEngine:
        # Only the first text spends the time to import the engine.
        from speech.engines import japanese  # noqa: PLC0415 - see above

        return japanese.build(manifest, settings)

    return DeferredEngine(manifest.sample_rate, build)


TEXT_ENGINES: Mapping[str, TextEngineBuilder] = MappingProxyType(
    {"japanese": _build_japanese, "style_bert_vits2": style_bert_vits2.build}
)
"""What builds each engine that speaks text, by the name that manifests give it."""


def build_text_engine(
    character: Character,
    settings: SessionSettings,
    engines: Mapping[str, TextEngineBuilder] = TEXT_ENGINES,
) -> PhraseEngine | None:
    """Build the engine that speaks a character's texts; None if the character takes none.

    Args:
        character: a verified one.
        settings: how to run its graphs.
        engines: by name.

    Raises:
        BundleError: no engine of its name speaks text, or its graphs do not work.
    """
    manifest = character.manifest
    if not manifest.takes_text:
        return None
    build = engines.get(manifest.text_engine)
    if build is None:
        raise BundleError(
            f"{MANIFEST}: field 'text.engine': expected one of {', '.join(engines)} for a character"
            f" that takes text, found '{manifest.text_engine}'."
        )
    return build(character, settings)
