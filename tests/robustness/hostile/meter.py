"""Processor time and memory of decoding one file."""

from __future__ import annotations

import io
import multiprocessing
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from shared.speech.decoding import demuxing
from shared.speech.decoding.decode_process import decode_into
from shared.speech.decoding.decoder import job_of
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.decoding.zygote import Confinement
from shared.voices.media import SNIFF_BYTES, sniff
from tests.robustness.hostile.corpus import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

LIMITS: Final = DecodeLimits(max_bytes=MAX_BYTES)
_KIBIBYTE: Final = 1024


@dataclass(frozen=True, slots=True)
class Cost:
    """What decoding one file took."""

    cpu_seconds: float
    memory_bytes: int
    file_bytes: int


class Meter:
    """Measures files in processes that are limited as the service's are.

    They are forked from a small process, as the service's are: what a search keeps would make each
    fork cost more, and would leave the decoding less memory. That process is not forked itself:
    memory that its parent had used and freed would be used again by the decoding, uncounted.
    """

    def __init__(self) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._connection, theirs = spawning.Pipe()
        spawning.Process(target=_measure_all, args=(theirs,), daemon=True).start()
        theirs.close()

    def cost_of(self, data: bytes) -> Cost | None:
        """Decode a file and return what that took, None if it is refused before it is decoded."""
        if sniff(data[:SNIFF_BYTES]) is None or len(data) > MAX_BYTES:
            return None
        self._connection.send_bytes(data)
        cpu_seconds, peak = self._connection.recv()
        return Cost(cpu_seconds, peak, len(data))


def _measure_all(connection: Connection) -> None:
    """Measure every file that comes; answer with processor time and peak of memory."""
    demuxing.warm_up()
    confinement = Confinement()
    while True:
        try:
            data = connection.recv_bytes()
        except EOFError:
            return
        _, base = _run(_nothing)
        cpu_seconds, peak = _run(partial(_decode, confinement, data))
        connection.send((cpu_seconds, max(0, peak - base)))


def _decode(confinement: Confinement, data: bytes) -> None:
    container = sniff(data[:SNIFF_BYTES])
    if container is None:
        raise ValueError("this is no recording")
    job = job_of(container, LIMITS)
    confinement.limit(
        cpu_seconds=job.cpu_seconds,
        memory_bytes=job.memory_bytes,
        wall_seconds=job.wall_seconds,
        answer_bytes=job.answer_bytes,
    )
    decode_into(io.BytesIO(), data, job, confined=False)


def _nothing() -> None:
    pass


def _run(work: Callable[[], None]) -> tuple[float, int]:
    """Do the work in a process of its own; return its processor time and its peak in bytes."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, ended, usage = os.wait4(child, 0)
    # A limit may end the process; an error of ours must not look like a cheap file.
    if os.WIFEXITED(ended) and os.WEXITSTATUS(ended):
        raise RuntimeError("the work raised an error")
    return usage.ru_utime + usage.ru_stime, _KIBIBYTE * usage.ru_maxrss
