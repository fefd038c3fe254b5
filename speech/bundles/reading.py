"""Character bundles: loaded only if everything about them is as it must be."""

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from shared.characters import (
    MANIFEST,
    MAX_GRAPH_BYTES,
    CharacterManifest,
    GraphFile,
    ManifestError,
    bundle_folders,
    read_manifest,
)
from speech.bundles.onnx_model import UnsafeModelError, inspect_model
from speech.bundles.portraits import MAX_PORTRAIT_BYTES, check_portrait
from speech.engines import ENGINES
from speech.engines.base import BundleError, Character, Graph, SessionSettings

__all__ = ["BundleError", "Character", "load_character", "load_characters"]


def load_characters(folder: Path) -> Mapping[str, Character]:
    """Load every character bundle of a folder, by id in order.

    Raises:
        BundleError: one of them will not work, or there is none.
    """
    try:
        folders = bundle_folders(folder)
    except ManifestError as error:
        raise BundleError(str(error)) from error
    characters = (load_character(path) for path in folders)
    return MappingProxyType({character.manifest.id: character for character in characters})


def load_character(folder: Path) -> Character:
    """Load a character bundle: manifest, portrait, and graphs by size, hash, content and tensors.

    The graphs are not run yet; `build_engine` does that. What is checked are the very bytes that it
    will run.

    Raises:
        BundleError: in one sentence, what is wrong with which file, field or tensor.
    """
    try:
        manifest = read_manifest(folder / MANIFEST)
    except ManifestError as error:
        raise BundleError(str(error)) from error
    if manifest.preview.portrait:
        portrait = _read_file(folder, manifest.preview.portrait, MAX_PORTRAIT_BYTES)
        check_portrait(manifest.preview.portrait, portrait)
    return Character(manifest, _load_graphs(manifest))


def _load_graphs(manifest: CharacterManifest) -> Mapping[str, Graph]:
    if manifest.engine not in ENGINES:
        raise BundleError(
            f"{MANIFEST}: field 'engine': expected one of {', '.join(ENGINES)},"
            f" found '{manifest.engine}'."
        )
    contracts = ENGINES[manifest.engine].contracts(manifest)
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
    content = _read_file(folder, entry.file, MAX_GRAPH_BYTES)
    if len(content) != entry.bytes:
        raise BundleError(f"{entry.file}: expected {entry.bytes} bytes, found {len(content)}.")
    found = hashlib.sha256(content).hexdigest()
    if found != entry.sha256:
        raise BundleError(f"{entry.file}: expected SHA-256 {entry.sha256}, found {found}.")
    try:
        facts = inspect_model(content)
    except UnsafeModelError as error:
        raise BundleError(f"{entry.file}: {error}") from error
    return Graph(entry.file, content, facts)


def _read_file(folder: Path, name: str, most: int) -> bytes:
    path = folder / name
    if path.is_symlink() or not path.is_file():
        kind = "a link" if path.is_symlink() else "none"
        raise BundleError(f"{name}: expected a file in {folder}, found {kind}.")
    size = path.stat().st_size
    if size > most:
        raise BundleError(f"{name}: expected at most {most} bytes, found {size}.")
    return path.read_bytes()


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def seal(folder: Path) -> None:
    """Write the sizes and SHA-256 of a bundle's graphs into its manifest.

    Raises:
        BundleError: the manifest has no graphs, or a file is missing.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
        for entry in manifest["graphs"].values():
            content = _read_file(folder, entry["file"], MAX_GRAPH_BYTES)
            entry.update(sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(
            f"{MANIFEST}: expected a manifest whose graphs name their files, found {error!r}."
        ) from error
    path.write_text(json.dumps(manifest, ensure_ascii=False, indent=2) + "\n", "utf-8")


def main(arguments: list[str]) -> int:
    """Say in one sentence whether a bundle works, and how fast; 0 if it does."""
    # Only the command measures; the container has no use for it.
    from speech.bundles.trial import try_bundle  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="character", description=main.__doc__)
    parser.add_argument("folder", type=Path, help=f"the bundle, with its {MANIFEST}")
    parser.add_argument("--threads", type=int, default=1, help="for the network (default: 1)")
    parser.add_argument(
        "--seal", action="store_true", help="first write the graphs' sizes and SHA-256 into it"
    )
    options = parser.parse_args(arguments)
    try:
        if options.seal:
            seal(options.folder)
        verdict = try_bundle(options.folder, SessionSettings(threads=options.threads))
    except BundleError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{verdict}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
