"""The trainer of the local cloud: makes characters of visitors' own voices, one at a time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from functions.api.own_characters.making import OwnCharacterServices
from functions.train.runner import Runner
from functions.train.trainer import Trainer
from infra.local.configuration import names
from infra.local.configuration.options import ROOT
from infra.local.memory.own_characters import MemoryOwnCharacters
from infra.local.processes.background import running_in_background
from infra.local.processes.processes import StartError
from shared.google import clients
from speech.decoding.decoder import Decoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from functions.api.settings import ApiSettings
    from infra.local.configuration.options import OwnCharacterOptions

TRAINING_SECONDS: Final = 1800.0


def training_program(root: Path = ROOT) -> Path:
    """Find the Python of the environment that `nox -s train` makes.

    Raises:
        StartError: it is not there.
    """
    for name in ("bin/python", "Scripts/python.exe"):
        program = root / ".nox" / "training" / name
        if program.exists():
            return program
    raise StartError(
        "--own-characters: expected the packages of the training (PyTorch), found none; install"
        " them with: nox -s train -- --clear"
    )


class OwnCharacterMaker:
    """Both sides of the making of own characters in one process.

    Args:
        config: the api's settings.
        options: what the operator allows.
    """

    def __init__(self, config: ApiSettings, options: OwnCharacterOptions) -> None:
        store = MemoryOwnCharacters()
        recordings = clients.open_bucket(
            config, names.OWN_RECORDINGS_BUCKET, clients.open_signer(config)
        )
        open_characters = partial(clients.open_bucket, config, names.CHARACTERS_BUCKET)
        self._decoder = Decoder(max_processes=1)
        self._runner = Runner(
            store,
            recordings,
            open_characters(),
            self._decoder,
            Trainer(options.command, ROOT, TRAINING_SECONDS),
        )
        self.services = OwnCharacterServices(store, recordings, open_characters, self._runner.wake)

    @asynccontextmanager
    async def training(self) -> AsyncIterator[None]:
        """Train while the block runs."""
        async with self._decoder, running_in_background(self._runner.run()):
            yield
