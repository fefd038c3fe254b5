"""Decodes recordings in limited processes, with the protection that this system offers."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from shared.speech.decoding.process_output import (
    DecodedStream,
    DecoderUnavailableError,
    ResourceLimitError,
)
from shared.speech.decoding.subprocesses import ForkedProcesses, SpawnedProcesses
from shared.speech.decoding.wire import MAX_VERDICT_BYTES, DecodingJob
from shared.voices.media import SNIFF_BYTES, Container, sniff
from shared.voices.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.speech.decoding.recording import DecodeLimits, Recording


_LOG = logging.getLogger(__name__)

_TRIES: Final = 2


def missing_protection(statm: Path = Path("/proc/self/statm")) -> tuple[str, ...]:
    """Name the protections of forked processes that this system lacks; Linux has all."""
    means = {
        "fork": hasattr(os, "fork"),
        "safe passing of files between processes": hasattr(socket, "MSG_CMSG_CLOEXEC"),
        "/proc": statm.exists(),
        "limits of resources": importlib.util.find_spec("resource") is not None,
    }
    return tuple(name for name, is_there in means.items() if not is_there)


class Decoder:
    """Decodes recordings, several at a time, each in a limited process of its own."""

    def __init__(
        self, *, max_processes: int = 4, on_process: Callable[[int], None] | None = None
    ) -> None:
        missing = missing_protection()
        if missing:
            _LOG.warning(
                "Recordings are decoded in ordinary processes with a time limit, because this"
                " system has no %s. Limits of memory and files and the filter of system calls are"
                " missing: decode only recordings that you trust, or use Linux.",
                " and no ".join(missing),
                extra={"event": "decoding_unprotected"},
            )
        self._processes = SpawnedProcesses(on_process) if missing else ForkedProcesses(on_process)
        self._slots = asyncio.Semaphore(max_processes)

    async def start(self) -> None:
        """Start the processes' parent, so that the first recording need not wait for it."""
        await self._processes.start()

    async def aclose(self) -> None:
        await self._processes.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def is_ready(self) -> bool:
        return self._processes.is_ready

    async def decode(self, data: bytes | memoryview, *, limits: DecodeLimits) -> Recording:
        """Decode a recording, given as it was uploaded.

        A recording that is cut off or partly broken is accepted if enough of it can be decoded;
        `Recording.damaged` then tells.

        Raises:
            VoiceError: the recording is the reason: `too_large`, `unsupported_format`, `no_audio`,
                `corrupt`, `too_long`, `too_short`, `silent` or `too_complex`.
            ResourceLimitError: the recording or the machine is the reason.
            DecoderUnavailableError: the machine is the reason; the recording may be fine.
        """
        container = _require_supported(data, limits)
        job = job_of(container, limits)
        async with self._slots:
            was_killed = False
            for _ in range(_TRIES):
                answer = await self._processes.run(data, job, limits)
                was_killed = answer is not None and answer.exit is not None
                if answer is None or answer.was_killed(limits):
                    continue
                return await answer.conclude_in_thread(container, limits)
        if was_killed:
            raise ResourceLimitError("the decoding process was killed")
        raise DecoderUnavailableError("the decoding process was killed with its parent")

    async def open_stream(
        self, head: bytes, *, limits: DecodeLimits, wall_seconds: float
    ) -> DecodedStream:
        """Begin to decode a recording while it comes, in a process with the same limits.

        The caller limits the number of such recordings at a time.

        Raises:
            VoiceError: `unsupported_format`; perhaps only because the head is too short.
            DecoderUnavailableError: this system or its state is the reason.
        """
        container = _require_supported(head, limits)
        job = replace(
            job_of(container, limits),
            memory_bytes=limits.memory_bytes,
            wall_seconds=wall_seconds,
            incoming_bytes=limits.max_bytes,
        )
        sockets = await self._processes.open(job)
        if sockets is None:
            raise DecoderUnavailableError("no process decodes recordings while they come")
        return DecodedStream(sockets, job, limits)


def job_of(container: Container, limits: DecodeLimits) -> DecodingJob:
    return DecodingJob(
        container=container,
        max_seconds=limits.longest,
        cpu_seconds=limits.cpu_allowance,
        memory_bytes=limits.memory_allowance,
        wall_seconds=limits.wall_allowance,
        answer_bytes=limits.answer_bytes + MAX_VERDICT_BYTES,
        takes_beginning=limits.takes_beginning,
    )


def _require_supported(data: bytes | memoryview, limits: DecodeLimits) -> Container:
    if len(data) > limits.max_bytes:
        raise VoiceError(
            ErrorCode.TOO_LARGE,
            f"The recording has {len(data)} bytes; at most {limits.max_bytes} are accepted.",
        )
    if len(data) == 0:
        raise VoiceError(ErrorCode.NO_AUDIO, "The recording is empty: it has no bytes.")
    container = sniff(bytes(data[:SNIFF_BYTES]))
    if container is None:
        raise VoiceError(
            ErrorCode.UNSUPPORTED_FORMAT,
            "This is not a recording in a supported format; "
            "send WebM, MP4, Ogg, WAV, MP3, FLAC or AAC.",
        )
    return container
