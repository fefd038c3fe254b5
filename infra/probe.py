"""Converts a recording as a visitor would, from outside, and says how long that took.

    python -m infra.probe https://API [--within SECONDS] [--recording FILE] [--character ID]

It needs this repository and `httpx`, and no rights in the project. One line of JSON goes to the
standard output. The exit status is 0 if the result came in time, 1 if it came late or not at all,
and 2 if the command is wrong. Whoever runs it every five minutes, on any machine elsewhere, hears
of what the service itself cannot tell: that nobody reaches it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import Sequence

SAMPLE: Final = Path(__file__).parent / "local" / "samples" / "hello.webm"
TYPES: Final = {".webm": "audio/webm", ".wav": "audio/wav", ".mp3": "audio/mpeg"}
WITHIN_SECONDS: Final = 5.0  # as Terraform's `monitoring.wait_objective_seconds`
REQUEST_SECONDS: Final = 60.0
GIVE_UP_SECONDS: Final = 120.0
"""A voice that is not done after so long is not waited for any longer."""

ATTESTATION_VARIABLE: Final = "PROBE_APP_CHECK_TOKEN"
"""Holds a debug token of App Check, where the api requires one."""


class ProbeError(Exception):
    """The service did not do what it should; the message says what it did."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    ok: bool
    seconds: float | None = None  # from the end of the upload to the last byte of the result
    voice_id: str | None = None
    said: str = ""


def probe(api: httpx.Client, wish: dict[str, str], recording: bytes, within: float) -> ProbeResult:
    """Convert a recording, check the result, which is late after some seconds; erase the voice."""
    voice_id = None
    try:
        created = json_of(api.post("voices", json=wish), "the voice's creation")
        voice_id = str(created["voice_id"])
        upload = created["upload"]
        sent = httpx.put(
            upload["url"], headers=upload["headers"], content=recording, timeout=REQUEST_SECONDS
        )
        require_success(sent, "the upload")
        begin = time.monotonic()
        result = wait_for_result(api, voice_id)["result"]
        heard = httpx.get(result["url"], timeout=REQUEST_SECONDS)
        require_success(heard, "the download")
        seconds = round(time.monotonic() - begin, 3)
        require_same(heard.content, result["sha256"])
    except (ProbeError, httpx.HTTPError, KeyError, TypeError) as error:
        return ProbeResult(ok=False, voice_id=voice_id, said=f"{type(error).__name__}: {error}")
    finally:
        if voice_id is not None:
            try:
                api.delete(f"voices/{voice_id}")
            except httpx.HTTPError as error:
                # It is erased by itself after a day.
                print(f"not erased: {error}", file=sys.stderr)  # noqa: T201 - it is a command
    said = "" if seconds <= within else f"the result came after {seconds} s, not within {within:g}"
    return ProbeResult(ok=not said, seconds=seconds, voice_id=voice_id, said=said)


def wait_for_result(api: httpx.Client, voice_id: str) -> Any:
    begin = time.monotonic()
    while True:
        response = api.get(f"conversion/{voice_id}")
        if response.status_code != HTTPStatus.GATEWAY_TIMEOUT:
            return json_of(response, "the conversion")
        # 504 means "not yet", and to ask again.
        if time.monotonic() - begin > GIVE_UP_SECONDS:
            raise ProbeError(f"the conversion was not done after {GIVE_UP_SECONDS:g} s")


def json_of(response: httpx.Response, what: str) -> Any:
    require_success(response, what)
    try:
        return response.json()
    except ValueError:
        raise ProbeError(f"the answer to {what} is no JSON") from None


def require_success(response: httpx.Response, what: str) -> None:
    if not response.is_success:
        raise ProbeError(f"{what} was answered with {response.status_code}: {response.text[:300]}")


def require_same(content: bytes, sha256: str) -> None:
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ProbeError("the result is not what the service says that it is")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.probe", description=__doc__)
    parser.add_argument("api", help="the api's address, https://...")
    parser.add_argument("--within", type=float, default=WITHIN_SECONDS, metavar="SECONDS")
    parser.add_argument("--recording", type=Path, default=SAMPLE, metavar="FILE")
    parser.add_argument("--character", metavar="ID")
    wish = parser.parse_args(arguments)
    content_type = TYPES.get(wish.recording.suffix.lower())
    if content_type is None:
        parser.error(f"--recording: expected a file in {', '.join(TYPES)}, found {wish.recording}")
    try:
        recording = wish.recording.read_bytes()
    except OSError as error:
        parser.error(f"--recording: {error}")
    voice = {"content_type": content_type}
    if wish.character is not None:
        voice["character"] = wish.character
    token = os.environ.get(ATTESTATION_VARIABLE)
    headers = {"X-Firebase-AppCheck": token} if token else {}
    url = f"{wish.api.rstrip('/')}/api/v1/"
    with httpx.Client(base_url=url, headers=headers, timeout=REQUEST_SECONDS) as api:
        found = probe(api, voice, recording, wish.within)
    print(json.dumps({"event": "probe", **asdict(found)}))  # noqa: T201 - it is a command
    return 0 if found.ok else 1


if __name__ == "__main__":
    sys.exit(main())
