"""The files of a bundle: ordinary files in its folder, nothing else."""

from pathlib import Path

from shared.characters.manifest import ENCODERS


class BundleError(ValueError):
    """A character bundle that will not work; the message is one sentence about the reason."""


def find_file(folder: Path, name: str) -> Path:
    """Return the path of a file of a bundle; `BundleError` if it is missing, a link or a folder."""
    path = folder / name
    if path.is_symlink() or not path.is_file():
        kind = "a link" if path.is_symlink() else "none"
        raise BundleError(f"{name}: expected a file in {folder}, found {kind}.")
    return path


def find_graph(folder: Path, name: str, sha256: str) -> Path:
    """Return the path of a graph: in the bundle's folder, or among the shared encoders."""
    shared = folder.parent / ENCODERS / f"{sha256}.onnx"
    is_elsewhere = not (folder / name).exists() and not (folder / name).is_symlink()
    if is_elsewhere and shared.is_file():
        folder, name = shared.parent, shared.name
    return find_file(folder, name)


def read_file(folder: Path, name: str, max_bytes: int) -> bytes:
    """Return the content of a file; `BundleError` as `find_file`, or if it is too large."""
    path = find_file(folder, name)
    size = path.stat().st_size
    if size > max_bytes:
        raise BundleError(f"{name}: expected at most {max_bytes} bytes, found {size}.")
    return path.read_bytes()
