"""The whole synthesizer of a voice as one ONNX graph.

Inputs, for T frames of 10 ms, F features and `hop` samples per frame:

| name | type | is |
|---|---|---|
| phone | float32 [1, T, F] | features |
| phone_lengths | int64 [1] | how many frames count |
| pitch | int64 [1, T] | coarse pitch, 1 to 255 |
| pitchf | float32 [1, T] | fundamental frequency in Hz, 0 = unvoiced |
| ds | int64 [1] | speaker |
| rnd | float32 [1, C, T] | the prior's noise, scaled by the caller |
| noise | float32 [1, T * hop, H] | the source's noise, of unit variance, H harmonics |

The output is `audio`, float32 [1, 1, T * hop]. A voice without pitch has no `pitch`, `pitchf` and
`noise`. Nothing in the graph is random, and every length works.

Measured with a full-size v2 voice of 40 kHz (27.5 million random weights, 200 frames, 1 thread,
ONNX Runtime 1.31, a busy machine with AVX-512; processor seconds per second of audio, the best of
three runs in turn):

| form | seconds | loading | file | against the first |
|---|---|---|---|---|
| convolutions over [1, C, 1, T], float32 | 1.01 | 0.65 s | 107 MB | - |
| convolutions over [1, C, T], float32 | 1.14 | 0.40 s | 107 MB | 2e-6 |
| weights stored as float16, over [1, C, 1, T] | 1.04 | 0.56 s | 54 MB | 8e-4 |

Hence four axes, which are a ninth faster, and float32: half precision of the weights, of which the
normalisation is worked in, is no faster, and its error is above what two exports of a voice differ.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from importing.encoders.encoder_store import FEATURE_SIZES
from importing.files.graph_builder import FLOAT, INT64, GraphBuilder
from importing.rvc.checkpoint.voice_file import MRF_HIFI_GAN
from importing.rvc.synthesizer.decoder import HIFI_GAN_NAMES, MRF_NAMES, Decoder
from importing.rvc.synthesizer.flow import Flow, Speakers
from importing.rvc.synthesizer.layers import Weights
from importing.rvc.synthesizer.source import Source
from importing.rvc.synthesizer.text_encoder import Prior, TextEncoder

if TYPE_CHECKING:
    from importing.rvc.checkpoint.voice_file import VoiceFile


def build_synthesizer(voice: VoiceFile) -> bytes:
    """Write a voice's synthesizer.

    Returns:
        The ONNX file; its inputs and its output stand at the top of this module.

    Raises:
        VoiceFileError: a weight is missing, is not of the shape that the sizes ask for, or belongs
            to no part of such a network.
    """
    graph, weights = GraphBuilder(), Weights(voice.weights)
    features = FEATURE_SIZES[voice.version]
    phone = graph.input("phone", FLOAT, (1, "T", features))
    lengths = graph.input("phone_lengths", INT64, (1,))
    pitch = graph.input("pitch", INT64, (1, "T")) if voice.has_pitch else None
    hertz = graph.input("pitchf", FLOAT, (1, "T")) if voice.has_pitch else None
    speaker = graph.input("ds", INT64, (1,))
    random = graph.input("rnd", FLOAT, (1, voice.sizes.inter_channels, "T"))
    embeddings = weights.take("emb_g.weight", voice.speakers, voice.sizes.speaker_channels)
    speakers = Speakers(graph, embeddings, speaker)
    mask, mask_signal = _masks(graph, phone, lengths)
    encoder = TextEncoder(graph, weights, voice.sizes, mask, mask_signal)
    sample = _sample(graph, encoder.add(phone, pitch, features), random, mask_signal)
    signal = Flow(graph, weights, voice.sizes, mask_signal, speakers).add(sample)
    source = None if hertz is None else _source(graph, weights, voice, hertz)
    names = MRF_NAMES if voice.vocoder == MRF_HIFI_GAN else HIFI_GAN_NAMES
    audio = Decoder(graph, weights, voice.sizes, names, speakers).add(signal, source)
    graph.output(audio, "audio", FLOAT, (1, 1, "N"))
    weights.finish()
    return graph.model("rvc", {"metadata": json.dumps(_metadata(voice), sort_keys=True)})


def _metadata(voice: VoiceFile) -> dict[str, object]:
    """Write the metadata that voice-changer looks for in a file."""
    return {
        "f0": voice.has_pitch,
        "samplingRate": voice.sizes.sample_rate,
        "embChannels": FEATURE_SIZES[voice.version],
    }


def _masks(graph: GraphBuilder, phone: str, lengths: str) -> tuple[str, str]:
    """Return 1 for frames that count and 0 for others, as [1, 1, T, 1] and as [1, 1, 1, T]."""
    count = graph.node("Squeeze", graph.node("Shape", phone, start=1, end=2))
    zero, one = (graph.constant(np.array(value, np.int64)) for value in (0, 1))
    frames = graph.node("Range", zero, count, one)
    counts = graph.node("Cast", graph.node("Less", frames, lengths), to=FLOAT)
    return (
        graph.node("Reshape", counts, graph.sizes(1, 1, -1, 1)),
        graph.node("Reshape", counts, graph.sizes(1, 1, 1, -1)),
    )


def _sample(graph: GraphBuilder, prior: Prior, random: str, mask: str) -> str:
    """Draw from the prior with the given noise."""
    noise = graph.node("Unsqueeze", random, graph.sizes(2))
    spread = graph.node("Exp", prior.log_spread)
    drawn = graph.node("Add", prior.mean, graph.node("Mul", spread, noise))
    return graph.node("Mul", drawn, mask)


def _source(graph: GraphBuilder, weights: Weights, voice: VoiceFile, hertz: str) -> str:
    weight = weights.take("dec.m_source.l_linear.weight", 1, None)
    bias = weights.take("dec.m_source.l_linear.bias", 1)
    noise = graph.input("noise", FLOAT, (1, "N", weight.shape[1]))
    sizes = voice.sizes
    return Source(graph, sizes.hop, sizes.sample_rate, weight, bias).add(hertz, noise)
