"""Every hostile file ends in a result or a clean error and accesses nothing outside itself."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.robustness.hostile.container import HostileContainer, running_container
from tests.robustness.hostile.corpus import DONE, GROUPS
from tests.robustness.hostile.files import WEBM, good
from tests.robustness.hostile.watching import Lures, lures

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(sys.platform != "linux", reason="watches a file with inotify"),
]

ROOT = Path(__file__).resolve().parents[3]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def container() -> AsyncIterator[HostileContainer]:
    async with running_container() as running:
        yield running


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lures]:
    with lures(tmp_path_factory.mktemp("lures")) as laid:
        yield laid


@pytest.mark.parametrize("title", GROUPS)
async def test_every_hostile_file_ends_as_documented_and_a_good_file_is_converted_afterwards(
    container: HostileContainer, laid: Lures, title: str
) -> None:
    surprises = {}
    for file in GROUPS[title]():
        ending = await container.ending_of(file.make(laid))
        if ending not in file.ends:
            surprises[file.name] = f"{ending}, not {', '.join(sorted(file.ends))}"

    assert surprises == {}
    assert laid.touched() == []
    assert await container.ending_of(good(WEBM)) == DONE


async def test_after_all_hostile_files_a_good_recording_is_still_converted(
    container: HostileContainer,
) -> None:
    sample = (ROOT / "infra" / "local" / "samples" / "hello.webm").read_bytes()

    assert await container.ending_of(sample, "mei") == DONE


async def test_opening_the_file_or_connecting_to_the_port_is_detected(laid: Lures) -> None:
    laid.file.read_bytes()
    assert "was touched" in "".join(laid.touched())
    with socket.create_connection(("127.0.0.1", laid.port)):
        assert "has connected" in "".join(laid.touched())
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.sendto(b"!", ("127.0.0.1", laid.port))
        assert "has sent a datagram" in "".join(laid.touched())
    assert laid.touched() == []
