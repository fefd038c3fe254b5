"""The engine `rvc`: voices of Retrieval-based Voice Conversion.

A bundle has up to four graphs, by role:

    content      turns speech into features of what is said: ContentContract
    synthesizer  speaks the features in the voice: SynthesizerContract
    pitch        follows the fundamental frequency, in place of our own tracker: PitchModelContract
    retrieval    holds features of the voice's training: RetrievalContract

`pitch` and `retrieval` may be left out. The manifest's settings are VoiceOptions' and RvcSettings'.
"""

from collections.abc import Mapping

from shared.characters.manifest import CharacterManifest
from speech.bundles.bundle import Character
from speech.bundles.contracts import Contract
from speech.engines.interface.engine import Engine
from speech.networks.settings import SessionSettings


def contracts(manifest: CharacterManifest) -> Mapping[str, Contract]:
    """List the graphs that the engine needs.

    Raises:
        BundleError: the manifest does not suit the engine.
    """
    # Only a container that has such voices spends the time to import the engine.
    from speech.engines.rvc import building  # noqa: PLC0415 - see above

    return building.contracts(manifest)


def build(character: Character, settings: SessionSettings) -> Engine:
    """Build the engine; see EngineBuilder."""
    from speech.engines.rvc import building  # noqa: PLC0415 - see contracts

    return building.build(character, settings)
