"""The contract of `Bucket`: each implementation's tests inherit it and define `bucket`."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from shared.voices.objects import ObjectExistsError, ObjectMissingError

if TYPE_CHECKING:
    from shared.ports import Bucket

MINUTE = timedelta(minutes=1)


async def write(bucket: Bucket, name: str, data: bytes = b"sound") -> int:
    """Write an object and return its generation."""
    facts = await bucket.write(name, io.BytesIO(data), content_type="audio/webm", size=len(data))
    return facts.generation


class BucketContract:
    async def test_connecting_asks_for_nothing_that_must_be_there(self, bucket: Bucket) -> None:
        await bucket.connect()

    async def test_a_written_object_is_found_and_read_by_its_generation(
        self, bucket: Bucket
    ) -> None:
        content = io.BytesIO(b"sound")

        facts = await bucket.write("a/1", content, content_type="audio/ogg", size=5)

        assert (facts.name, facts.bytes, facts.content_type) == ("a/1", 5, "audio/ogg")
        assert facts.bucket.startswith(bucket.name)
        assert await bucket.find("a/1") == facts
        assert await bucket.read("a/1", facts.generation, max_bytes=100) == b"sound"

    async def test_a_name_is_written_once(self, bucket: Bucket) -> None:
        generation = await write(bucket, "a", b"first")

        with pytest.raises(ObjectExistsError, match=f"{bucket.name}.*/a is there already"):
            await write(bucket, "a", b"second")

        assert await bucket.read("a", generation, max_bytes=100) == b"first"

    async def test_a_stream_of_unknown_length_is_written_whole(self, bucket: Bucket) -> None:
        data = bytes(range(256)) * 4096

        facts = await bucket.write("a", io.BytesIO(data), content_type="audio/wav")

        assert facts.bytes == len(data)
        assert await bucket.read("a", facts.generation, max_bytes=len(data)) == data

    async def test_reading_stops_one_byte_after_the_limit(self, bucket: Bucket) -> None:
        generation = await write(bucket, "a", b"0123456789")

        assert await bucket.read("a", generation, max_bytes=4) == b"01234"
        assert await bucket.read("a", generation, max_bytes=10) == b"0123456789"

    async def test_an_empty_object_is_read(self, bucket: Bucket) -> None:
        generation = await write(bucket, "a", b"")

        assert await bucket.read("a", generation, max_bytes=4) == b""

    async def test_a_list_has_the_names_of_a_prefix_in_order(self, bucket: Bucket) -> None:
        for name in ("c", "b/2", "a", "b/1"):
            await write(bucket, name, b"")

        assert [each.name for each in await bucket.list()] == ["a", "b/1", "b/2", "c"]
        assert [each.name for each in await bucket.list("b/")] == ["b/1", "b/2"]
        assert [each.name for each in await bucket.list(most=2)] == ["a", "b/1"]

    async def test_another_generation_is_never_read_instead(self, bucket: Bucket) -> None:
        old = await write(bucket, "a", b"old")
        await bucket.delete("a")
        new = await write(bucket, "a", b"new")

        assert new != old
        with pytest.raises(ObjectMissingError, match=f"{bucket.name}/a#{old} is not there"):
            await bucket.read("a", old, max_bytes=100)
        with pytest.raises(ObjectMissingError):
            await bucket.read("b", new, max_bytes=100)
        with pytest.raises(ObjectMissingError):
            await bucket.find("b")

    async def test_deleting_takes_one_generation_and_may_be_repeated(self, bucket: Bucket) -> None:
        generation = await write(bucket, "a")

        await bucket.delete("a", generation + 1)
        assert (await bucket.find("a")).generation == generation
        await bucket.delete("a", generation)
        await bucket.delete("a", generation)
        await bucket.delete("a")

        with pytest.raises(ObjectMissingError):
            await bucket.find("a")

    async def test_the_name_of_an_emptied_object_stays_used(self, bucket: Bucket) -> None:
        generation = await write(bucket, "a")

        await bucket.empty("a", generation + 1)
        assert (await bucket.find("a")).generation == generation
        await bucket.empty("a", generation)
        emptied = await bucket.find("a")
        await bucket.empty("a", generation)
        await bucket.empty("b")

        assert (emptied.bytes, await bucket.find("a")) == (0, emptied)
        for name in ("a", "b"):
            with pytest.raises(ObjectExistsError):
                await write(bucket, name)

    async def test_deleting_all_of_a_voice_leaves_others_and_the_one_to_keep(
        self, bucket: Bucket
    ) -> None:
        for name in ("v/1.wav", "v/2.wav", "v/12.wav", "w/1.wav"):
            await write(bucket, name)

        await bucket.delete_all("v/1.")
        await bucket.delete_all("v/", except_for="v/12.wav")

        assert [each.name for each in await bucket.list()] == ["v/12.wav", "w/1.wav"]

    async def test_a_signed_upload_binds_type_size_and_an_unused_name(self, bucket: Bucket) -> None:
        upload = await bucket.sign_upload(
            "a", content_type="audio/webm;codecs=opus", max_bytes=10, lifetime=MINUTE
        )

        assert (upload.method, upload.max_bytes) == ("PUT", 10)
        assert upload.headers == {
            "Content-Type": "audio/webm;codecs=opus",
            "x-goog-content-length-range": "0,10",
            "x-goog-if-generation-match": "0",
        }
        assert "/a?" in upload.url
        assert upload.expires_at.utcoffset() == timedelta(0)

    async def test_a_signed_download_expires(self, bucket: Bucket) -> None:
        await write(bucket, "v/1.wav")

        url, expires_at = await bucket.sign_download("v/1.wav", lifetime=MINUTE, filename="mei.wav")

        assert "/v/1.wav?" in url
        assert expires_at.utcoffset() == timedelta(0)
