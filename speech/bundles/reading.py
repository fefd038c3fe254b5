"""Reads character bundles; a bundle is loaded only if everything about it has been checked."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from shared.characters import (
    MANIFEST,
    MAX_BUNDLE_BYTES,
    CharacterManifest,
    GraphFile,
    ManifestError,
    bundle_folders,
    read_manifest,
)
from speech.bundles.bundle import BundleError, Character, Graph
from speech.bundles.contracts import EngineContracts
from speech.bundles.files import find_graph, read_file
from speech.bundles.onnx_model import UnsafeModelError, inspect_model
from speech.bundles.portraits import MAX_PORTRAIT_BYTES, check_portrait


def load_characters(
    folder: Path, engines: Mapping[str, EngineContracts], max_bytes: int = MAX_BUNDLE_BYTES
) -> Mapping[str, Character]:
    """Load every character bundle of a folder, in the order of their ids; see load_character.

    Raises:
        BundleError: one of them will not work, or there is none.
    """
    try:
        folders = bundle_folders(folder)
    except ManifestError as error:
        raise BundleError(str(error)) from error
    characters = (load_character(path, engines, max_bytes) for path in folders)
    return MappingProxyType({character.manifest.id: character for character in characters})


def load_character(
    folder: Path, engines: Mapping[str, EngineContracts], max_bytes: int = MAX_BUNDLE_BYTES
) -> Character:
    """Load a character bundle: manifest, portrait, and graphs by size, hash, content and tensors.

    The graphs are not run yet: building the engine does that, with the very bytes checked here.

    Args:
        folder: the bundle.
        engines: those that its manifest may name.
        max_bytes: how many bytes its graphs may have together.

    Raises:
        BundleError: in one sentence, what is wrong with which file, field or tensor.
    """
    try:
        manifest = read_manifest(folder / MANIFEST)
    except ManifestError as error:
        raise BundleError(str(error)) from error
    _check_size(manifest, max_bytes)
    if manifest.preview.portrait:
        portrait = read_file(folder, manifest.preview.portrait, MAX_PORTRAIT_BYTES)
        check_portrait(manifest.preview.portrait, portrait)
    return Character(manifest, _load_graphs(manifest, engines))


def _check_size(manifest: CharacterManifest, most: int) -> None:
    total = sum(graph.bytes for graph in manifest.graphs.values())
    if total > most:
        raise BundleError(
            f"{MANIFEST}: field 'graphs': expected at most {most} bytes in all graphs together,"
            f" found {total}; make the graphs smaller or raise the limit."
        )


def _load_graphs(
    manifest: CharacterManifest, engines: Mapping[str, EngineContracts]
) -> Mapping[str, Graph]:
    if manifest.engine not in engines:
        raise BundleError(
            f"{MANIFEST}: field 'engine': expected one of {', '.join(engines)},"
            f" found '{manifest.engine}'."
        )
    contracts = engines[manifest.engine].contracts(manifest)
    if set(contracts) != set(manifest.graphs):
        raise BundleError(
            f"{MANIFEST}: field 'graphs': expected {_listed(contracts)} for the engine"
            f" {manifest.engine}, found {_listed(manifest.graphs)}."
        )
    graphs = {}
    for role, contract in contracts.items():
        graph = _load_graph(manifest.folder, manifest.graphs[role])
        contract.check(graph)
        graphs[role] = graph
    return MappingProxyType(graphs)


def _load_graph(folder: Path, entry: GraphFile) -> Graph:
    path = find_graph(folder, entry.file, entry.sha256)
    size = path.stat().st_size
    if size != entry.bytes:
        raise BundleError(f"{entry.file}: expected {entry.bytes} bytes, found {size}.")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != entry.sha256:
        raise BundleError(f"{entry.file}: expected SHA-256 {entry.sha256}, found {found}.")
    try:
        facts = inspect_model(content)
    except UnsafeModelError as error:
        raise BundleError(f"{entry.file}: {error}") from error
    return Graph(entry.file, content, facts)


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(f"'{name}'" for name in names)
