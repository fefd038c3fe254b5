"""The content encoder that characters share, and the engine that speaks from it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import ENCODERS
from shared.speech.engines.content_encoder import (
    PRIOR_FRAMES,
    ContentEncoder,
    tells_speaker,
)
from shared.speech.engines.harmonic import HarmonicEngine, build
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES
from shared.speech.graphs.bundle_folders import load_characters
from shared.speech.graphs.sessions import GraphSession, SessionSettings
from shared.speech.signal.analysis import analyse, cut_at_pauses
from shared.speech.signal.sound import NoClock
from tests.unit.graphs import bundles, small_graphs
from tests.unit.signal import signals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from onnx import GraphProto

    from shared.speech.graphs.bundle import Graph

COMMON = 7.0
"""What the encoder hears in every frame of the test's recordings, beside their level."""


def content_graph(size: int = 2) -> GraphProto:
    """Make a graph that hears each frame's mean level, and COMMON in every frame."""
    common = np.full((1, 1, size - 1), COMMON, np.float32)
    constants = {
        "frames": np.array([1, -1, 160]),
        "axis": np.array([2]),
        "common": common,
        "nothing": np.zeros(1, np.float32),
    }
    nodes = [
        helper.make_node("Abs", ["wave"], ["loud"]),
        helper.make_node("Reshape", ["loud", "frames"], ["framed"]),
        helper.make_node("ReduceMean", ["framed", "axis"], ["level"], keepdims=1),
        helper.make_node("Mul", ["level", "nothing"], ["zero"]),
        helper.make_node("Add", ["zero", "common"], ["usual"]),
        helper.make_node("Concat", ["level", "usual"], ["content"], axis=2),
    ]
    return helper.make_graph(
        nodes,
        "content",
        [small_graphs.tensor("wave", [1, "160*t"])],
        [small_graphs.tensor("content", [1, "t", size])],
        initializer=[numpy_helper.from_array(value, name) for name, value in constants.items()],
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


def write_characters(folder: Path, names: Sequence[str], heard: GraphProto) -> Path:
    """Write characters that share a content encoder."""
    encoder, encoder_entry = sealed(heard)
    decoder, entry = sealed(decoder_graph())
    (folder / ENCODERS).mkdir()
    (folder / ENCODERS / f"{encoder_entry['sha256']}.onnx").write_bytes(encoder)
    for name in names:
        said = {
            "content": {"file": "content.onnx", **encoder_entry},
            "harmonic": {"file": "harmonic.onnx", **entry},
        }
        bundles.write_bundle(folder, decoder, id=name, graphs=said).rename(folder / name)
    return folder


@pytest.fixture
def encoder(tmp_path: Path) -> ContentEncoder:
    folder = write_characters(tmp_path, ["tester"], content_graph())
    (character,) = load_characters(folder, ENGINES).values()
    return ContentEncoder(GraphSession(character.graphs["content"], SessionSettings()))


@pytest.mark.parametrize("seconds", [0.08, 0.55, 3.01, 50.0])
def test_what_a_recordings_frames_have_in_common_is_taken_away(
    encoder: ContentEncoder, seconds: float
) -> None:
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


def test_nothing_is_heard_where_nobody_speaks(encoder: ContentEncoder) -> None:
    analysis = analyse(np.zeros(signals.RATE, np.float32), signals.RATE, NoClock())

    assert encoder.hear(analysis, cut_at_pauses(analysis.levels.frames)) == [None]


def test_a_character_speaks_from_what_the_encoder_hears(tmp_path: Path) -> None:
    folder = write_characters(tmp_path, ["tester"], content_graph())
    (character,) = load_characters(folder, ENGINES).values()
    engine = build(character, SessionSettings())

    samples = signals.voice(signals.glide(150, 200, 25.0))
    spoken = engine.convert(samples, signals.RATE, ConversionOptions())

    assert len(spoken) == len(samples) * 24_000 // signals.RATE
    assert np.abs(spoken).max() > 0.05
    assert engine.open_stream(signals.RATE, ConversionOptions()) is None


def test_characters_share_one_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_characters(tmp_path, ["one", "two", "three"], content_graph())
    loaded: list[str] = []
    settings = SessionSettings()
    original = GraphSession.__init__

    def count(self: GraphSession, graph: Graph, *arguments: object, **options: object) -> None:
        loaded.append(graph.file)
        original(self, graph, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(GraphSession, "__init__", count)
    characters = load_characters(folder, ENGINES).values()
    engines: list[HarmonicEngine] = [build(character, settings) for character in characters]

    assert len(engines) == 3
    assert loaded.count("content.onnx") == 1
    assert len({id(character.graphs["content"].content) for character in characters}) == 1


def test_an_encoder_that_hears_another_number_of_frames_is_refused(tmp_path: Path) -> None:
    wrong = content_graph()
    constant = next(one for one in wrong.initializer if one.name == "frames")
    constant.CopyFrom(numpy_helper.from_array(np.array([1, -1, 320]), "frames"))
    folder = write_characters(tmp_path, ["tester"], wrong)
    (character,) = load_characters(folder, ENGINES).values()

    with pytest.raises(BundleError, match=r"content\.onnx: output 'content': expected"):
        build(character, SessionSettings())


def test_an_encoder_of_another_kind_is_refused(tmp_path: Path) -> None:
    wrong = content_graph()
    wrong.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    folder = write_characters(tmp_path, ["tester"], wrong)

    with pytest.raises(BundleError, match=r"content\.onnx: input 'wave': expected float32"):
        load_characters(folder, ENGINES)
