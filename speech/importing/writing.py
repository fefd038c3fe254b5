"""Writes files and bundles so that nobody ever sees half of one."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.characters import MANIFEST, ManifestError, parse_manifest
from speech.importing.errors import VoiceFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

_STAGING = ".importing"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place, then put it there at once."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes it readable for its owner alone, but the services run as others.
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def require_new(target: Path) -> None:
    """Refuse a bundle's folder that is there already.

    Raises:
        VoiceFileError: it is.
    """
    if target.exists():
        raise VoiceFileError(
            f"--as {target.name}: expected a new id, found {target}; remove it or choose another."
        )


def put_bundle(target: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> Path:
    """Write a new bundle, whole before it is where characters are looked for.

    Args:
        target: the bundle's folder, named by its id.
        manifest: what its `character.json` says.
        files: the content of its other files by name.

    Returns:
        The folder.

    Raises:
        VoiceFileError: the id is no id or taken, or the manifest would not be accepted.
    """
    require_new(target)
    content = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
    try:
        parse_manifest(content.encode(), target)
    except ManifestError as error:
        raise VoiceFileError(str(error)) from error
    _put(target, {**files, MANIFEST: content.encode()})
    return target


def _put(target: Path, files: Mapping[str, bytes]) -> None:
    staging = target.parent / _STAGING / target.name
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        for name, content in files.items():
            (staging / name).write_bytes(content)
        staging.rename(target)
    finally:
        shutil.rmtree(staging.parent, ignore_errors=True)
