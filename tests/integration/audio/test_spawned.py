"""Decoding where Linux's means are missing: ordinary processes with a time limit."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from shared.speech.decoding.decoder import Decoder, missing_protection
from shared.speech.decoding.process_output import (
    DecoderUnavailableError,
    ResourceLimitError,
)
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.decoding.subprocesses import SpawnedProcesses
from shared.speech.decoding.wire import DecodingJob, bare_environment
from shared.voices.media import Container
from shared.voices.voice import ErrorCode, VoiceError
from tests.integration.audio.recordings import recording
from tests.support.logs import log_book

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = DecodeLimits()

needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="sends signals to processes")


@pytest.fixture(autouse=True)
def _system_without_linux_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "MSG_CMSG_CLOEXEC", raising=False)


async def test_a_recording_is_decoded_to_the_same_samples_and_one_line_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVICE", "do not tell")
    data = recording("webm from Chrome or Firefox")
    with log_book() as book:
        async with Decoder() as decoder:
            assert decoder.is_ready
            spawned = await decoder.decode(data, limits=LIMITS)
            with pytest.raises(VoiceError, match="corrupt"):
                await decoder.decode(b"OggS" + bytes(1000), limits=LIMITS)
    (entry,) = book.of("decoding_unprotected")
    assert "no safe passing of files between processes" in entry["message"]
    assert "SECRET_OF_THE_SERVICE" not in bare_environment()

    monkeypatch.undo()
    async with Decoder() as decoder:
        protected = await decoder.decode(data, limits=LIMITS)
    assert not spawned.confined
    np.testing.assert_array_equal(spawned.samples, protected.samples)
    assert (spawned.sample_rate, spawned.codec) == (protected.sample_rate, protected.codec)


def test_every_missing_means_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork", raising=False)
    monkeypatch.setitem(sys.modules, "resource", None)

    assert missing_protection(tmp_path / "statm") == (
        "fork",
        "safe passing of files between processes",
        "/proc",
        "limits of resources",
    )


@needs_signals
async def test_a_process_that_takes_too_long_is_killed_and_the_recording_tried_again() -> None:
    stopped: list[int] = []

    def stop(process: int) -> None:
        os.kill(process, signal.SIGSTOP)
        stopped.append(process)

    async with Decoder(on_process=stop) as decoder:
        # As where Linux's means are there: the worker gives such a recording one more attempt.
        with pytest.raises(ResourceLimitError):
            await decoder.decode(recording("mp3"), limits=DecodeLimits(wall_seconds=0.1))
    with pytest.raises(ProcessLookupError):
        os.kill(stopped[0], 0)


async def test_an_answer_larger_than_allowed_is_not_kept() -> None:
    job = DecodingJob(Container.MP3, 10.5, 4, 1 << 28, 15.0, answer_bytes=1000)
    answer = await SpawnedProcesses().run(recording("mp3"), job, LIMITS)

    assert len(answer.body) == 0
    assert not answer.was_killed(LIMITS)
    with pytest.raises(VoiceError) as raised:
        answer.conclude(Container.MP3, LIMITS)
    assert raised.value.code == ErrorCode.TOO_COMPLEX


@needs_signals
async def test_closing_ends_what_is_being_decoded() -> None:
    started: asyncio.Queue[int] = asyncio.Queue()

    def stop(process: int) -> None:
        os.kill(process, signal.SIGSTOP)
        started.put_nowait(process)

    decoder = Decoder(on_process=stop)
    await decoder.start()
    decoding = asyncio.create_task(decoder.decode(recording("mp3"), limits=LIMITS))
    process = await started.get()
    await decoder.aclose()

    with pytest.raises(DecoderUnavailableError):
        await decoding
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert not decoder.is_ready
