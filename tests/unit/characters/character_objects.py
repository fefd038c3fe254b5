"""Characters in a bucket, whose only graph is a few bytes."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from shared.characters.bucket import graph_name, manifest_name
from shared.characters.manifest import GraphFile
from tests.unit.graphs.bundles import manifest

if TYPE_CHECKING:
    from tests.support.buckets import MemoryBucket

GRAPH = b"a network"


def put_character(
    bucket: MemoryBucket, name: str, graph: bytes = GRAPH, **changes: Any
) -> GraphFile:
    """Upload a character's graph and then its manifest."""
    entry = put_manifest(bucket, name, graph, **changes)
    bucket.put(graph_name(name, entry), graph)
    return entry


def put_manifest(
    bucket: MemoryBucket, name: str, graph: bytes = GRAPH, **changes: Any
) -> GraphFile:
    """Upload the manifest of a character with this graph, but not the graph."""
    digest = hashlib.sha256(graph).hexdigest()
    entry = GraphFile(file="net.onnx", sha256=digest, bytes=len(graph))
    said = manifest(id=name, graphs={"harmonic": entry.model_dump()}) | changes
    bucket.put(manifest_name(name), json.dumps(said).encode())
    return entry
