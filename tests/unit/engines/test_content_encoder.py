"""The content encoder that characters share, and the engine that speaks from it."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from onnx import GraphProto, TensorProto

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import ENCODERS
from shared.speech.engines.content_encoder import PRIOR_FRAMES, ContentEncoder, tells_speaker
from shared.speech.engines.harmonic import build
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES
from shared.speech.graphs.bundle import CharacterBundle
from shared.speech.graphs.bundle_folders import load_characters
from shared.speech.graphs.sessions import GraphSession, SessionSettings, shared_session
from shared.speech.signal.analysis import analyse, cut_at_pauses
from shared.speech.signal.sound import NoClock
from tests.unit.graphs import bundles, small_graphs
from tests.unit.signal import signals

COMMON = 7.0
"""What the encoder hears in every frame of the test's recordings, beside their level."""


def content_graph(hop: int = 160) -> GraphProto:
    """Make a graph that hears each frame's mean level, and COMMON in every frame."""
    return small_graphs.graph(
        """
        content (float[1,n] wave) => (float[1,t,2] content)
        <int64[1] axis = {2}, float nothing = {0}> {
            loud = Abs(wave)
            framed = Reshape(loud, frames)
            level = ReduceMean <keepdims=1> (framed, axis)
            zero = Mul(level, nothing)
            usual = Add(zero, common)
            content = Concat <axis=2> (level, usual)
        }
        """,
        frames=np.array([1, -1, hop]),
        common=np.full((1, 1, 1), COMMON, np.float32),
    )


def decoder_graph() -> GraphProto:
    """Make a harmonic graph that takes content in place of the recording."""
    graph = small_graphs.harmonic_graph()
    inputs = [one for one in graph.input if one.name != "wave"]
    del graph.input[:]
    graph.input.extend([*inputs, small_graphs.tensor("content", [1, "t", None])])
    return graph


def sealed(graph: GraphProto) -> tuple[bytes, dict[str, object]]:
    content = small_graphs.content(graph)
    digest = hashlib.sha256(content).hexdigest()
    return content, {"sha256": digest, "bytes": len(content)}


def write_characters(folder: Path, heard: GraphProto, *names: str) -> Path:
    """Write characters, or one named tester, that share a content encoder."""
    encoder, encoder_entry = sealed(heard)
    decoder, entry = sealed(decoder_graph())
    (folder / ENCODERS).mkdir()
    (folder / ENCODERS / f"{encoder_entry['sha256']}.onnx").write_bytes(encoder)
    for name in names or ["tester"]:
        said = {
            "content": {"file": "content.onnx", **encoder_entry},
            "harmonic": {"file": "harmonic.onnx", **entry},
        }
        bundles.write_bundle(folder, decoder, id=name, graphs=said).rename(folder / name)
    return folder


@pytest.fixture
def character(tmp_path: Path) -> CharacterBundle:
    (character,) = load_characters(write_characters(tmp_path, content_graph()), ENGINES).values()
    return character


@pytest.mark.parametrize("seconds", [0.08, 0.55, 50.0])
def test_what_a_recordings_frames_have_in_common_is_taken_away(
    character: CharacterBundle, seconds: float
) -> None:
    encoder = ContentEncoder(GraphSession(character.graphs["content"], SessionSettings()))
    samples = signals.voice(signals.glide(150, 200, seconds))
    analysis = analyse(samples, signals.RATE, NoClock())
    chunks = cut_at_pauses(analysis.levels.frames)

    heard = encoder.hear(analysis, chunks)

    telling = int(tells_speaker(analysis).sum())
    left = COMMON * PRIOR_FRAMES / (telling + PRIOR_FRAMES)
    for chunk, content in zip(chunks, heard, strict=True):
        if content is not None:
            assert content.shape == (chunk.last - chunk.first, 2)
            np.testing.assert_allclose(content[:, 1], left, rtol=1e-4)
    silence = analyse(signals.silence(1.0), signals.RATE, NoClock())
    assert encoder.hear(silence, cut_at_pauses(silence.levels.frames)) == [None]


def test_a_character_speaks_from_what_the_encoder_hears(character: CharacterBundle) -> None:
    engine = build(character, SessionSettings())

    samples = signals.voice(signals.glide(150, 200, 25.0))
    spoken = engine.convert(samples, signals.RATE, ConversionOptions())

    assert len(spoken) == len(samples) * 24_000 // signals.RATE
    assert np.abs(spoken).max() > 0.05
    assert engine.open_stream(signals.RATE, ConversionOptions()) is None


def test_characters_share_one_encoder(tmp_path: Path) -> None:
    folder = write_characters(tmp_path, content_graph(), "one", "two", "three")
    settings = SessionSettings()

    characters = list(load_characters(folder, ENGINES).values())
    engines = [build(character, settings) for character in characters]

    graphs = [character.graphs["content"] for character in characters]
    assert len({id(graph.content) for graph in graphs}) == 1
    assert len({id(shared_session(graph, settings)) for graph in graphs}) == 1
    assert len(engines) == 3


def test_an_encoder_of_other_frames_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    for name in ("frames", "kind"):
        (tmp_path / name).mkdir()
    folder = write_characters(tmp_path / "frames", content_graph(hop=320))
    (character,) = load_characters(folder, ENGINES).values()
    wrong = content_graph()
    wrong.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE

    with pytest.raises(BundleError, match=r"content\.onnx: output 'content': expected"):
        build(character, SessionSettings())
    with pytest.raises(BundleError, match=r"content\.onnx: input 'wave': expected float32"):
        load_characters(write_characters(tmp_path / "kind", wrong), ENGINES)
