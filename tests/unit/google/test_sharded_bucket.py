from __future__ import annotations

import io
from datetime import timedelta

import pytest

from shared.google.sharded_bucket import ShardedBucket, shard_names, shard_of
from shared.voices.objects import result_name
from shared.voices.voice import new_voice_id
from tests.support.bucket_contract import BucketContract
from tests.support.buckets import MemoryBucket

SHARDS = 3


@pytest.fixture
def shards() -> list[MemoryBucket]:
    return [MemoryBucket(name) for name in shard_names("uploads", SHARDS)]


@pytest.fixture
def bucket(shards: list[MemoryBucket]) -> ShardedBucket:
    return ShardedBucket(shards)


async def write_speech(bucket: ShardedBucket, name: str) -> str:
    facts = await bucket.write(name, io.BytesIO(b"speech"), content_type="audio/webm")
    return facts.bucket


class TestShardedBucket(BucketContract):
    """The contract, on the fixture `bucket` of this module."""


class TestMemoryBucket(BucketContract):
    @pytest.fixture
    def bucket(self) -> MemoryBucket:
        return MemoryBucket("uploads")


def test_the_first_bucket_is_the_one_that_there_is_without_shards() -> None:
    assert shard_names("uploads", 1) == ["uploads"]
    assert shard_names("uploads", 3) == ["uploads", "uploads-1", "uploads-2"]


async def test_voices_are_spread_evenly(bucket: ShardedBucket, shards: list[MemoryBucket]) -> None:
    for _ in range(300):
        await write_speech(bucket, new_voice_id())

    assert all(70 <= len(shard.objects) <= 130 for shard in shards)


async def test_all_that_belongs_to_a_voice_is_in_one_bucket(bucket: ShardedBucket) -> None:
    for _ in range(20):
        voice_id = new_voice_id()
        signed = await bucket.sign_upload(
            voice_id, content_type="audio/webm", max_bytes=10, lifetime=timedelta(minutes=1)
        )
        written = await write_speech(bucket, voice_id)

        assert f"/{written}/" in signed.url
        assert await write_speech(bucket, result_name(voice_id, 1, "wav")) == written
        url, _ = await bucket.sign_download(
            result_name(voice_id, 1, "wav"), lifetime=timedelta(minutes=1), filename="a.wav"
        )
        assert f"/{written}/" in url


async def test_what_was_written_before_there_were_so_many_buckets_is_found(
    bucket: ShardedBucket, shards: list[MemoryBucket]
) -> None:
    voice_id = next(each for each in iter(new_voice_id, "") if shard_of(each, SHARDS) != 0)
    generation = shards[0].put(voice_id, b"speech")

    assert (await bucket.find(voice_id)).bucket == "uploads"
    assert await bucket.read(voice_id, generation, max_bytes=10) == b"speech"
    assert [facts.name for facts in await bucket.list(voice_id)] == [voice_id]


async def test_erasing_a_voice_leaves_nothing_in_any_bucket(
    bucket: ShardedBucket, shards: list[MemoryBucket]
) -> None:
    voice_id = new_voice_id()
    for shard in shards:
        shard.put(voice_id, b"speech")
        shard.put(result_name(voice_id, 1, "wav"), b"speech")

    await bucket.empty(voice_id)
    await bucket.delete_all(f"{voice_id}/")

    assert [shard.objects[voice_id].data for shard in shards] == [b""] * SHARDS
    assert all(result_name(voice_id, 1, "wav") not in shard.objects for shard in shards)
