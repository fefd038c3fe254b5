"""Which graphs an RVC voice has, and how its engine is built from them."""

from shared.characters.manifest import CharacterManifest
from speech.bundles.bundle import Character
from speech.bundles.contracts import Contract
from speech.engines.rvc.engine import RvcEngine, check_manifest
from speech.engines.rvc.networks import (
    ContentContract,
    OnnxContentEncoder,
    OnnxSynthesizer,
    RetrievalContract,
    SynthesizerContract,
    read_retrieval,
)
from speech.engines.rvc.pitch.models import OnnxPitchModel, PitchModelContract
from speech.engines.rvc.settings import RvcSettings, read_settings
from speech.engines.rvc.voice import RvcVoice
from speech.networks.session import GraphSession, shared_session
from speech.networks.settings import SessionSettings

CONTENT, SYNTHESIZER, PITCH, RETRIEVAL = "content", "synthesizer", "pitch", "retrieval"


def contracts(manifest: CharacterManifest) -> dict[str, Contract]:
    """List the graphs that the engine needs.

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

    Characters that have the same content encoder, pitch model or synthesizer share it.
    """
    manifest, graphs = character.manifest, character.graphs
    said = read_settings(manifest)
    encoder = _content_encoder(character, said, settings)
    synthesizer = OnnxSynthesizer(
        graphs[SYNTHESIZER],
        shared_session(graphs[SYNTHESIZER], settings),
        manifest.sample_rate,
    )
    synthesizer.try_out(encoder.channels, said.options.speaker)
    retrieval = None
    if RETRIEVAL in graphs:
        session = GraphSession(graphs[RETRIEVAL], settings)
        retrieval = read_retrieval(graphs[RETRIEVAL], session, encoder.channels)
    pitch_model = None
    if PITCH in graphs:
        pitch_model = OnnxPitchModel(graphs[PITCH], shared_session(graphs[PITCH], settings))
    voice = RvcVoice(encoder, synthesizer, retrieval, said.options)
    return RvcEngine(manifest, voice, pitch_model)


def _content_encoder(
    character: Character, said: RvcSettings, settings: SessionSettings
) -> OnnxContentEncoder:
    graph = character.graphs[CONTENT]
    session = shared_session(graph, settings)
    shape = character.graphs[SYNTHESIZER].facts.inputs["phone"].shape
    channels = shape[2] if shape is not None and isinstance(shape[2], int) else None
    return OnnxContentEncoder(graph, session, channels, said.content_output)
