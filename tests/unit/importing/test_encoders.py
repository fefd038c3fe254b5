from __future__ import annotations

import onnx
import pytest

from shared.speech.graphs.onnx_files import inspect_model
from tests.unit.importing.encoders import encoder
from tests.unit.importing.exported import Export
from tests.unit.importing.voices import Kind
from tools.bundles.files import VoiceFileError
from tools.importing.encoders import inspect_encoder, quantise


@pytest.mark.parametrize(("rank", "channels_first"), [(2, False), (3, True)])
def test_the_axis_of_the_features_is_read_from_a_trial(rank: int, *, channels_first: bool) -> None:
    found = inspect_encoder(encoder(rank=rank, channels_first=channels_first))

    (output,) = found.outputs
    assert (found.input, found.rank) == ("source", rank)
    assert (output.name, output.width, output.channels_first) == ("embed0", 768, channels_first)
    assert output.version == "v2"
    assert found.real_time_factor > 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected an ONNX model, found"),
        (encoder((512,)), "expected features float32 [1, 49, 256 or 768] for a second of audio"),
        (Export(Kind(has_pitch=False)).content(), "expected an encoder with one input, float32"),
    ],
)
def test_what_is_no_content_encoder_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(VoiceFileError) as refused:
        inspect_encoder(content)

    assert str(refused.value).startswith(message)


def test_eight_bits_make_an_encoder_smaller_and_hardly_another_one() -> None:
    found = inspect_encoder(encoder())

    quantised = quantise(found)

    assert 0 < quantised.distance < 0.05
    assert 0.8 < quantised.least_cosine <= 1
    assert quantised.encoder.outputs == found.outputs
    model = onnx.load_from_string(quantised.encoder.content)
    assert any(node.op_type == "MatMulInteger" for node in model.graph.node)
    # It is still a graph that the container takes.
    inspect_model(quantised.encoder.content)
