"""Writes the sizes and SHA-256 of a bundle's graphs into its manifest."""

import hashlib
import json
from pathlib import Path

from shared.characters.manifest import MANIFEST, MAX_MANIFEST_BYTES
from shared.process.quoting import printable
from shared.process.reading import read_at_most
from shared.process.writing import write_whole
from speech.bundles.files import BundleError, find_graph, read_file


def seal(folder: Path, max_bytes: int) -> None:
    """Write the sizes and SHA-256 of a bundle's graphs into its manifest.

    Args:
        folder: the bundle.
        max_bytes: how large one graph may be.

    Raises:
        BundleError: the manifest has no graphs, or a file is missing or too large.
    """
    said = folder / MANIFEST
    try:
        manifest = json.loads(read_at_most(said, MAX_MANIFEST_BYTES))
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
    write_whole(said, text.encode())
