"""Character bundles that have been checked, and the contracts between engines and graphs."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MANIFEST, CharacterManifest
from shared.runtime.quoting import quoted
from shared.speech.graphs.onnx_files import ModelFacts, Tensor


@dataclass(frozen=True)
class Graph:
    """One verified ONNX file of a bundle.

    `content` is empty if an open session runs it already; engines share sessions by `sha256`, which
    is computed if it is not given.
    """

    file: str
    content: bytes = field(repr=False)
    facts: ModelFacts
    sha256: str = ""

    def __post_init__(self) -> None:
        if not self.sha256:
            object.__setattr__(self, "sha256", hashlib.sha256(self.content).hexdigest())


@dataclass(frozen=True)
class CharacterBundle:
    manifest: CharacterManifest
    graphs: Mapping[str, Graph]


Shape = tuple[int | str | None, ...]


@dataclass(frozen=True)
class TensorContract:
    """An input or output that a graph must have, in one of several shapes.

    A number is a fixed size, a name a size that varies, None one that may be fixed or vary.
    """

    name: str
    shapes: Sequence[Shape]
    element_type: str = "float32"

    def __str__(self) -> str:
        shapes = (
            f"[{', '.join('any' if size is None else str(size) for size in shape)}]"
            for shape in self.shapes
        )
        return f"{self.element_type} {' or '.join(shapes)}"

    def fits(self, actual: Tensor) -> bool:
        if actual.element_type != self.element_type:
            return False
        sizes = actual.shape
        return sizes is None or any(
            len(shape) == len(sizes)
            and all(
                wanted in {size, None} or not isinstance(size, int)
                for wanted, size in zip(shape, sizes, strict=True)
            )
            for shape in self.shapes
        )


class Contract(Protocol):
    def check(self, graph: Graph) -> None:
        """Raise a BundleError that says in one sentence what is wrong with which tensor."""


@dataclass(frozen=True)
class GraphContract:
    """The inputs and outputs that a graph must have; it may have no other inputs."""

    inputs: Sequence[TensorContract]
    outputs: Sequence[TensorContract]

    def check(self, graph: Graph) -> None:
        for kind, expected, found in (
            ("input", self.inputs, graph.facts.inputs),
            ("output", self.outputs, graph.facts.outputs),
        ):
            for tensor in expected:
                actual = found.get(tensor.name)
                if actual is None or not tensor.fits(actual):
                    names = ", ".join(map(quoted, found)) or "none"
                    raise BundleError(
                        f"{graph.file}: {kind} {quoted(tensor.name)}: expected {tensor}, found"
                        f" {actual or f'only the {kind}s {names}'}."
                    )
        for name in graph.facts.inputs:
            if name not in {tensor.name for tensor in self.inputs}:
                known = ", ".join(quoted(tensor.name) for tensor in self.inputs)
                raise BundleError(
                    f"{graph.file}: input {quoted(name)}: expected only the inputs {known}, found"
                    " this one, too."
                )


class EngineContracts(Protocol):
    @property
    def contracts(self) -> Callable[[CharacterManifest], Mapping[str, Contract]]:
        """Return the requirements for the graphs that a manifest must have, by role.

        Raises BundleError if the manifest does not suit the engine.
        """


def refuse_options(manifest: CharacterManifest) -> None:
    for name in manifest.options:
        raise BundleError(
            f"{MANIFEST}: field 'options': expected none for the engine {manifest.engine},"
            f" found {quoted(name)}."
        )
