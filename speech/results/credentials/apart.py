"""Reads the statement of a file that anybody may have made, in a process of its own with limits.

A box that claims an absurd size, or a fault of the library, ends that process and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import Final

from shared.voices.media import Container
from speech.decoding.sandbox.process_environment import bare_environment, python_command
from speech.results.credentials.reading import (
    Credentials,
    CredentialsFinding,
    read_credentials,
)

CPU_SECONDS: Final = 3
WALL_SECONDS: Final = 10.0
MEMORY_BYTES: Final = 768 << 20
"""Of addresses; the library alone takes a hundred megabytes of them."""

_SIGNED: Final = {
    Container.WAV: "audio/wav",
    Container.MP3: "audio/mpeg",
    Container.MP4: "audio/mp4",
}
_MARK: Final = b"A result of reading: "


async def read_credentials_apart(
    data: bytes, container: Container, own_certificates: str
) -> CredentialsFinding:
    """Read the statement of a file.

    Args:
        data: the file.
        container: what it is.
        own_certificates: see read_credentials.

    Returns:
        What it says; a statement that cannot be read within the limits is invalid.
    """
    content_type = _SIGNED.get(container)
    if content_type is None:
        return CredentialsFinding(Credentials.MISSING)
    process = await asyncio.create_subprocess_exec(
        *python_command(__name__),
        env=bare_environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    question = json.dumps({"content_type": content_type, "own": own_certificates}).encode()
    try:
        async with asyncio.timeout(WALL_SECONDS):
            answer, _ = await process.communicate(question + b"\n" + data)
    except TimeoutError:
        answer = b""
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    _, mark, finding = answer.rpartition(_MARK)
    if not mark or process.returncode != 0:
        return CredentialsFinding(Credentials.INVALID)
    return CredentialsFinding.from_json(finding.decode())


def _limit() -> None:
    """Limit this process where the system can; elsewhere only its time is limited, from outside."""
    try:
        import resource  # noqa: PLC0415 - Windows does not have it
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(limit, (0, 0))


def main() -> None:
    """Answer one question: the first line of the input says how, the rest is the file."""
    _limit()
    question = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read()
    finding = read_credentials(data, question["content_type"], question["own"])
    sys.stdout.buffer.write(_MARK + finding.to_json().encode())
