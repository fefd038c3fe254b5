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
def refused(*actions):
    for action in actions:
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


def test_setting_the_limits_opens_no_file_and_cannot_be_undone() -> None:
    ended = run(
        "limit()\nrefused(\n"
        " lambda: open('/etc/passwd'),\n"
        " lambda: open('/tmp/voice-avatar-test', 'w'),\n"
        " lambda: socket.socket(),\n"
        " lambda: os.pipe(),\n"
        ")\n"
        "os.setuid(65534) if os.getuid() == 0 else None\n"
        "try: resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))\n"
        "except ValueError as error: print(error, flush=True)"
    )
    assert ended.stdout.startswith("Too many open files\n" * 4), ended.stderr
    assert "not allowed to raise maximum limit" in ended.stdout


def test_an_open_file_cannot_grow_beyond_the_size_of_an_answer() -> None:
    ended = run(
        "import tempfile\nfile = tempfile.TemporaryFile(buffering=0)\nlimit(answer_bytes=1000)\n"
        "os.write(1, str(file.write(bytes(1000))).encode() + b' bytes\\n')\n"
        "refused(lambda: file.write(b'x'))"
    )
    assert ended.stdout == "1000 bytes\nFile too large\n", ended.stderr


IGNORED = "signal.signal(signal.SIGALRM, signal.SIG_IGN)\nconfinement = Confinement()\n"


@pytest.mark.parametrize(
    ("script", "number"),
    [
        ("limit(cpu_seconds=1)\nwhile True: pass", signal.SIGXCPU),
        ("limit(wall_seconds=0.1)\nsignal.pause()", signal.SIGALRM),
        (IGNORED + "limit(wall_seconds=0.1)\nsignal.pause()", signal.SIGALRM),
    ],
    ids=["work", "waiting", "waiting with the signal ignored"],
)
def test_what_is_endless_ends(script: str, number: signal.Signals) -> None:
    assert run(script).returncode == -number


def test_endless_memory_ends() -> None:
    ended = run("limit()\nkept = [bytes(1 << 20) for _ in range(100)]")
    assert "MemoryError" in ended.stderr


@needs_filter
def test_the_filter_refuses_what_decoding_does_not_need_and_numpy_still_works() -> None:
    ended = run(
        "import numpy\nassert confinement.filter_system_calls()\nrefused(\n"
        " lambda: open('/etc/passwd'),\n"
        " lambda: socket.socket(),\n"
        " lambda: os.fork(),\n"
        " lambda: os.execv('/bin/true', ['true']),\n"
        " lambda: os.unlink('/tmp/voice-avatar-test'),\n"
        " lambda: os.rename('/tmp/voice-avatar-test', '/tmp/voice-avatar-test-2'),\n"
        " lambda: os.mkdir('/tmp/voice-avatar-test'),\n"
        " lambda: os.chmod('/tmp', 0o777),\n"
        " lambda: os.stat('/'),\n"
        " lambda: os.kill(os.getppid(), 0),\n"
        " lambda: os.setuid(0),\n"
        ")\n"
        "os.write(1, str(int(numpy.ones(1 << 20).sum())).encode())\nos._exit(0)"
    )
    assert ended.stdout == "Operation not permitted\n" * 11 + str(1 << 20), ended.stderr
