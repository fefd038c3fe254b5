"""What an owner does in the page of own characters, and a local cloud that offers it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np
from playwright.sync_api import expect

from tests.browser.endpoints import ROOT, Endpoints
from tests.browser.sounds import SAMPLE, decode, write_wav

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

KEPT: Final = "JSON.parse(localStorage.getItem('voice-avatar-own-characters'))[0]"
"""What the browser remembers of the character that was used last."""

READY: Final = "Ada has your voice."
ADDED: Final = "Added: 6. Not usable: 0."

_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_FILE_SECONDS = 40
_RATE = 16_000


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Endpoints]:
    """A local cloud that offers characters of visitors' own voices."""
    told = folder / "endpoints.json"
    command = [sys.executable, "-m", "tests.browser.own_voice_cloud", str(folder), *arguments]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            late = time.monotonic() + _START_SECONDS
            while not told.is_file():
                assert process.poll() is None
                assert time.monotonic() < late
                time.sleep(0.1)
            yield Endpoints.read(told, needs_firestore=False)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=_STOP_SECONDS)


def write_reading(path: Path) -> Path:
    """Write a microphone before which somebody waits, reads a sentence, and waits again."""
    voice = decode(SAMPLE)
    tone = voice[: len(voice) // 20]
    quiet = np.tile(tone, 20)[: 2 * 48_000]
    return write_wav(path, np.concatenate([quiet[:24_000], voice, quiet]))


def write_long_recordings(folder: Path) -> list[Path]:
    voice = decode(SAMPLE, _RATE)
    samples = np.tile(voice, 10)[: _FILE_SECONDS * _RATE]
    return [write_wav(folder / f"{number}.wav", samples, _RATE) for number in range(6)]


def agree_to_the_terms(page: Page, language: str = "en") -> None:
    page.fill("[name=name]", "Ada")
    page.check(f"[name=language][value={language}]", force=True)
    page.fill("[name=owner]", "Ada Example")
    page.fill("[name=contact]", "ada@example.org")
    page.check("[name=isMyOwnVoice]")
    page.check("[name=noPublicFigureNoMinor]")
    page.click("#begin")
    expect(page.locator("#dial")).to_be_visible()


def read_aloud(page: Page, seconds: float = 6.4) -> None:
    page.click("#main")
    page.wait_for_selector("body[data-scene=recording]")
    page.wait_for_timeout(seconds * 1000)
    page.click("#main")
    page.wait_for_selector("body:not([data-scene=recording])")


def read_and_keep(page: Page, seconds: float = 6.4) -> None:
    """The same; what a busy machine has cut off is kept all the same."""
    read_aloud(page, seconds)
    page.wait_for_selector("body[data-scene=judged], body[data-scene=reading] #listen:visible")
    if page.locator("#keep").is_visible():
        page.click("#keep")


def sign_in(page: Page, button: str, address: str = "ada@example.org") -> None:
    page.fill("#address", address)
    page.fill("#password", "a long enough one")
    page.click(button)
