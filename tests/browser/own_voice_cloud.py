"""A local cloud whose visitors may make characters of their own voice: `python -m ... FOLDER`.

The training command is stood in for by the program of the trainer's unit tests, which copies a
bundle, because the browser's environment has no PyTorch. With `--python` and the path of one that
has it, that one trains really, though shortly. With `--sign-in`, visitors sign in.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from infra.local.cloud.local_cloud import published_endpoints
from infra.local.cloud.start import local_cloud
from infra.local.configuration.options import CloudOptions, OwnCharacterOptions, SignInOptions
from tests.browser.endpoints import ROOT
from tests.browser.sign_in_desk import open_desk

_BUNDLE = ROOT / "characters" / "mei"
_PROGRAM = ROOT / "tests" / "unit" / "train" / "trainer_program.py"


async def serve(folder: Path, python: str | None, sign_in: SignInOptions | None) -> None:
    copying = (sys.executable, str(_PROGRAM), "train", str(_BUNDLE))
    command = copying if python is None else (python, "-m", "tools.training", "--quick")
    making = OwnCharacterOptions(50, command, allows_public=True)
    page = ROOT / "web" / "page" / "dist"
    options = CloudOptions(folder, web_root=page, own_characters=making, sign_in=sign_in)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, ended.set)
    async with local_cloud(options, embedded=False, note=print) as cloud:
        with published_endpoints(cloud, folder):
            await ended.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python")
    parser.add_argument("--sign-in", action="store_true")
    given = parser.parse_args()
    with open_desk() as desk:
        asyncio.run(serve(given.folder, given.python, desk if given.sign_in else None))
