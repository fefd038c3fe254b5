from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from infra.local.processes.children import (
    AddressInUseError,
    StartError,
    Supervisor,
    start_with_free_ports,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

FOR_EVER = "import signal; signal.pause()"
SERVE = """
import http.server, sys
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])),
                       http.server.SimpleHTTPRequestHandler).serve_forever()
"""


@pytest_asyncio.fixture
async def supervisor(tmp_path: Path) -> AsyncIterator[Supervisor]:
    running = Supervisor(tmp_path / "logs")
    yield running
    await running.stop_all()


def python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", program, *arguments]


async def test_the_children_of_a_process_are_stopped_with_it(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    keep = f"f = open({str(fifo)!r}, 'w'); f.write('up'); f.flush(); import signal; signal.pause()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {keep!r}])"
    await supervisor.start("parent", python(parent), os.environ)
    with await asyncio.to_thread(open, fifo) as alive:
        assert await asyncio.to_thread(alive.read, 2) == "up"

        await supervisor.stop_all()

        # The pipe ends when nobody is left who could write to it.
        assert await asyncio.to_thread(alive.read) == ""
    assert supervisor.processes == []


async def test_a_process_that_ends_while_starting_is_shown_with_its_last_words(
    supervisor: Supervisor,
) -> None:
    (port,) = supervisor.ports.free(1)
    program = "import sys; sys.exit('the key is missing')"
    process = await supervisor.start("server", python(program), os.environ)

    with pytest.raises(StartError, match=r"server ended while starting[\s\S]*the key is missing"):
        await supervisor.wait_until_ready(process, f"http://127.0.0.1:{port}/")


TAKEN = """
import sys, time
print("java.net.BindException: Address already in use", flush=True)
sys.stdin.close() or time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize("lives_on_for", ["0", "1000"])
async def test_a_process_whose_port_another_program_has_is_not_taken_for_ready(
    supervisor: Supervisor, lives_on_for: str
) -> None:
    (port,) = supervisor.ports.free(1)
    other = await supervisor.start("other", python(SERVE, str(port)), os.environ)
    await supervisor.wait_until_ready(other, f"http://127.0.0.1:{port}/")
    process = await supervisor.start("server", python(TAKEN, lives_on_for), os.environ)
    while not process.log.read_text():  # noqa: ASYNC110 - another process sets no event
        await asyncio.sleep(0.01)

    with pytest.raises(AddressInUseError, match="server could not open its port"):
        await supervisor.wait_until_ready(process, f"http://127.0.0.1:{port}/")


async def starts(taken: int, most: int) -> list[str]:
    """Start what finds its port taken so often; return what happens."""
    happened: list[str] = []

    async def start(stack: AsyncExitStack) -> str:
        happened.append("started")
        stack.callback(happened.append, "stopped")
        if happened.count("started") <= taken:
            raise AddressInUseError
        return "up"

    async with AsyncExitStack() as stack:
        happened.append(await start_with_free_ports(start, stack, most))
    return happened


async def test_servers_are_started_again_while_other_programs_take_their_ports() -> None:
    assert await starts(0, most=1) == ["started", "up", "stopped"]
    assert await starts(2, most=3) == [*2 * ["started", "stopped"], "started", "up", "stopped"]
    with pytest.raises(AddressInUseError):
        await starts(3, most=3)


async def test_a_process_that_is_stopped_or_restarted_has_not_ended_by_itself(
    supervisor: Supervisor,
) -> None:
    stopped = await supervisor.start("stopped", python(FOR_EVER), os.environ)
    stuck = await supervisor.start("restarted", python(FOR_EVER), os.environ)
    waiting = asyncio.create_task(supervisor.wait_for_an_end())
    await asyncio.sleep(0)

    await supervisor.stop(stopped)
    again = await supervisor.restart(stuck)

    assert (again.name, again.is_running, stuck.is_running) == ("restarted", True, False)
    assert not waiting.done()
    again.send_signal(9)
    assert await waiting is again
    again.send_signal(15)  # no error, although it has ended
    await again.stop()
