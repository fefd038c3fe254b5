"""Publication and removal of characters in a bucket of Cloud Storage, by an operator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from google.api_core import exceptions as google_errors

from shared.characters.bucket import ID, graph_name, manifest_name, shared_graph_name
from shared.characters.bundle_files import find_graph
from shared.characters.manifest import (
    ENCODERS,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    ManifestError,
    parse_manifest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from google.cloud.storage import Bucket

    from shared.characters.manifest import CharacterManifest

_ONNX, _SVG, _JSON = "application/octet-stream", "image/svg+xml", "application/json"


class CharacterFolder:
    def __init__(self, bucket: Bucket, say: Callable[[str], None] | None = None) -> None:
        self._bucket = bucket
        self._say = say or print

    def put(self, manifest: CharacterManifest) -> None:
        """Upload a checked bundle: its graphs, named by their SHA-256, first; the manifest last."""
        files = graph_files(manifest)
        for name, path in files.items():
            try:
                self._upload(name, path, _ONNX, if_generation_match=0)
            except google_errors.PreconditionFailed:
                self._say(f"{name} is there already")
        names = {*files, manifest_name(manifest.id)}
        if manifest.preview.portrait is not None:
            portrait = f"{manifest.id}/{manifest.preview.portrait}"
            self._upload(portrait, manifest.folder / manifest.preview.portrait, _SVG)
            names.add(portrait)
        self._upload(manifest_name(manifest.id), manifest.folder / MANIFEST, _JSON)
        self._delete(manifest.id, keep=names)

    def remove(self, character_id: str) -> Sequence[str]:
        """Delete a character, its manifest first; return the encoders that no other one needs."""
        # A manifest among the shared encoders would make this delete those of all characters.
        is_id = ID.fullmatch(character_id) is not None and character_id != ENCODERS
        manifest = self._bucket.get_blob(manifest_name(character_id)) if is_id else None
        if manifest is None:
            raise ManifestError(f"{self._bucket.name}: expected a character {character_id!r}.")
        manifest.delete()
        self._delete(character_id)
        try:
            return self._unused_encoders()
        except ManifestError:
            # The needs of a wrong manifest are unknown.
            return ()

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
    """Return the files of a bundle's graphs by their names in the bucket."""
    files = {}
    for graph in manifest.graphs.values():
        path = find_graph(manifest.folder, graph.file, graph.sha256)
        is_shared = path.parent != manifest.folder
        name = shared_graph_name(graph) if is_shared else graph_name(manifest.id, graph)
        files[name] = path
    return files
