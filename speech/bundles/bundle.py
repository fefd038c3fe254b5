"""A character bundle that has been read and checked."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.characters.manifest import CharacterManifest
from speech.bundles.onnx_model import ModelFacts


@dataclass(frozen=True)
class Graph:
    """One verified ONNX file of a bundle.

    Attributes:
        file: its name.
        content: its bytes; none if an open session runs it already (see speech.networks.session).
        facts: its inputs and outputs.
        sha256: of the bytes, by which engines share the sessions; computed if it is not given.
    """

    file: str
    content: bytes = field(repr=False)
    facts: ModelFacts
    sha256: str = ""

    def __post_init__(self) -> None:
        """Compute the SHA-256 if it is not known yet."""
        if not self.sha256:
            object.__setattr__(self, "sha256", hashlib.sha256(self.content).hexdigest())


@dataclass(frozen=True)
class Character:
    """A verified character bundle: the manifest, and the graphs by the role they play."""

    manifest: CharacterManifest
    graphs: Mapping[str, Graph]
