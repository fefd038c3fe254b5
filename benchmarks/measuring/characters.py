"""Folders of characters with one that a benchmark has made."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, Final

from importing.bundles.bundles import preview, write_files
from infra.local.configuration.options import ROOT
from shared.characters.manifest import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MEI: Final = ROOT / "tests" / "data" / "bundles" / "mei"


def write_beside_mei(
    folder: Path, character: str, fields: Mapping[str, Any], graphs: Mapping[str, bytes]
) -> None:
    """Write a character beside Mei, whom a cloud has in any case.

    Args:
        folder: of the characters; it has no Mei yet.
        character: the id of the new one.
        fields: of its manifest; the others are those of Mei, but for her pitch, text and preview.
        graphs: of its bundle, by role.
    """
    shutil.copytree(_MEI, folder / _MEI.name)
    manifest = json.loads((_MEI / MANIFEST).read_text("utf-8"))
    manifest |= {"id": character, "pitch": None, "text": None, "preview": preview(None)}
    write_files(folder / character, manifest | dict(fields), graphs)
