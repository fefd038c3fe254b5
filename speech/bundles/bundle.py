"""What a character bundle is once it has been read and checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from shared.characters import CharacterManifest
from speech.bundles.onnx_model import ModelFacts


class BundleError(ValueError):
    """A character bundle that will not work; the message is one sentence that says why."""


@dataclass(frozen=True)
class Graph:
    """One verified ONNX file of a bundle: its name, its bytes and its inputs and outputs."""

    file: str
    content: bytes
    facts: ModelFacts


@dataclass(frozen=True)
class Character:
    """A verified character bundle: the manifest, and the graphs by the role they play."""

    manifest: CharacterManifest
    graphs: Mapping[str, Graph]
