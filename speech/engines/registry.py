"""The engines that this project comes with."""

from collections.abc import Mapping
from types import MappingProxyType

from speech.bundles.bundle import Character
from speech.engines import rvc, style_bert_vits2
from speech.engines.harmonic import engine as harmonic
from speech.engines.interface import text_only
from speech.engines.interface.engine import Engine, EngineKind
from speech.engines.waveform import engine as waveform
from speech.networks.settings import SessionSettings

ENGINES: Mapping[str, EngineKind] = MappingProxyType(
    {
        "harmonic": EngineKind(harmonic.contracts, harmonic.build),
        "rvc": EngineKind(rvc.contracts, rvc.build),
        "style_bert_vits2": EngineKind(style_bert_vits2.contracts, text_only.build),
        "waveform": EngineKind(waveform.contracts, waveform.build),
    }
)
"""Each engine by the name that manifests give it."""


def build_engine(
    character: Character,
    settings: SessionSettings,
    engines: Mapping[str, EngineKind] = ENGINES,
) -> Engine:
    """Build the engine that a verified character names, and try its graphs on silence.

    Args:
        character: read with the same engines.
        settings: how to run the graphs.
        engines: by name.

    Raises:
        BundleError: a graph does not load, or its output is wrong.
    """
    return engines[character.manifest.engine].build(character, settings)
