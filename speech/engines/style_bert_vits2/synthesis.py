"""One run of a voice's graph, step by step as Style-Bert-VITS2 (2.7, JP-Extra) does it.

The graph, role `synthesis`, takes for T phones with their blanks

    x_tst, tones, language  int64 [1, T]
    x_tst_lengths, sid      int64 [1]
    bert                    float32 [1, 1024, T]
    style_vec               float32 [1, 256]
    length_scale, sdp_ratio, noise_scale, noise_scale_w   float32 []
    noise                   float32 [N]    standard normal, read round and round

and gives `output`, float32 [1, 1, samples]. The original draws the noise inside of the graph;
importing makes it an input (see importing.aivmx.noise), so that a seed decides about it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from shared.process.quoting import quoted
from speech.bundles.contracts import GraphContract, TensorContract
from speech.bundles.files import BundleError
from speech.engines.style_bert_vits2.encoder import FEATURES, BertEncoder
from speech.engines.style_bert_vits2.voice import STYLE_SIZE, StyleBertVoice
from speech.networks.session import GraphSession
from speech.signal.arrays import Samples
from speech.text.phones.phonemes import Phonemes
from speech.text.phones.tokens import voice_inputs

ROLE = "synthesis"
OUTPUT = "output"

_PHONES = [("batch", "phones")]
_ONE = [("batch",)]
CONTRACT = GraphContract(
    inputs=(
        TensorContract("x_tst", _PHONES, "int64"),
        TensorContract("x_tst_lengths", _ONE, "int64"),
        TensorContract("sid", _ONE, "int64"),
        TensorContract("tones", _PHONES, "int64"),
        TensorContract("language", _PHONES, "int64"),
        TensorContract("bert", [("batch", FEATURES, "phones")]),
        TensorContract("style_vec", [("batch", STYLE_SIZE)]),
        TensorContract("length_scale", [()]),
        TensorContract("sdp_ratio", [()]),
        TensorContract("noise_scale", [()]),
        TensorContract("noise_scale_w", [()]),
        TensorContract("noise", [("values",)]),
    ),
    outputs=(TensorContract(OUTPUT, [("batch", 1, "samples")]),),
)

_AUDIO_DIMENSIONS = 3

_NOISE_SEED = 0
_NOISE_VALUES = 1 << 19  # 30 s of a full-size voice, and longer than anybody remembers noise


@dataclass(frozen=True)
class Inference:
    """How a text is spoken, in the terms of Style-Bert-VITS2; the defaults are its own.

    Attributes:
        speaker: the number that the graph knows the speaker by.
        style: row of the style vectors.
        style_weight: how much of the style.
        sdp_ratio: how much of the durations is left to chance, 0 to 1.
        noise_scale: how much chance there is in the sound.
        noise_scale_w: how much chance there is in the durations.
        length_scale: how long everything takes; 2 is half as fast.
        seed: of the chance, not negative.
    """

    speaker: int = 0
    style: int = 0
    style_weight: float = 1.0
    sdp_ratio: float = 0.2
    noise_scale: float = 0.6
    noise_scale_w: float = 0.8
    length_scale: float = 1.0
    seed: int = 0


class Synthesis:
    """Speaks phones with a voice's graph; any number of threads use it at once, without a lock.

    Args:
        voice: what is known of the voice.
        session: its graph.
        encoder: the BERT of the voice.
    """

    def __init__(self, voice: StyleBertVoice, session: GraphSession, encoder: BertEncoder) -> None:
        self._voice = voice
        self._session = session
        self._encoder = encoder
        random = default_rng(_NOISE_SEED)
        # Twice over, so that the noise can begin anywhere without being copied.
        noise = random.standard_normal(_NOISE_VALUES, np.float32)
        self._noise = np.concatenate([noise, noise])

    def speak(self, phonemes: Phonemes, inference: Inference) -> Samples:
        """Speak phones: float32 [samples], as loud as the graph has it."""
        inputs = self.inputs(phonemes, self._encoder.encode(phonemes.text), inference)
        return self._session.run(inputs, OUTPUT).ravel()

    def inputs(
        self, phonemes: Phonemes, features: NDArray[np.float32], inference: Inference
    ) -> dict[str, NDArray[np.generic]]:
        """Prepare what the graph takes.

        Args:
            phonemes: of the text.
            features: BERT's, of the text's C characters and both ends, float32 [C + 2, 1024].
            inference: how it is spoken.
        """
        numbers = voice_inputs(phonemes, add_blank=self._voice.add_blank)
        bert = np.repeat(features, numbers.word2ph, axis=0).T
        style = self._voice.style_vector(inference.style, inference.style_weight)
        return {
            "x_tst": np.array([numbers.phones], np.int64),
            "x_tst_lengths": np.array([len(numbers.phones)], np.int64),
            "sid": np.array([inference.speaker], np.int64),
            "tones": np.array([numbers.tones], np.int64),
            "language": np.array([numbers.languages], np.int64),
            "bert": np.ascontiguousarray(bert[None]),
            "style_vec": style[None],
            "length_scale": np.array(inference.length_scale, np.float32),
            "sdp_ratio": np.array(inference.sdp_ratio, np.float32),
            "noise_scale": np.array(inference.noise_scale, np.float32),
            "noise_scale_w": np.array(inference.noise_scale_w, np.float32),
            "noise": self._read_noise(inference.seed),
        }

    def try_out(self, phonemes: Phonemes, file: str) -> None:
        """Run the graph on a short text.

        Args:
            phonemes: of the text.
            file: name of the graph, for the error.

        Raises:
            BundleError: it fails, or its output is not what it must be.
        """
        features = self._encoder.encode(phonemes.text)
        audio = self._session.try_out(self.inputs(phonemes, features, Inference()), OUTPUT)
        if audio.ndim != _AUDIO_DIMENSIONS or audio.shape[:2] != (1, 1):
            raise BundleError(
                f"{file}: output {quoted(OUTPUT)}: expected float32 [1, 1, samples],"
                f" found {list(audio.shape)}."
            )

    def _read_noise(self, seed: int) -> Samples:
        begin = int(default_rng(seed).integers(_NOISE_VALUES))
        return self._noise[begin : begin + _NOISE_VALUES]
