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

from importing.trial.trial import try_bundle
from shared.characters.bucket import ID, graph_name, manifest_name, shared_graph_name
from shared.characters.manifest import (
    ENCODERS,
    MANIFEST,
    MAX_BUNDLE_BYTES,
    MAX_MANIFEST_BYTES,
    ManifestError,
    parse_manifest,
    read_manifest,
)
from shared.process.quoting import printable
from speech.bundles.bundle import BundleError
from speech.bundles.files import find_graph
from speech.engines.registry import ENGINES
from speech.networks.settings import SessionSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from google.cloud.storage import Bucket

    from shared.characters.manifest import CharacterManifest

CHARACTERS: Final = Path("characters")
_MEGABYTE: Final = 1_000_000
_ONNX, _SVG, _JSON = "application/octet-stream", "image/svg+xml", "application/json"


class CharacterFolder:
    """The characters in a bucket, as an operator changes them.

    Args:
        bucket: Cloud Storage's client of it.
        say: takes a sentence about each file.
    """

    def __init__(self, bucket: Bucket, say: Callable[[str], None] | None = None) -> None:
        self._bucket = bucket
        self._say = say or _say

    def put(self, manifest: CharacterManifest) -> None:
        """Upload a bundle that has been checked: the graphs first, the manifest last.

        Graphs are named by their SHA-256. So a bundle that is replaced stays whole until the new
        manifest is there; what only the old one needed is deleted then.
        """
        files = graph_files(manifest)
        for name, path in files.items():
            self._upload_once(name, path)
        names = {*files, manifest_name(manifest.id)}
        if manifest.preview.portrait is not None:
            portrait = f"{manifest.id}/{manifest.preview.portrait}"
            self._upload(portrait, manifest.folder / manifest.preview.portrait, _SVG)
            names.add(portrait)
        self._upload(manifest_name(manifest.id), manifest.folder / MANIFEST, _JSON)
        self._delete(manifest.id, keep=names)

    def remove(self, character_id: str) -> Sequence[str]:
        """Delete a character: the manifest first, so that nobody begins to use it.

        Returns:
            The names of shared encoders that no character needs any more. They are not deleted:
            somebody may be uploading a character that needs them.

        Raises:
            ManifestError: there is no such character.
        """
        # Whoever may write to the bucket could have put a manifest among the shared encoders, whose
        # removal would delete those of all characters.
        is_id = ID.fullmatch(character_id) is not None and character_id != ENCODERS
        manifest = self._bucket.get_blob(manifest_name(character_id)) if is_id else None
        if manifest is None:
            raise ManifestError(f"{self._bucket.name}: expected a character {character_id!r}.")
        manifest.delete()
        self._delete(character_id)
        try:
            return self._unused_encoders()
        except ManifestError:
            # What a manifest that is wrong needs is unknown.
            return ()

    def _upload_once(self, name: str, path: Path) -> None:
        try:
            self._upload(name, path, _ONNX, if_generation_match=0)
        except google_errors.PreconditionFailed:
            self._say(f"{name} is there already")

    def _upload(
        self, name: str, path: Path, content_type: str, if_generation_match: int | None = None
    ) -> None:
        self._bucket.blob(name).upload_from_filename(
            str(path), content_type=content_type, if_generation_match=if_generation_match
        )
        self._say(f"{name} uploaded")

    def _delete(self, character_id: str, keep: set[str] | frozenset[str] = frozenset()) -> None:
        for blob in self._bucket.list_blobs(prefix=f"{character_id}/"):
            if blob.name not in keep:
                blob.delete()
                self._say(f"{blob.name} deleted")

    def _unused_encoders(self) -> Sequence[str]:
        blobs = list(self._bucket.list_blobs())
        needed = set()
        for blob in blobs:
            if blob.name.endswith(f"/{MANIFEST}"):
                # As it is stored: unpacked (Content-Encoding) it could take all memory.
                content = blob.download_as_bytes(end=MAX_MANIFEST_BYTES, raw_download=True)
                manifest = parse_manifest(content, Path(blob.name).parent)
                needed |= {shared_graph_name(graph) for graph in manifest.graphs.values()}
        shared = {blob.name for blob in blobs if blob.name.startswith(f"{ENCODERS}/")}
        return sorted(shared - needed)


def graph_files(manifest: CharacterManifest) -> Mapping[str, Path]:
    """Return the files of a bundle's graphs by the names that they get in the bucket."""
    files = {}
    for graph in manifest.graphs.values():
        path = find_graph(manifest.folder, graph.file, graph.sha256)
        is_shared = path.parent != manifest.folder
        name = shared_graph_name(graph) if is_shared else graph_name(manifest.id, graph)
        files[name] = path
    return files


def main(arguments: Sequence[str]) -> int:
    """Put or remove a character; exit with 0 if it was done, otherwise 1."""
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
