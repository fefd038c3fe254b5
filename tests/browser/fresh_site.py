"""A new Vite project that installs the client from its tarball."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

WEB: Final = Path(__file__).parents[2] / "web"

_INDEX: Final = """<!doctype html>
<title>A fresh site</title>
<script type="module" src="/main.ts"></script>
"""

_MAIN: Final = """
import { VoiceAvatar, type VoiceAvatarConfig, type VoiceResult } from "@voice-avatar/client";
import { listenIn } from "@voice-avatar/client/firestore";

declare global {
  interface Window {
    convert: (site: VoiceAvatarConfig, audio: string, contentType: string) => Promise<VoiceResult>;
    hasFirestore: boolean;
  }
}

window.hasFirestore = typeof listenIn === "function";
window.convert = async (site, audio, contentType) => {
  const avatar = new VoiceAvatar(site);
  const bytes = Uint8Array.from(atob(audio), (character) => character.charCodeAt(0));
  const recording = new Blob([bytes], { type: contentType });
  return (await avatar.convert(recording, { contentType })).result;
};
"""

_TYPESCRIPT: Final = {
    "compilerOptions": {
        "target": "ES2022",
        "lib": ["ES2022", "DOM"],
        "module": "ESNext",
        "moduleResolution": "Bundler",
        "strict": True,
        "noEmit": True,
        # As in Vite's own templates: the SDK's types name what no browser has yet.
        "skipLibCheck": True,
    },
    "include": ["main.ts"],
}


class FreshSite:
    """A built site.

    Args:
        folder: the project's folder; it must not lie in this repository, whose packages Node.js
            would find otherwise.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def install_and_build(self) -> None:
        """Pack the client, install the tarball in a new project, check its types and build it."""
        versions = json.loads((WEB / "package.json").read_text())["devDependencies"]
        package = {
            "name": "fresh-site",
            "private": True,
            "type": "module",
            "dependencies": {"@voice-avatar/client": f"file:{self._pack()}"},
            "devDependencies": {name: versions[name] for name in ("typescript", "vite")},
        }
        (self._folder / "package.json").write_text(json.dumps(package))
        (self._folder / "tsconfig.json").write_text(json.dumps(_TYPESCRIPT))
        (self._folder / "index.html").write_text(_INDEX)
        (self._folder / "main.ts").write_text(_MAIN)
        _npm(self._folder, "install", "--no-audit", "--no-fund", "--prefer-offline")
        _npm(self._folder, "exec", "--", "tsc")
        _npm(self._folder, "exec", "--", "vite", "build", "--base", "/fresh-site/")

    def open(self, page: Page, origin: str) -> None:
        """Open the site at an origin that the api allows."""
        # A page that the test answers counts as one of the public internet, which needs permission
        # to speak to this machine's services.
        page.context.grant_permissions(["local-network-access"], origin=origin)
        page.route(f"{origin}/fresh-site/**", self._answer)
        page.goto(f"{origin}/fresh-site/index.html")
        page.wait_for_function("window.convert !== undefined")

    def _pack(self) -> str:
        target = ("--pack-destination", str(self._folder))
        (packed,) = json.loads(_npm(WEB / "client", "pack", "--json", "--silent", *target))
        return str(packed["filename"])

    def _answer(self, route: Route) -> None:
        name = route.request.url.partition("/fresh-site/")[2]
        route.fulfill(path=self._folder / "dist" / name)


def _npm(folder: Path, *arguments: str) -> str:
    npm = shutil.which("npm")
    assert npm is not None, "npm is missing: install Node.js 22.12 or newer, or 20.19"
    ended = subprocess.run(
        [npm, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
