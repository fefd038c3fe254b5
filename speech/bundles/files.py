"""The files of a bundle: ordinary files in its folder, nothing else."""

from pathlib import Path

from speech.bundles.bundle import BundleError


def find_file(folder: Path, name: str) -> Path:
    """Find a file of a bundle.

    Raises:
        BundleError: it is missing, or is a link or a folder.
    """
    path = folder / name
    if path.is_symlink() or not path.is_file():
        kind = "a link" if path.is_symlink() else "none"
        raise BundleError(f"{name}: expected a file in {folder}, found {kind}.")
    return path


def read_file(folder: Path, name: str, max_bytes: int) -> bytes:
    """Read a file of a bundle.

    Raises:
        BundleError: it is missing, is a link or a folder, or is too large.
    """
    path = find_file(folder, name)
    size = path.stat().st_size
    if size > max_bytes:
        raise BundleError(f"{name}: expected at most {max_bytes} bytes, found {size}.")
    return path.read_bytes()
