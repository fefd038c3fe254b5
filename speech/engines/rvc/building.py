"""Which graphs an RVC voice has, and how its engine is built from them."""

from collections.abc import Callable
from typing import TypeVar

from shared.characters import CharacterManifest
from speech.bundles.bundle import Character, Graph
from speech.bundles.contracts import Contract
from speech.engines.base import SessionSettings
from speech.engines.rvc.engine import RvcEngine, check_manifest
from speech.engines.rvc.networks import (
    ContentContract,
    OnnxContentEncoder,
    OnnxSynthesizer,
    RetrievalContract,
    SynthesizerContract,
    read_retrieval,
)
from speech.engines.rvc.pitch_models import OnnxPitchModel, PitchModelContract
from speech.engines.rvc.settings import RvcSettings, read_settings
from speech.engines.rvc.voice import Voice
from speech.engines.session import GraphSession

CONTENT, SYNTHESIZER, PITCH, RETRIEVAL = "content", "synthesizer", "pitch", "retrieval"

_Loaded = TypeVar("_Loaded")


def contracts(manifest: CharacterManifest) -> dict[str, Contract]:
    """Say what graphs the engine needs.

    Raises:
        BundleError: the manifest does not suit the engine.
    """
    read_settings(manifest)
    check_manifest(manifest)
    needed: dict[str, Contract] = {
        CONTENT: ContentContract(),
        SYNTHESIZER: SynthesizerContract(),
    }
    optional: dict[str, Contract] = {PITCH: PitchModelContract(), RETRIEVAL: RetrievalContract()}
    present = {role: contract for role, contract in optional.items() if role in manifest.graphs}
    return needed | present


def build(character: Character, settings: SessionSettings) -> RvcEngine:
    """Build the engine; see EngineBuilder.

    The content encoder and the pitch model are shared with the other characters that have the same.
    """
    manifest, graphs = character.manifest, character.graphs
    said = read_settings(manifest)
    encoder = _content_encoder(character, said, settings)
    synthesizer = OnnxSynthesizer(
        graphs[SYNTHESIZER],
        GraphSession(graphs[SYNTHESIZER], settings),
        manifest.sample_rate,
    )
    synthesizer.try_out(encoder.channels, said.options.speaker)
    retrieval = None
    if RETRIEVAL in graphs:
        session = GraphSession(graphs[RETRIEVAL], settings)
        retrieval = read_retrieval(graphs[RETRIEVAL], session, encoder.channels)
    pitch_model = _pitch_model(character, settings) if PITCH in graphs else None
    voice = Voice(encoder, synthesizer, retrieval, said.options)
    return RvcEngine(manifest, voice, pitch_model, said.parity)


def _content_encoder(
    character: Character, said: RvcSettings, settings: SessionSettings
) -> OnnxContentEncoder:
    graph = character.graphs[CONTENT]
    session = _shared(character, CONTENT, settings, lambda: GraphSession(graph, settings))
    shape = character.graphs[SYNTHESIZER].facts.inputs["phone"].shape
    channels = shape[2] if shape is not None and isinstance(shape[2], int) else None
    return OnnxContentEncoder(graph, session, channels, said.content_output)


def _pitch_model(character: Character, settings: SessionSettings) -> OnnxPitchModel:
    graph: Graph = character.graphs[PITCH]
    return _shared(
        character, PITCH, settings, lambda: OnnxPitchModel(graph, GraphSession(graph, settings))
    )


def _shared(
    character: Character, role: str, settings: SessionSettings, load: Callable[[], _Loaded]
) -> _Loaded:
    key = f"{role} {character.manifest.graphs[role].sha256} {settings.threads}"
    return settings.sharing.get(key, load)
