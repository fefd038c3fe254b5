"""Tries forbidden actions in a process that is confined like a decoding process."""

from __future__ import annotations

import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

needs_filter = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in {"x86_64", "aarch64"},
    reason="the system call filter exists for Linux on x86_64 and aarch64",
)

LIMITED = """
import os, socket, signal, resource
from shared.speech.decoding.zygote import Confinement
confinement = Confinement()
def limit(cpu_seconds=2, memory_bytes=64 * 1024 * 1024, wall_seconds=20.0, answer_bytes=0):
    confinement.limit(
        cpu_seconds=cpu_seconds,
        memory_bytes=memory_bytes,
        wall_seconds=wall_seconds,
        answer_bytes=answer_bytes,
    )
def refused(action):
    try:
        action()
    except OSError as error:
        os.write(1, (error.strerror + "\\n").encode())
    else:
        os.write(1, b"done\\n")
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LIMITED + script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "action",
    [
        'lambda: open("/etc/passwd")',
        'lambda: open("/tmp/voice-avatar-test", "w")',
        "lambda: socket.socket()",
        "lambda: socket.socketpair()",
        "lambda: os.pipe()",
    ],
)
def test_setting_the_limits_opens_no_file(action: str) -> None:
    ended = run(f"limit()\nrefused({action})")
    assert ended.stdout == "Too many open files\n", ended.stderr


@pytest.mark.parametrize("answer_bytes", [0, 1000])
def test_an_open_file_cannot_grow_beyond_the_size_of_an_answer(answer_bytes: int) -> None:
    ended = run(
        "import tempfile\nfile = tempfile.TemporaryFile(buffering=0)\n"
        f"limit(answer_bytes={answer_bytes})\n"
        f"os.write(1, str(file.write(bytes({answer_bytes}))).encode() + b' bytes\\n')\n"
        "refused(lambda: file.write(b'x'))"
    )
    assert ended.stdout == f"{answer_bytes} bytes\nFile too large\n", ended.stderr


def test_endless_work_ends() -> None:
    ended = run("limit(cpu_seconds=1)\nwhile True: pass")
    assert ended.returncode == -signal.SIGXCPU


def test_endless_waiting_ends() -> None:
    ended = run("limit(wall_seconds=0.1)\nsignal.pause()")
    assert ended.returncode == -signal.SIGALRM


def test_endless_waiting_ends_even_if_its_signal_was_ignored() -> None:
    ended = run(
        "signal.signal(signal.SIGALRM, signal.SIG_IGN)\nconfinement = Confinement()\n"
        "limit(wall_seconds=0.1)\nsignal.pause()"
    )
    assert ended.returncode == -signal.SIGALRM


def test_endless_memory_ends() -> None:
    ended = run("limit()\nkept = [bytes(1 << 20) for _ in range(100)]")
    assert "MemoryError" in ended.stderr


def test_the_limits_cannot_be_raised() -> None:
    ended = run(
        "limit()\nos.setuid(65534) if os.getuid() == 0 else None\n"
        "try: resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))\n"
        "except ValueError as error: print(error, flush=True)"
    )
    assert "not allowed to raise maximum limit" in ended.stdout


@needs_filter
@pytest.mark.parametrize(
    "action",
    [
        'lambda: open("/etc/passwd")',
        "lambda: socket.socket()",
        "lambda: os.fork()",
        'lambda: os.execv("/bin/true", ["true"])',
        'lambda: os.unlink("/tmp/voice-avatar-test")',
        'lambda: os.rename("/tmp/voice-avatar-test", "/tmp/voice-avatar-test-2")',
        'lambda: os.mkdir("/tmp/voice-avatar-test")',
        'lambda: os.chmod("/tmp", 0o777)',
        'lambda: os.stat("/")',
        "lambda: os.kill(os.getppid(), 0)",
        "lambda: os.setuid(0)",
    ],
)
def test_the_filter_refuses_what_decoding_does_not_need(action: str) -> None:
    ended = run(f"assert confinement.filter_system_calls()\nrefused({action})\nos._exit(0)")
    assert ended.stdout == "Operation not permitted\n", ended.stderr


@needs_filter
def test_numpy_still_works_behind_the_filter() -> None:
    ended = run(
        "import numpy\nassert confinement.filter_system_calls()\n"
        "os.write(1, str(int(numpy.ones(1 << 20).sum())).encode())\nos._exit(0)"
    )
    assert ended.stdout == str(1 << 20), ended.stderr
