"""The example page of `web/example`, outside of this repository and with the client's tarball."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import httpx

from infra.local.configuration.names import Ports
from tests.browser.endpoints import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WEB: Final = ROOT / "web"
_START_SECONDS: Final = 60.0
_SOURCES: Final = ("index.html", "package.json", "tsconfig.json", "vite-env.d.ts")

_CHECK_PAGE: Final = """<!doctype html>
<title>What tests call</title>
<script type="module" src="/check.ts"></script>
"""

_CHECK: Final = """
import { VoiceAvatar, type VoiceAvatarConfig, type VoiceResult } from "@voice-avatar/client";
import { listenIn } from "@voice-avatar/client/firestore";

declare global {
  interface Window {
    convert: (site: VoiceAvatarConfig, audio: string, contentType: string) => Promise<VoiceResult>;
  }
}

// The tarball brings it for visitors who sign in.
export const listener = listenIn;
window.convert = async (site, audio, contentType) => {
  const avatar = new VoiceAvatar(site);
  const bytes = Uint8Array.from(atob(audio), (character) => character.charCodeAt(0));
  const recording = new Blob([bytes], { type: contentType });
  return (await avatar.convert(recording, { contentType })).result;
};
"""


def readme_example() -> str:
    readme = (ROOT / "README.md").read_text()
    (example,) = re.findall(r"^```ts\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    return str(example)


class FreshSite:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def install(self) -> None:
        """Copy the example with the README's code, install the client's tarball, check types."""
        for name in _SOURCES:
            shutil.copy(WEB / "example" / name, self._folder)
        (self._folder / "main.ts").write_text(readme_example())
        (self._folder / "check.html").write_text(_CHECK_PAGE)
        (self._folder / "check.ts").write_text(_CHECK)
        _npm(self._folder, "install", "--no-audit", "--no-fund", "--prefer-offline", self._pack())
        _npm(self._folder, "run", "types")

    @contextmanager
    def served(self, api: str) -> Iterator[int]:
        vite = self._folder / "node_modules" / ".bin" / "vite"
        with Ports() as ports:
            (port,) = ports.free(1)
            address = ("--host", "127.0.0.1", "--port", str(port), "--strictPort")
            process = subprocess.Popen(
                [vite, *address],
                cwd=self._folder,
                env=os.environ | {"VITE_API": api},
                stdout=subprocess.DEVNULL,
            )
        try:
            _wait(process, f"http://127.0.0.1:{port}/")
            yield port
        finally:
            process.terminate()
            process.wait()

    def _pack(self) -> str:
        target = ("--pack-destination", str(self._folder))
        (packed,) = json.loads(_npm(WEB / "client", "pack", "--json", "--silent", *target))
        return f"./{packed['filename']}"


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with suppress(httpx.TransportError):
            if httpx.get(url).is_success:
                return
        time.sleep(0.05)
    raise RuntimeError("Vite did not start")


def _npm(folder: Path, *arguments: str) -> str:
    npm = shutil.which("npm")
    assert npm is not None, "npm is missing: install Node.js 22.12 or newer, or 20.19"
    ended = subprocess.run(
        [npm, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
