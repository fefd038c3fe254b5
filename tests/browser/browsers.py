"""Finds the browser, and lets its microphone play a recording."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FLAGS = (
    "--autoplay-policy=user-gesture-required",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",
)


class ChromiumMissingError(RuntimeError):
    def __init__(self) -> None:
        super().__init__(
            "Chromium is missing: install it (Debian: apt-get install chromium), "
            "or set CHROMIUM to the path of another browser of its kind"
        )


def chromium_path() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise ChromiumMissingError
    return found


def microphone_flags(recording: Path | None) -> list[str]:
    """Return the command line of a browser whose microphone plays a WAV file, or is missing."""
    if recording is None:
        return list(_FLAGS)
    fake = "--use-fake-device-for-media-stream"
    return [*_FLAGS, fake, f"--use-file-for-fake-audio-capture={recording}"]
