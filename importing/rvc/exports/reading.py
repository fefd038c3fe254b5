"""Reads a voice that another tool has exported to ONNX, and makes it fit the engine's contract."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx
from google.protobuf.message import DecodeError

from importing.encoders.encoder_store import FEATURE_SIZES
from importing.files.errors import VoiceFileError
from importing.rvc.checkpoint.voice_config import FRAMES_PER_SECOND, sample_rate_of
from importing.rvc.exports.editing import widen_half_precision
from importing.rvc.exports.fitting import fit_to_contract
from speech.bundles.onnx_model import UnsafeModelError, inspect_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_EXPORT_BYTES = 1 << 30
_OLDEST_OPSET = 11
_LARGEST_METADATA = 10_000
_FACTS = ("embedder", "embOutputLayer", "modelType", "version")
_LONGEST_FACT = 200


@dataclass(frozen=True)
class ExportedVoice:
    """A voice out of an `.onnx`.

    Attributes:
        graph: the ONNX file that fits the contract (see `importing.rvc.synthesizer.build`).
        family: of the tool that exported it.
        version: "v1" or "v2", which says what features it takes.
        has_pitch: whether it takes a pitch.
        sample_rate: of its audio in Hz.
        speakers: how many it has.
        facts: what else the file says, as text.
        repairs: a sentence for everything that was changed.
    """

    graph: bytes = field(repr=False)
    family: str
    version: str
    has_pitch: bool
    sample_rate: int
    speakers: int
    facts: Mapping[str, str]
    repairs: Sequence[str]


def read_export(content: bytes) -> ExportedVoice:
    """Read an exported voice.

    Args:
        content: the whole ONNX file.

    Raises:
        VoiceFileError: it is no RVC voice, or none that can be made to work; in one sentence, why.
    """
    model = _load(content)
    metadata = _metadata(model)
    repairs = []
    if widen_half_precision(model):
        repairs.append("Half precision was widened to single precision.")
    fitted = fit_to_contract(model)
    if fitted.had_random_nodes:
        repairs.append("Random numbers inside of the graph became inputs.")
    if fitted.had_wrong_phase:
        repairs.append("The phase, which was wrong where nothing is voiced, was repaired.")
    sample_rate = fitted.hop * FRAMES_PER_SECOND
    declared = sample_rate_of(metadata.get("samplingRate"))
    if declared not in {None, sample_rate}:
        repairs.append(f"The file says {declared} Hz, but its network makes {sample_rate} Hz.")
    return ExportedVoice(
        graph=fitted.content,
        family=fitted.family,
        version=next(key for key, size in FEATURE_SIZES.items() if size == fitted.features),
        has_pitch=fitted.has_pitch,
        sample_rate=sample_rate,
        speakers=fitted.speakers,
        facts=_facts(metadata),
        repairs=repairs,
    )


def _load(content: bytes) -> onnx.ModelProto:
    if len(content) > MAX_EXPORT_BYTES:
        raise VoiceFileError(f"expected at most {MAX_EXPORT_BYTES} bytes, found {len(content)}.")
    try:
        inspect_model(content)
        model = onnx.ModelProto()
        model.ParseFromString(content)
    except UnsafeModelError as error:
        raise VoiceFileError(str(error)) from error
    except DecodeError as error:
        raise VoiceFileError("expected an ONNX model, found a malformed one.") from error
    opsets = [each.version for each in model.opset_import if each.domain in {"", "ai.onnx"}]
    if not opsets or opsets[0] < _OLDEST_OPSET:
        raise VoiceFileError(
            f"expected operators of version {_OLDEST_OPSET} or newer, found"
            f" {opsets[0] if opsets else 'none'}."
        )
    return model


def _metadata(model: onnx.ModelProto) -> dict[str, object]:
    """Read the metadata that voice-changer and its kin write into a file, if there is any."""
    for entry in model.metadata_props:
        if entry.key == "metadata" and len(entry.value) <= _LARGEST_METADATA:
            try:
                metadata = json.loads(entry.value)
            except (ValueError, RecursionError):
                return {}
            return metadata if isinstance(metadata, dict) else {}
    return {}


def _facts(metadata: Mapping[str, object]) -> dict[str, str]:
    facts = {}
    for name in _FACTS:
        value = metadata.get(name)
        if isinstance(value, str | int):
            letters = (letter for letter in str(value)[:_LONGEST_FACT] if letter.isprintable())
            facts[name] = "".join(letters)
    return facts
