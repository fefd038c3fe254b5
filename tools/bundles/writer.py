"""Writes the bundle of an imported voice: graphs and manifest, all of it or nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.characters.manifest import MANIFEST, ManifestError, parse_manifest
from tools.bundles.files import VoiceFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.bundles.consent import Consent
    from tools.bundles.encoder_store import StoredEncoder

_STAGING = ".importing-"
COLOUR = "#5b6abf"
PORTRAIT = "portrait.svg"
LIMITS = {"min_seconds": 0.1, "max_seconds": 300.0}


def write_files(
    target: Path,
    manifest: Mapping[str, Any],
    graphs: Mapping[str, bytes],
    portrait: bytes | None = None,
) -> None:
    """Write a bundle into a new folder."""
    if target.exists():
        raise VoiceFileError(
            f"--as {target.name}: expected a new id, found {target}; remove it or choose another."
        )
    content = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
    try:
        parse_manifest(content.encode(), target)
    except ManifestError as error:
        raise VoiceFileError(str(error)) from error
    files = {f"{role}.onnx": graph for role, graph in graphs.items()}
    drawing = {} if portrait is None else {PORTRAIT: portrait}
    put(target, files | drawing | {MANIFEST: content.encode()})


def put(target: Path, files: dict[str, bytes]) -> None:
    """Make a folder whole before it is where characters are looked for."""
    # A name of its own: another import may be writing its bundle now.
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=target.parent))
    try:
        for name, content in files.items():
            (staging / name).write_bytes(content)
        # mkdtemp makes it readable for its owner alone, but the services run as others.
        staging.chmod(0o755)
        staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def owner_fields(consent: Consent) -> dict[str, Any]:
    """Return the fields of a manifest that the voice's owner decides about."""
    return {
        "credit": consent.credit,
        "licence": _licence(consent),
        "terms_url": consent.terms_url,
        "consent": f"{consent.owner}: {consent.consent}",
        "contact": consent.contact,
        "uses": {
            "commercial": consent.commercial,
            "redistribution": consent.redistribution,
            "adult": consent.adult,
            "politics": consent.politics,
        },
    }


def preview(portrait: bytes | None, colour: str = COLOUR) -> dict[str, Any]:
    return {"colour": colour, "portrait": None if portrait is None else PORTRAIT}


def entry(role: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    return {"file": f"{role}.onnx", "sha256": digest, "bytes": len(content)}


def shared_entry(role: str, stored: StoredEncoder) -> dict[str, Any]:
    return {"file": f"{role}.onnx", "sha256": stored.sha256, "bytes": stored.bytes}


def _licence(consent: Consent) -> dict[str, Any]:
    licence = {"name": consent.licence, "spdx": consent.spdx, "url": consent.terms_url}
    return licence | ({"text": consent.licence_text} if consent.licence_text else {})
