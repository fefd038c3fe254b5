"""Many clients at once."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import requests

from tests.integration.storage.serving import download_url, upload_url

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_exactly_one_of_several_simultaneous_first_writers_wins(
    bucket: Any, credentials: Any
) -> None:
    url, headers = upload_url(bucket.blob("a"), credentials)
    start = threading.Barrier(8)

    def write(index: int) -> tuple[int, bytes]:
        data = bytes([index]) * 500
        start.wait()
        return requests.put(url, data=data, headers=headers, timeout=20).status_code, data

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(write, range(8)))

    winners = [data for status, data in results if status == 200]
    assert sorted(status for status, _ in results) == [200, *[412] * 7]
    assert winners == [bucket.blob("a").download_as_bytes()]


def test_of_overlapping_writers_the_first_to_finish_wins(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    url, headers = upload_url(bucket.blob("a"), credentials)
    sending, finished = threading.Event(), threading.Event()

    def slowly() -> Iterator[bytes]:
        yield b"slow"
        sending.set()
        finished.wait(20)
        yield b"er"

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(requests.put, url, data=slowly(), headers=headers, timeout=20)
        assert sending.wait(20)
        fast = http.put(url, data=b"faster", headers=headers)
        finished.set()

    assert (fast.status_code, slow.result().status_code) == (200, 412)
    assert bucket.blob("a").download_as_bytes() == b"faster"


def test_an_object_that_is_replaced_while_it_is_read_is_read_to_its_end(
    bucket: Any, credentials: Any, http: requests.Session
) -> None:
    old = os.urandom(20_000_000)
    blob = bucket.blob("a")
    blob.upload_from_string(old)

    with http.get(download_url(blob, credentials), stream=True) as response:
        beginning = response.raw.read(1000)
        with http.get(response.url, stream=True) as given_up:
            given_up.raw.read(10)
        bucket.blob("a").upload_from_string(b"new")
        bucket.blob("a").delete()
        rest = response.raw.read()

    assert beginning + rest == old
