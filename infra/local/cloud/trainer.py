"""The trainer of the local cloud: makes characters of visitors' own voices, one at a time."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from functions.api.own_characters import OwnCharacterServices
from functions.api.settings import ApiSettings
from functions.train.runner import TrainingRunner
from functions.train.trainer import Trainer, environment_of_trainer
from infra.local.configuration import names
from infra.local.configuration.options import ROOT
from infra.local.processes.children import StartError, run_in_background
from infra.local.processes.servers import Servers
from shared.google import clients
from shared.runtime import settings
from shared.speech.decoding.decoder import Decoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from starlette.requests import Request

    from infra.local.configuration.options import OwnCharacterOptions
    from shared.characters.own.store import OwnCharacterStore

TRAINING_SECONDS: Final = 1800.0


def training_program(root: Path = ROOT) -> Path:
    """Find the Python of the environment that `nox -s train` makes."""
    for name in ("bin/python", "Scripts/python.exe"):
        program = root / ".nox" / "training" / name
        if program.exists():
            return program
    raise StartError(
        "--own-characters: expected the packages of the training (PyTorch), found none; install"
        " them with: nox -s train -- --clear"
    )


class LocalTrainer:
    def __init__(
        self, config: ApiSettings, options: OwnCharacterOptions, store: OwnCharacterStore
    ) -> None:
        recordings = clients.open_single_bucket(
            config, names.OWN_RECORDINGS_BUCKET, clients.open_signer(config)
        )
        open_characters = partial(clients.open_bucket, config, names.CHARACTERS_BUCKET)
        self._decoder = Decoder(max_processes=1)
        self._runner = TrainingRunner(
            store,
            recordings,
            open_characters(),
            self._decoder,
            Trainer(options.command, ROOT, TRAINING_SECONDS, environment_of_trainer(os.environ)),
        )
        self.services = OwnCharacterServices(store, recordings, open_characters, self._runner.wake)

    @asynccontextmanager
    async def training(self) -> AsyncIterator[None]:
        async with self._decoder, run_in_background(self._runner.run()):
            yield


@asynccontextmanager
async def trainer_of(
    environment: Mapping[str, str], options: OwnCharacterOptions, url: str
) -> AsyncIterator[None]:
    """Run a trainer beside an api of another process, which calls it at a URL.

    Their documents are in Firestore.
    """
    fields = {name.lower(): value for name, value in environment.items()}
    config = settings.load(ApiSettings, **fields)
    store = clients.open_own_characters(config)
    trainer = LocalTrainer(config, options, store)

    async def look(_request: Request) -> Response:
        trainer.services.wake_trainer()
        return Response(status_code=202)

    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.aclose)
        await stack.enter_async_context(trainer.training())
        servers = await stack.enter_async_context(Servers())
        servers.start(Starlette(routes=[Route("/", look, methods=["POST"])]), url)
        yield
