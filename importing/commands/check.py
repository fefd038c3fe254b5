"""The command that checks a character bundle: nox -s character -- FOLDER."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from importing.trial.trial import try_bundle
from shared.characters.manifest import MANIFEST, MAX_BUNDLE_BYTES
from speech.bundles.files import BundleError
from speech.bundles.sealing import seal
from speech.engines.registry import ENGINES
from speech.networks.settings import SessionSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

_MEGABYTE = 1_000_000


def main(arguments: Sequence[str]) -> int:
    """Check a character bundle and say how fast it is; exit with 0 if it works, otherwise 1."""
    parser = argparse.ArgumentParser(prog="character", description=main.__doc__)
    parser.add_argument("folder", type=Path, help=f"the bundle, with its {MANIFEST}")
    parser.add_argument("--threads", type=int, default=1, help="for the network (default: 1)")
    parser.add_argument(
        "--max-megabytes",
        type=float,
        default=MAX_BUNDLE_BYTES / _MEGABYTE,
        help="that the graphs may have together (default: %(default).0f)",
    )
    parser.add_argument(
        "--seal", action="store_true", help="first write the graphs' sizes and SHA-256 into it"
    )
    options = parser.parse_args(arguments)
    max_bytes = round(options.max_megabytes * _MEGABYTE)
    try:
        if options.seal:
            seal(options.folder, max_bytes)
        settings = SessionSettings(threads=options.threads)
        report = try_bundle(options.folder, ENGINES, settings, max_bytes)
    except BundleError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{report}\n")
    return 0
