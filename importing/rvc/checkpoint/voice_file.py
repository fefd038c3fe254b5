"""Voices as RVC and its forks save them (`.pth`), read without PyTorch and without running them.

The layouts: RVC's own (train/process_ckpt.py), Applio's (rvc/train/process/extract_model.py) and
that of ddPn08's rvc-webui, whose `config` has one entry more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from importing.encoders.encoder_store import FEATURE_SIZES
from importing.files.errors import VoiceFileError
from importing.files.torch_archive import TorchArchive
from importing.files.torch_pickle import TensorPlace, read_pickle
from importing.files.torch_tensors import read_tensors
from importing.rvc.checkpoint.voice_config import NetworkSizes, read_sizes, sample_rate_of
from shared.process.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO

    from numpy.typing import NDArray

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
        sizes: of its network.
        version: "v1" or "v2", which says what features it takes.
        has_pitch: whether it takes a pitch.
        vocoder: `HIFI_GAN` or `MRF_HIFI_GAN`.
        speakers: how many it has.
        weights: of the network, weight normalisation worked in, float32 by name.
        facts: what else the file says, as text: tool, epoch, author, encoder.
        repairs: a sentence for everything that the file says and that is not so.
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
    """Read a voice.

    Args:
        file: a seekable file.

    Raises:
        VoiceFileError: it is no voice, or none that can be converted; in one sentence, why.
    """
    with TorchArchive(file) as archive:
        content = read_pickle(archive.pickle())
        if not isinstance(content, dict):
            raise VoiceFileError("expected a dictionary with 'weight' and 'config', found none.")
        places = _tensor_places(content)
        version = _declared_version(content)
        vocoder = _vocoder(content, places)
        sizes = read_sizes(content.get("config"))
        weights = _without_weight_norm(read_tensors(archive, places))
    repairs = []
    found, has_pitch = _version_of(weights), _has_pitch(weights)
    if version != found:
        repairs.append(f"The file says {version}, but its weights are {found}: taken as {found}.")
    if "f0" in content and bool(content["f0"]) != has_pitch:
        repairs.append(f"The file says otherwise, but its weights {_take_pitch(has_pitch)}.")
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
        speakers=_row_count(weights),
        weights=weights,
        facts=_facts(content),
        repairs=repairs,
    )


def _take_pitch(has_pitch: bool) -> str:  # noqa: FBT001
    return "take a pitch" if has_pitch else "take no pitch"


def _tensor_places(content: Mapping[object, object]) -> dict[str, TensorPlace]:
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


def _declared_version(content: Mapping[object, object]) -> str:
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


def _without_weight_norm(
    tensors: Mapping[str, NDArray[np.float32]],
) -> dict[str, NDArray[np.float32]]:
    """Work the weight normalisation in: weight = g * v / |v|.

    The norm is taken over all axes but the first (Salimans and Kingma, "Weight Normalization",
    2016; PyTorch's `weight_norm` with its default axis).
    """
    named = {_plain_name(name): tensor for name, tensor in tensors.items()}
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


def _plain_name(name: str) -> str:
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


def _version_of(weights: Mapping[str, NDArray[np.float32]]) -> str:
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


def _row_count(weights: Mapping[str, NDArray[np.float32]]) -> int:
    table = weights.get("emb_g.weight")
    if table is None or not table.size:
        raise VoiceFileError("tensor 'emb_g.weight': expected a row per speaker, found none.")
    return int(table.shape[0])


def _facts(content: Mapping[object, object]) -> dict[str, str]:
    """Return the file's description of itself, as text that is safe to show."""
    facts = {"tool": _tool(content)}
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


def _tool(content: Mapping[object, object]) -> str:
    if "model_hash" in content or "vocoder" in content:
        return "Applio"
    return "rvc-webui" if "embedder_name" in content else "RVC"
