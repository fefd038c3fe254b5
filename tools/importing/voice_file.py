"""The configuration of an RVC voice's network: sizes, rates, inputs."""

from __future__ import annotations

import math
import re
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Never

import numpy as np

from shared.runtime.quoting import quoted
from tools.bundles.encoder_store import FEATURE_SIZES
from tools.bundles.files import VoiceFileError
from tools.importing.torch_archive import TorchArchive, read_tensors
from tools.importing.torch_pickle import TensorPlace, read_pickle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO

    from numpy.typing import NDArray


FRAMES_PER_SECOND = 100

_ENTRIES = 18
_MOST_CHANNELS = 4_096
_MOST_LAYERS = 64
_MOST_STAGES = 8
_MOST_SAMPLES_PER_FRAME = 1_920
_LOWEST_RATE, _HIGHEST_RATE = 8_000, 192_000
_DIGITS = re.compile(r"[0-9]{4,6}", re.ASCII)
_RATES = {"24k": 24_000, "32k": 32_000, "40k": 40_000, "44k": 44_100, "48k": 48_000}


@dataclass(frozen=True)
class NetworkSizes:
    """The sizes of a voice's network, as the list `config` of the file gives them.

    Attributes:
        resblock: "1" has pairs of convolutions, "2" single ones.
        sample_rate: of the audio in Hz.
    """

    inter_channels: int
    hidden_channels: int
    filter_channels: int
    heads: int
    layers: int
    kernel_size: int
    resblock: str
    resblock_kernels: tuple[int, ...]
    resblock_dilations: tuple[tuple[int, ...], ...]
    upsample_rates: tuple[int, ...]
    upsample_channels: int
    upsample_kernels: tuple[int, ...]
    speaker_channels: int
    sample_rate: int

    @property
    def hop(self) -> int:
        """Samples of audio per frame of features."""
        return math.prod(self.upsample_rates)


def read_sizes(config: object) -> NetworkSizes:
    """Read the list `config` of a voice.

    It has 18 entries (RVC, train/process_ckpt.py), or 19 where a fork puts the size of the features
    before the sample rate.
    """
    if not isinstance(config, list | tuple) or len(config) not in {_ENTRIES, _ENTRIES + 1}:
        found = f"{len(config)}" if isinstance(config, list | tuple) else quoted(config)
        raise VoiceFileError(f"'config': expected a list of 18 or 19 entries, found {found}.")
    dilations, resblock = config[11], str(config[9])
    if resblock not in {"1", "2"}:
        refuse("resblock", "'1' or '2'", config[9])
    if not isinstance(dilations, list | tuple) or not 1 <= len(dilations) <= _MOST_STAGES:
        refuse("resblock_dilation_sizes", f"1 to {_MOST_STAGES} lists", dilations)
    rate = sample_rate_of(config[-1])
    if rate is None or not _LOWEST_RATE <= rate <= FRAMES_PER_SECOND * _MOST_SAMPLES_PER_FRAME:
        refuse("sr", "a sample rate", config[-1])
    sizes = NetworkSizes(
        inter_channels=count_of(config[2], "inter_channels", _MOST_CHANNELS),
        hidden_channels=count_of(config[3], "hidden_channels", _MOST_CHANNELS),
        filter_channels=count_of(config[4], "filter_channels", _MOST_CHANNELS),
        heads=count_of(config[5], "n_heads", _MOST_LAYERS),
        layers=count_of(config[6], "n_layers", _MOST_LAYERS),
        kernel_size=count_of(config[7], "kernel_size", _MOST_LAYERS),
        resblock=resblock,
        resblock_kernels=counts_of(config[10], "resblock_kernel_sizes", _MOST_LAYERS),
        resblock_dilations=tuple(
            counts_of(each, "resblock_dilation_sizes", _MOST_LAYERS) for each in dilations
        ),
        upsample_rates=counts_of(config[12], "upsample_rates", _MOST_SAMPLES_PER_FRAME),
        upsample_channels=count_of(config[13], "upsample_initial_channel", _MOST_CHANNELS),
        upsample_kernels=counts_of(config[14], "upsample_kernel_sizes", _MOST_SAMPLES_PER_FRAME),
        speaker_channels=count_of(config[16], "gin_channels", _MOST_CHANNELS),
        sample_rate=rate,
    )
    check_sizes(sizes)
    return sizes


def sample_rate_of(value: object) -> int | None:
    """Read a sample rate as RVC's tools write it: 40000, "40k" or "40000"."""
    if isinstance(value, str):
        return _RATES.get(value) or (int(value) if _DIGITS.fullmatch(value) else None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def count_of(value: object, name: str, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        refuse(name, f"a whole number from 1 to {most}", value)
    return value


def counts_of(value: object, name: str, most: int) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= _MOST_STAGES:
        refuse(name, f"1 to {_MOST_STAGES} numbers", value)
    return tuple(count_of(each, name, most) for each in value)


def check_sizes(sizes: NetworkSizes) -> None:
    stages = len(sizes.upsample_rates)
    if len(sizes.upsample_kernels) != stages:
        refuse("upsample_kernel_sizes", f"{stages} numbers", sizes.upsample_kernels)
    if len(sizes.resblock_dilations) != len(sizes.resblock_kernels):
        expected = f"{len(sizes.resblock_kernels)} lists"
        refuse("resblock_dilation_sizes", expected, sizes.resblock_dilations)
    if sizes.upsample_channels % (1 << stages):
        refuse("upsample_initial_channel", f"a multiple of {1 << stages}", sizes.upsample_channels)
    if sizes.inter_channels % 2:
        refuse("inter_channels", "an even number", sizes.inter_channels)
    if sizes.hidden_channels % sizes.heads:
        refuse("hidden_channels", f"a multiple of {sizes.heads}", sizes.hidden_channels)
    if sizes.hop * FRAMES_PER_SECOND != sizes.sample_rate:
        expected = f"numbers whose product is {sizes.sample_rate} / {FRAMES_PER_SECOND}"
        refuse("upsample_rates", expected, list(sizes.upsample_rates))
    for rate, kernel in zip(sizes.upsample_rates, sizes.upsample_kernels, strict=True):
        if kernel < rate or ((kernel - rate) % 2 and kernel != 2 * rate):
            refuse("upsample_kernel_sizes", f"a kernel for the rate {rate}", kernel)
    if any(kernel % 2 == 0 for kernel in sizes.resblock_kernels):
        refuse("resblock_kernel_sizes", "odd numbers", list(sizes.resblock_kernels))


def refuse(name: str, expected: str, found: object) -> Never:
    text = str(found)[:80] if isinstance(found, list | tuple) and is_plain(found) else quoted(found)
    raise VoiceFileError(f"'config', entry {name}: expected {expected}, found {text}.")


def is_plain(values: Sequence[object]) -> bool:
    return len(values) <= _MOST_STAGES and all(type(value) is int for value in values)


HIFI_GAN = "HiFi-GAN"
MRF_HIFI_GAN = "MRF HiFi-GAN"

_SPELLINGS = {
    **dict.fromkeys(("HiFi-GAN", "HiFi-GAN-NSF", "NSF-HiFi-GAN", "Default"), HIFI_GAN),
    **dict.fromkeys(("MRF HiFi-GAN", "MRF-HiFi-GAN"), MRF_HIFI_GAN),
}
_PARTS = ("dec.", "emb_g.", "enc_p.", "flow.")
_TRAINING_KEYS = frozenset({"model", "optimizer", "iteration", "learning_rate"})
_LONGEST_FACT = 200


@dataclass(frozen=True)
class VoiceFile:
    """A voice out of a `.pth`.

    Attributes:
        version: "v1" or "v2", which says what features it takes.
        vocoder: `HIFI_GAN` or `MRF_HIFI_GAN`.
        weights: of the network, weight normalisation worked in, float32 by name.
    """

    sizes: NetworkSizes
    version: str
    has_pitch: bool
    vocoder: str
    speakers: int
    weights: Mapping[str, NDArray[np.float32]] = field(repr=False)
    facts: Mapping[str, str]
    repairs: Sequence[str]


def read_voice(file: BinaryIO) -> VoiceFile:
    with closing(TorchArchive(file)) as archive:
        content = read_pickle(archive.pickle())
        if not isinstance(content, dict):
            raise VoiceFileError("expected a dictionary with 'weight' and 'config', found none.")
        places = tensor_places(content)
        version = declared_version(content)
        vocoder = _vocoder(content, places)
        sizes = read_sizes(content.get("config"))
        weights = without_weight_norm(read_tensors(archive, places))
    repairs = []
    found, has_pitch = version_of(weights), _has_pitch(weights)
    if version != found:
        repairs.append(f"The file says {version}, but its weights are {found}: taken as {found}.")
    if "f0" in content and bool(content["f0"]) != has_pitch:
        repairs.append(f"The file says otherwise, but its weights {take_pitch(has_pitch)}.")
    if sample_rate_of(content.get("sr", sizes.sample_rate)) != sizes.sample_rate:
        repairs.append(
            f"The file says {quoted(content['sr'])}, but its network makes {sizes.sample_rate} Hz."
        )
    if vocoder == MRF_HIFI_GAN and not has_pitch:
        raise VoiceFileError(f"vocoder {quoted(vocoder)}: expected a voice with pitch, found none.")
    return VoiceFile(
        sizes=sizes,
        version=found,
        has_pitch=has_pitch,
        vocoder=vocoder,
        speakers=rowcount_of(weights),
        weights=weights,
        facts=_facts(content),
        repairs=repairs,
    )


def take_pitch(has_pitch: bool) -> str:  # noqa: FBT001
    return "take a pitch" if has_pitch else "take no pitch"


def tensor_places(content: Mapping[object, object]) -> dict[str, TensorPlace]:
    """Find the synthesizer's tensors, or say what the file is instead of a voice."""
    if "weight" not in content and _TRAINING_KEYS & {
        key for key in content if isinstance(key, str)
    }:
        raise VoiceFileError(
            "expected a finished voice, found a file of a training (G_*.pth or D_*.pth); bring the"
            " small .pth that the tool exports into its folder of weights."
        )
    weights = content.get("weight")
    if not isinstance(weights, dict) or "config" not in content:
        keys = ", ".join(quoted(key) for key in list(content)[:8])
        raise VoiceFileError(
            f"expected an RVC voice with 'weight' and 'config', found the entries {keys or 'none'}."
        )
    places = {}
    for name, place in weights.items():
        if not isinstance(name, str) or not isinstance(place, TensorPlace):
            raise VoiceFileError(
                f"tensor {quoted(name)}: expected a tensor, found {quoted(place)}."
            )
        if name.startswith(_PARTS):
            places[name] = place
    return places


def declared_version(content: Mapping[object, object]) -> str:
    version = content.get("version", "v1")
    if not isinstance(version, str) or version not in FEATURE_SIZES:
        raise VoiceFileError(
            f"'version': expected 'v1' or 'v2', found {quoted(version)}, which is another kind of"
            " network."
        )
    return version


def _vocoder(content: Mapping[object, object], places: Mapping[str, object]) -> str:
    """Tell the vocoder by the names of its tensors; what the file says must agree."""
    if any(name.startswith("dec.downsample_blocks.") for name in places):
        raise VoiceFileError(
            "vocoder: expected HiFi-GAN or MRF HiFi-GAN, found RefineGAN, which draws noise inside"
            " of every block and cannot be converted; train or export the voice with HiFi-GAN."
        )
    said = content.get("vocoder") or HIFI_GAN
    vocoder = _SPELLINGS.get(said) if isinstance(said, str) else None
    if vocoder is None:
        raise VoiceFileError(
            f"vocoder: expected {HIFI_GAN} or {MRF_HIFI_GAN}, found {quoted(said)}, which cannot be"
            " converted."
        )
    found = next((kind for part, kind in _MARKS if any(n.startswith(part) for n in places)), None)
    if found is None or (vocoder == MRF_HIFI_GAN and found != MRF_HIFI_GAN):
        raise VoiceFileError(
            f"vocoder: expected the tensors of {vocoder}, found those of"
            f" {found or 'an unknown vocoder'}."
        )
    return found


_MARKS = (("dec.mrfs.", MRF_HIFI_GAN), ("dec.resblocks.", HIFI_GAN))


def without_weight_norm(
    tensors: Mapping[str, NDArray[np.float32]],
) -> dict[str, NDArray[np.float32]]:
    """Work the weight normalisation in: weight = g * v / |v|.

    The norm is taken over all axes but the first (Salimans and Kingma, "Weight Normalization",
    2016; PyTorch's `weight_norm` with its default axis).
    """
    named = {plain_name(name): tensor for name, tensor in tensors.items()}
    folded = {
        name: tensor
        for name, tensor in named.items()
        if not name.endswith((".weight_g", ".weight_v"))
    }
    for name in named:
        if name.endswith((".weight_g", ".weight_v")):
            base = name.removesuffix("_g").removesuffix("_v")
            folded[base] = _folded(base, named.get(f"{base}_g"), named.get(f"{base}_v"))
    return folded


def plain_name(name: str) -> str:
    return name.replace(".parametrizations.weight.original0", ".weight_g").replace(
        ".parametrizations.weight.original1", ".weight_v"
    )


def _folded(
    name: str, gain: NDArray[np.float32] | None, direction: NDArray[np.float32] | None
) -> NDArray[np.float32]:
    if gain is None or direction is None:
        raise VoiceFileError(f"tensor {quoted(name)}: expected its two halves, found one.")
    expected = (direction.shape[0], *[1] * (direction.ndim - 1)) if direction.ndim else ()
    if gain.shape != expected:
        raise VoiceFileError(
            f"tensor {quoted(name + '_g')}: expected the shape {list(expected)}, found"
            f" {list(gain.shape)}."
        )
    exact = direction.astype(np.float64)
    norm = np.sqrt(np.sum(exact**2, axis=tuple(range(1, direction.ndim)), keepdims=True))
    if not norm.all():
        raise VoiceFileError(f"tensor {quoted(name + '_v')}: expected numbers, found only zeros.")
    return np.asarray(gain * exact / norm, np.float32)


def version_of(weights: Mapping[str, NDArray[np.float32]]) -> str:
    """Tell the version by how many features the first layer takes."""
    layer = weights.get("enc_p.emb_phone.weight")
    size = layer.shape[-1] if layer is not None and layer.ndim else None
    for version, expected in FEATURE_SIZES.items():
        if size == expected:
            return version
    raise VoiceFileError(
        f"tensor 'enc_p.emb_phone.weight': expected 256 or 768 features, found {size or 'none'}."
    )


def _has_pitch(weights: Mapping[str, object]) -> bool:
    encoder = "enc_p.emb_pitch.weight" in weights
    decoder = "dec.m_source.l_linear.weight" in weights
    if encoder != decoder:
        missing = "dec.m_source.l_linear.weight" if encoder else "enc_p.emb_pitch.weight"
        raise VoiceFileError(
            f"tensor {quoted(missing)}: expected it beside the other part of the pitch, found none."
        )
    return encoder


def rowcount_of(weights: Mapping[str, NDArray[np.float32]]) -> int:
    table = weights.get("emb_g.weight")
    if table is None or not table.size:
        raise VoiceFileError("tensor 'emb_g.weight': expected a row per speaker, found none.")
    return int(table.shape[0])


def _facts(content: Mapping[object, object]) -> dict[str, str]:
    """Return the file's description of itself, as text that is safe to show."""
    facts = {"tool": tool(content)}
    for name, keys in _FACTS.items():
        values = (content.get(key) for key in keys)
        value = next((each for each in values if isinstance(each, str | int) and each != ""), None)
        if value is not None:
            facts[name] = "".join(
                letter for letter in str(value)[:_LONGEST_FACT] if letter.isprintable()
            )
    return facts


_FACTS = {
    "epoch": ("epoch", "info"),
    "author": ("author",),
    "name": ("model_name",),
    "encoder": ("embedder_model", "embedder_name"),
    "encoder layer": ("embedder_output_layer",),
}


def tool(content: Mapping[object, object]) -> str:
    if "model_hash" in content or "vocoder" in content:
        return "Applio"
    return "rvc-webui" if "embedder_name" in content else "RVC"
