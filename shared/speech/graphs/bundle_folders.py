"""Reads character bundles; a bundle is loaded only if everything about it has been checked."""

import hashlib
import json
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from shared.characters.bundle_files import BundleError, find_graph, read_file
from shared.characters.manifest import (
    BUILT_IN,
    MANIFEST,
    MAX_BUNDLE_BYTES,
    MAX_MANIFEST_BYTES,
    MAX_PORTRAIT_BYTES,
    CharacterManifest,
    GraphFile,
    ManifestError,
    bundle_folders,
    log_set_aside,
    read_manifest,
)
from shared.runtime.process import read_at_most, write_whole
from shared.runtime.quoting import printable, quoted
from shared.speech.graphs.bundle import CharacterBundle, EngineContracts, Graph
from shared.speech.graphs.onnx_files import (
    GraphContent,
    UnsafeModelError,
    inspect_model,
    read_content,
)
from shared.speech.graphs.portraits import check_portrait


def load_characters(
    folder: Path,
    engines: Mapping[str, EngineContracts],
    max_bytes: int = MAX_BUNDLE_BYTES,
    read: Callable[[Path], GraphContent] = read_content,
) -> Mapping[str, CharacterBundle]:
    """Load every character bundle of a folder, in the order of bundle_folders.

    A bundle that will not work is set aside with a log entry; the first one, and the built-in ones,
    must work, or it is a BundleError. `max_bytes` limits the graphs of one bundle together.
    """
    try:
        folders = bundle_folders(folder)
    except ManifestError as error:
        raise BundleError(str(error)) from error
    # Read and verified once, however many characters share it.
    shared: dict[str, Graph] = {}
    characters = {}
    for path in folders:
        try:
            characters[path.name] = load_character(path, engines, max_bytes, shared, read)
        except BundleError as error:
            if not characters or path.name in BUILT_IN:
                raise
            log_set_aside(path.name, error)
    return MappingProxyType(characters)


def load_character(
    folder: Path,
    engines: Mapping[str, EngineContracts],
    max_bytes: int = MAX_BUNDLE_BYTES,
    shared: dict[str, Graph] | None = None,
    read: Callable[[Path], GraphContent] = read_content,
) -> CharacterBundle:
    """Load a character bundle: manifest, portrait, and graphs by size, hash, content and tensors.

    The graphs are not run yet: building the engine does that, with the very bytes checked here.
    `shared` holds the verified graphs that characters share, by SHA-256; new ones are added. Raises
    BundleError, one sentence about which file, field or tensor is wrong.
    """
    try:
        manifest = read_manifest(folder / MANIFEST)
    except ManifestError as error:
        raise BundleError(str(error)) from error
    if manifest.preview.portrait:
        portrait = read_file(folder, manifest.preview.portrait, MAX_PORTRAIT_BYTES)
        check_portrait(manifest.preview.portrait, portrait)
    find = partial(_find_graph, folder, {} if shared is None else shared, read)
    return assemble_character(manifest, engines, find, max_bytes)


def assemble_character(
    manifest: CharacterManifest,
    engines: Mapping[str, EngineContracts],
    find: Callable[[GraphFile], Graph],
    max_bytes: int = MAX_BUNDLE_BYTES,
) -> CharacterBundle:
    """Put a character together from its manifest and verified graphs; errors as load_character."""
    check_size(manifest, max_bytes)
    if manifest.engine not in engines:
        raise BundleError(
            f"{MANIFEST}: field 'engine': expected one of {', '.join(engines)},"
            f" found {quoted(manifest.engine)}."
        )
    contracts = engines[manifest.engine].contracts(manifest)
    if set(contracts) != set(manifest.graphs):
        expected, found = (", ".join(map(quoted, each)) for each in (contracts, manifest.graphs))
        raise BundleError(
            f"{MANIFEST}: field 'graphs': expected {expected} for the engine"
            f" {manifest.engine}, found {found}."
        )
    graphs = {}
    for role, contract in contracts.items():
        graph = find(manifest.graphs[role])
        contract.check(graph)
        graphs[role] = graph
    return CharacterBundle(manifest, MappingProxyType(graphs))


def verify_graph(entry: GraphFile, content: bytes, sha256: str | None = None) -> Graph:
    """Check that bytes are the graph that a manifest names, and that it is safe to load."""
    if len(content) != entry.bytes:
        raise BundleError(f"{entry.file}: expected {entry.bytes} bytes, found {len(content)}.")
    found = sha256 or hashlib.sha256(content).hexdigest()
    if found != entry.sha256:
        raise BundleError(f"{entry.file}: expected SHA-256 {entry.sha256}, found {found}.")
    try:
        facts = inspect_model(content)
    except UnsafeModelError as error:
        raise BundleError(f"{entry.file}: {error}") from error
    return Graph(entry.file, content, facts, found)


def check_size(manifest: CharacterManifest, most: int) -> None:
    total = sum(graph.bytes for graph in manifest.graphs.values())
    if total > most:
        raise BundleError(
            f"{MANIFEST}: field 'graphs': expected at most {most} bytes in all graphs together,"
            f" found {total}; make the graphs smaller or raise the limit."
        )


def _find_graph(
    folder: Path, shared: dict[str, Graph], read: Callable[[Path], GraphContent], entry: GraphFile
) -> Graph:
    path = find_graph(folder, entry.file, entry.sha256)
    is_shared = path.parent != folder
    if is_shared and entry.sha256 in shared:
        return shared[entry.sha256]
    size = path.stat().st_size
    if size != entry.bytes:
        # Before it is read: it may be far larger than the manifest says.
        raise BundleError(f"{entry.file}: expected {entry.bytes} bytes, found {size}.")
    content = read(path)
    graph = verify_graph(entry, content.data, content.sha256)
    if is_shared:
        shared[entry.sha256] = graph
    return graph


_Traces = tuple[tuple[str, int, int], ...]
"""Path, time and size of each file of a bundle: they differ when it has changed."""


@dataclass(frozen=True, slots=True)
class FolderChanges:
    new: tuple[str, ...]
    gone: tuple[str, ...]


class WatchedFolder:
    """A folder of bundles; `known` ids are not reported as new, by default all that are in it."""

    def __init__(self, folder: Path, known: Container[str] | None = None) -> None:
        self._folder = folder
        self._seen = self._look()
        self._reported = {
            name: traces for name, traces in self._seen.items() if known is None or name in known
        }

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._seen)

    def look(self) -> FolderChanges:
        """Look again; a bundle is new when it is the same at two looks, and so is complete."""
        before, self._seen = self._seen, self._look()
        gone = tuple(sorted(self._reported.keys() - self._seen.keys()))
        for name in gone:
            del self._reported[name]
        new = tuple(
            name
            for name, traces in self._seen.items()
            if traces == before.get(name) and traces != self._reported.get(name)
        )
        self._reported |= {name: self._seen[name] for name in new}
        return FolderChanges(new, gone)

    def _look(self) -> Mapping[str, _Traces]:
        found = sorted(path.parent for path in self._folder.glob(f"*/{MANIFEST}"))
        traces: dict[str, _Traces] = {}
        for folder in found:
            if folder.name in BUILT_IN or folder.name[0] == ".":
                continue
            files = []
            for path in sorted(folder.rglob("*")):
                with suppress(OSError):  # it was removed just now; the next look tells
                    facts = path.stat()
                    files.append((str(path.relative_to(folder)), facts.st_mtime_ns, facts.st_size))
            traces[folder.name] = tuple(files)
        return traces


def seal_manifest(folder: Path, max_bytes: int) -> None:
    """Write the sizes and SHA-256 of a bundle's graphs into its manifest."""
    file = folder / MANIFEST
    try:
        manifest = json.loads(read_at_most(file, MAX_MANIFEST_BYTES))
        for entry in manifest["graphs"].values():
            path = find_graph(folder, entry["file"], entry["sha256"])
            content = read_file(path.parent, path.name, max_bytes)
            entry.update(sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
    except BundleError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(
            f"{MANIFEST}: expected a manifest whose graphs name their files, found"
            f" {printable(repr(error))}."
        ) from error
    text = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
    write_whole(file, text.encode())
