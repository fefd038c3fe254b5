"""Decoding processes that are killed, stopped and abandoned: nothing hangs and nothing is left."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shared.speech.decoding.decoder import Decoder
from shared.speech.decoding.process_output import DecoderUnavailableError
from shared.speech.decoding.recording import DecodeLimits
from shared.voices.voice import VoiceError
from tests.integration.audio.recordings import recording

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watches processes through /proc")

LIMITS = DecodeLimits()
ROOT = Path(__file__).resolve().parents[3]


class Processes:
    """Is told of every decoding process and does something to the first ones."""

    def __init__(self, *actions: signal.Signals) -> None:
        self._actions = list(actions)
        self.seen: list[int] = []

    def __call__(self, process: int) -> None:
        self.seen.append(process)
        if self._actions:
            os.kill(process, self._actions.pop(0))


def parent_of(process: int) -> int:
    status = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    return int(status.rpartition(")")[2].split()[1])


def wait_for_end(process: int) -> None:
    """Return as soon as a process, of whatever parent, has ended."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], 30)[0], f"process {process} did not end"
    finally:
        os.close(descriptor)


def descriptors() -> set[str]:
    links = Path("/proc/self/fd").iterdir()
    return {f"{link.name} {link.readlink()}" for link in links if link.exists()}


def children() -> set[str]:
    """The processes that this one has begun, those that nobody has waited for among them."""
    threads = Path("/proc/self/task").glob("*/children")
    return {child for thread in threads for child in thread.read_text().split()}


async def test_a_process_killed_once_is_replaced_and_the_recording_is_decoded() -> None:
    processes = Processes(signal.SIGKILL)
    async with Decoder(on_process=processes) as decoder:
        decoded = await decoder.decode(recording("mp3"), limits=LIMITS)
    assert decoded.seconds == 2.0
    assert len(processes.seen) == 2


async def test_a_process_killed_each_time_is_an_error_of_the_machine() -> None:
    async with Decoder(on_process=Processes(signal.SIGKILL, signal.SIGKILL)) as decoder:
        with pytest.raises(DecoderUnavailableError, match="killed"):
            await decoder.decode(recording("mp3"), limits=LIMITS)
        assert decoder.is_ready
        assert (await decoder.decode(recording("mp3"), limits=LIMITS)).seconds == 2.0


@pytest.mark.parametrize(
    ("number", "error", "said"),
    [
        (signal.SIGSEGV, VoiceError, "corrupt"),
        (signal.SIGXCPU, VoiceError, "too_complex"),
        (signal.SIGALRM, DecoderUnavailableError, "too little processor time"),
    ],
)
async def test_the_signal_that_ends_a_process_says_whose_fault_it_is(
    number: signal.Signals, error: type[Exception], said: str
) -> None:
    async with Decoder(on_process=Processes(number)) as decoder:
        with pytest.raises(error, match=said):
            await decoder.decode(recording("mp3"), limits=LIMITS)


async def test_a_process_that_is_stopped_is_killed_after_its_time() -> None:
    processes = Processes(signal.SIGSTOP)
    limits = DecodeLimits(wall_seconds=0.1)
    async with Decoder(on_process=processes) as decoder:
        with pytest.raises(DecoderUnavailableError, match="does not answer"):
            await decoder.decode(recording("mp3"), limits=limits)
        wait_for_end(processes.seen[0])
        assert (await decoder.decode(recording("mp3"), limits=LIMITS)).seconds == 2.0


async def test_a_dead_zygote_is_replaced_and_its_processes_die_with_it() -> None:
    processes = Processes()
    zygotes: list[int] = []

    def kill_the_first_zygote(process: int) -> None:
        processes(process)
        zygotes.append(parent_of(process))
        if len(zygotes) == 1:
            # Stopped, so that it cannot end before its zygote.
            os.kill(process, signal.SIGSTOP)
            os.kill(zygotes[0], signal.SIGKILL)

    async with Decoder(on_process=kill_the_first_zygote) as decoder:
        decoded = await decoder.decode(recording("mp3"), limits=LIMITS)
        assert decoded.seconds == 2.0
        assert len(set(zygotes)) == 2
        wait_for_end(processes.seen[0])


async def test_an_idle_zygote_that_died_is_noticed_and_replaced() -> None:
    zygotes: list[int] = []
    async with Decoder(on_process=lambda process: zygotes.append(parent_of(process))) as decoder:
        await decoder.decode(recording("mp3"), limits=LIMITS)
        os.kill(zygotes[0], signal.SIGKILL)
        wait_for_end(zygotes[0])
        assert not decoder.is_ready
        await decoder.decode(recording("mp3"), limits=LIMITS)
        assert zygotes[1] != zygotes[0]


async def test_cancelling_the_wait_ends_the_process() -> None:
    started: asyncio.Queue[int] = asyncio.Queue()

    def stop_it(process: int) -> None:
        os.kill(process, signal.SIGSTOP)
        started.put_nowait(process)

    async with Decoder(on_process=stop_it) as decoder:
        task = asyncio.create_task(decoder.decode(recording("mp3"), limits=LIMITS))
        process = await started.get()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        wait_for_end(process)


async def test_nothing_is_left_behind() -> None:
    await asyncio.to_thread(int)
    before, children_before = descriptors(), children()
    processes = Processes(signal.SIGKILL, signal.SIGSEGV)
    async with Decoder(on_process=processes) as decoder:
        await asyncio.gather(
            *(decoder.decode(recording("mp3"), limits=LIMITS) for _ in range(8)),
            *(decoder.decode(b"OggS" + bytes(100), limits=LIMITS) for _ in range(8)),
            return_exceptions=True,
        )
    for process in processes.seen:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    assert descriptors() - before == set()
    assert children() - children_before == set()


async def test_the_zygote_has_one_thread_survives_signals_and_inherits_nothing_from_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVICE", "do not tell")
    monkeypatch.setenv("LD_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH", "/nowhere"))
    zygotes: list[int] = []

    def look(process: int) -> None:
        zygotes.append(parent_of(process))
        # Forking it is safe only with a single thread.
        assert len(list(Path(f"/proc/{zygotes[0]}/task").iterdir())) == 1
        environment = Path(f"/proc/{zygotes[0]}/environ").read_bytes()
        assert b"LD_LIBRARY_PATH" in environment
        assert b"SECRET_OF_THE_SERVICE" not in environment
        assert b"HOME" not in environment

    async with Decoder(on_process=look) as decoder:
        await decoder.decode(recording("mp3"), limits=LIMITS)
        # Those that end a service.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(zygotes[0], number)
        await decoder.decode(recording("mp3"), limits=LIMITS)
    assert zygotes[0] == zygotes[1]
    with pytest.raises(DecoderUnavailableError, match="closed"):
        await decoder.decode(recording("mp3"), limits=LIMITS)


SERVICE_THAT_IS_KILLED = """
import asyncio, os, signal
from shared.speech.decoding.decoder import Decoder
from shared.speech.decoding.recording import DecodeLimits

def die_in_the_middle(process):
    os.kill(process, signal.SIGSTOP)
    with open(f"/proc/{process}/stat") as status:
        print(process, status.read().rpartition(")")[2].split()[1], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with Decoder(on_process=die_in_the_middle) as decoder:
        await decoder.decode(b"OggS" + bytes(1000), limits=DecodeLimits())

asyncio.run(main())
"""


def test_a_killed_service_leaves_no_process_behind() -> None:
    service = subprocess.run(
        [sys.executable, "-c", SERVICE_THAT_IS_KILLED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert service.returncode == -signal.SIGKILL, service.stderr
    process, zygote = map(int, service.stdout.split())
    wait_for_end(zygote)
    wait_for_end(process)
