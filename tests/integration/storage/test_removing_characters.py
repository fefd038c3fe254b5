"""`character remove` beside objects that somebody else has put into the bucket of characters."""

from __future__ import annotations

import gzip
import tracemalloc
from typing import Any

import pytest

from shared.characters.bucket import manifest_name
from shared.characters.folder import CharacterFolder
from shared.characters.manifest import ENCODERS, ManifestError
from tests.support.buckets import MemoryBucket
from tests.unit.characters.character_objects import put_character

HUGE = 64 << 20


@pytest.fixture
def characters(bucket: Any) -> CharacterFolder:
    """A bucket with the character `ada` and an encoder that nobody needs."""
    made = MemoryBucket("characters")
    put_character(made, "ada")
    for name, stored in made.objects.items():
        bucket.blob(name).upload_from_string(stored.data)
    bucket.blob(f"{ENCODERS}/abc.onnx").upload_from_string(b"encoder")
    return CharacterFolder(bucket, say=lambda _sentence: None)


def test_a_huge_manifest_of_somebody_else_takes_no_memory(
    characters: CharacterFolder, bucket: Any
) -> None:
    bucket.blob(manifest_name("bob")).upload_from_string(bytes(HUGE))
    packed = bucket.blob(manifest_name("eve"))
    packed.content_encoding = "gzip"
    packed.upload_from_string(gzip.compress(bytes(HUGE)))

    tracemalloc.start()
    try:
        unused = characters.remove("ada")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # Nobody can say what the wrong manifest needs.
    assert unused == ()
    assert peak < HUGE / 4
    assert bucket.get_blob(manifest_name("ada")) is None


def test_what_is_no_character_cannot_be_removed(characters: CharacterFolder, bucket: Any) -> None:
    for name in (ENCODERS, "", "..", "ada/..", "ada/", "*"):
        bucket.blob(manifest_name(name)).upload_from_string(b"{}")
    before = {blob.name for blob in bucket.list_blobs()}
    for name in (ENCODERS, "", "..", "ada/..", "ada/", "*", "eve"):
        with pytest.raises(ManifestError, match="expected a character"):
            characters.remove(name)
    assert {blob.name for blob in bucket.list_blobs()} == before
