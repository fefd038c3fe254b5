"""The engines: what turns speech into a character's, by kind of bundle.

A new engine is a module with `contracts` and `build` and one line in ENGINES.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from shared.characters import CharacterManifest
from speech.bundles.contracts import GraphContract
from speech.engines import harmonic, waveform
from speech.engines.base import (
    BundleError,
    Character,
    ConversionOptions,
    Engine,
    EngineBuilder,
    Graph,
    Samples,
    SessionSettings,
    StageClock,
)

__all__ = [
    "ENGINES",
    "BundleError",
    "Character",
    "ConversionOptions",
    "Engine",
    "EngineKind",
    "Graph",
    "Samples",
    "SessionSettings",
    "StageClock",
    "build_engine",
]


@dataclass(frozen=True)
class EngineKind:
    """One kind of engine.

    Attributes:
        contracts: what graphs it needs for a manifest, by role; raises BundleError if the manifest
            does not suit it.
        build: builds the engine of a verified character.
    """

    contracts: Callable[[CharacterManifest], Mapping[str, GraphContract]]
    build: EngineBuilder


ENGINES: Mapping[str, EngineKind] = MappingProxyType(
    {
        "harmonic": EngineKind(harmonic.contracts, harmonic.build),
        "waveform": EngineKind(waveform.contracts, waveform.build),
    }
)


def build_engine(character: Character, settings: SessionSettings) -> Engine:
    """Build the engine that a verified character names, and let it try its graphs.

    Raises:
        BundleError: a graph does not load, or does not give what it must.
    """
    return ENGINES[character.manifest.engine].build(character, settings)
