"""The engine `style_bert_vits2`: text to speech with voices of Style-Bert-VITS2 (JP-Extra)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shared.characters.manifest import CharacterManifest
from speech.bundles.bundle import Character
from speech.bundles.contracts import Contract
from speech.networks.settings import SessionSettings

if TYPE_CHECKING:
    from speech.engines.interface.text_engine import PhraseEngine


def contracts(manifest: CharacterManifest) -> Mapping[str, Contract]:
    """List the graphs that the engine needs."""
    del manifest
    # Only a container that has such voices spends the time to import the engine.
    from speech.engines.style_bert_vits2 import bundle  # noqa: PLC0415 - see above

    return bundle.CONTRACTS


def build(character: Character, settings: SessionSettings) -> "PhraseEngine":
    """Build the engine; see TextEngineBuilder."""
    from speech.engines.style_bert_vits2 import bundle  # noqa: PLC0415 - see contracts

    return bundle.build(character, settings)
