"""Puts a character bundle into the bucket of a running service, or removes one from it.

nox -s character -- put BUNDLE --bucket BUCKET
nox -s character -- remove ID --bucket BUCKET

The service needs no restart: it lists and loads a new bundle within a minute.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from google.api_core import exceptions as google_errors
from google.auth import exceptions as auth_errors
from google.cloud import storage

from shared.characters.bundle_files import BundleError
from shared.characters.folder import CharacterFolder
from shared.characters.manifest import (
    ENCODERS,
    MANIFEST,
    MAX_BUNDLE_BYTES,
    ManifestError,
    read_manifest,
)
from shared.runtime.quoting import printable
from shared.speech.engines.registry import ENGINES
from shared.speech.graphs.sessions import SessionSettings
from tools.bundles.trial import try_bundle

if TYPE_CHECKING:
    from collections.abc import Sequence


CHARACTERS: Final = Path("characters")
_MEGABYTE: Final = 1_000_000


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.command == "put":
            _put(options)
        else:
            for name in _open(options.bucket).remove(options.character):
                _say(
                    f"{name} is needed by no character; gcloud storage rm gs://{options.bucket}/{name}"
                )
            _say(f"{options.character} is removed; the service offers it for a minute at most.")
    except (
        BundleError,
        ManifestError,
        google_errors.GoogleAPICallError,
        auth_errors.GoogleAuthError,
    ) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="character", description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    put = commands.add_parser("put", help="check a bundle and put it into the bucket")
    text = f"the bundle's folder, or an id of {CHARACTERS}/"
    put.add_argument("bundle", type=Path, metavar="BUNDLE", help=text)
    put.add_argument(
        "--max-megabytes",
        type=float,
        default=MAX_BUNDLE_BYTES / _MEGABYTE,
        help="that the graphs may have together, as in the service (default: %(default).0f)",
    )
    remove = commands.add_parser("remove", help="remove a character from the bucket")
    remove.add_argument("character", metavar="ID", help="its id")
    for each in (put, remove):
        each.add_argument("--bucket", required=True, help="the name of the characters' bucket")
    return parser


def _put(options: argparse.Namespace) -> None:
    folder: Path = options.bundle if options.bundle.is_dir() else CHARACTERS / options.bundle
    manifest = read_manifest(folder / MANIFEST)
    if manifest.id == ENCODERS:
        raise BundleError(f"{MANIFEST}: field 'id': {ENCODERS!r} is the folder of shared encoders.")
    most = round(options.max_megabytes * _MEGABYTE)
    _say(str(try_bundle(folder, ENGINES, SessionSettings(), most)))
    _open(options.bucket).put(manifest)
    _say(f"{manifest.id} is in {options.bucket}; the service offers it within a minute.")


def _open(bucket: str) -> CharacterFolder:
    return CharacterFolder(storage.Client(project=None).bucket(bucket))


def _say(sentence: str) -> None:
    sys.stdout.write(f"{printable(sentence)}\n")
