"""The local cloud with Google's emulators: every service is a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

from infra.local import names, provisioning
from infra.local import scale_to_zero_proxy as front
from infra.local.cloud import (
    ROOT,
    RULES,
    LocalCloud,
    choose_addresses,
    deployable_environments,
)
from infra.local.emulators import Emulators, find_emulators
from infra.local.keys import make_key
from infra.local.processes import READY_SECONDS, StartError, Supervisor
from shared.ports.store import change
from shared.voice import Options, create, new_voice_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from infra.local.cloud import Addresses, CloudOptions
    from infra.local.processes import Process
    from shared.ports.store import VoiceStore

FIRESTORE_VARIABLE: Final = "FIRESTORE_EMULATOR_HOST"
PUBSUB_VARIABLE: Final = "PUBSUB_EMULATOR_HOST"

_VARIABLES: Final = {"firestore": FIRESTORE_VARIABLE, "pubsub": PUBSUB_VARIABLE}
_FUNCTIONS: Final = ("api", "on_upload", "dead_letter")


def find_or_reuse(environment: Mapping[str, str]) -> Emulators | None:
    """Return how to start the emulators, or None if both run already.

    Raises:
        EmulatorsMissingError: they are needed and missing.
    """
    if len(_running(environment)) == len(_VARIABLES):
        return None
    return find_emulators(environment)


@asynccontextmanager
async def emulated_cloud(
    options: CloudOptions, emulators: Emulators | None
) -> AsyncIterator[LocalCloud]:
    """Start every service, in parallel, and stop all of them at the end.

    Raises:
        StartError: one did not come up.
    """
    async with AsyncExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="voice-avatar-")))
        supervisor = Supervisor(options.folder / "logs")
        stack.push_async_callback(supervisor.stop_all)
        addresses = _reusing(choose_addresses(options, emulated=True), os.environ)
        starter = _Starter(options, addresses, scratch, supervisor)
        await starter.start_all(emulators)
        voices = open_voices(addresses, environment=os.environ)
        stack.push_async_callback(voices.aclose)
        await starter.provision()
        await asyncio.gather(starter.wait_until_ready(), _warm_up_firestore(voices))

        async def crashed() -> str:
            return (await supervisor.wait_for_an_end()).name

        pids = {process.name: process.pid for process in supervisor.processes}
        yield LocalCloud(addresses, options.web_root is not None, voices, crashed, pids)


def _reusing(addresses: Addresses, environment: Mapping[str, str]) -> Addresses:
    """Return the addresses with those of the emulators that run already."""
    return replace(addresses, **_running(environment))


def _running(environment: Mapping[str, str]) -> dict[str, str]:
    """Return where the emulators listen that run already; an empty variable names none."""
    return {name: host for name, key in _VARIABLES.items() if (host := environment.get(key))}


def open_voices(addresses: Addresses, environment: os._Environ[str]) -> VoiceStore:
    """Open the voices in the emulator, to watch them from this process."""
    # Imported here: the client library takes a while, which the services start up in.
    from google.cloud.firestore_v1 import AsyncClient  # noqa: PLC0415

    from shared.google.firestore_listener import DocumentListener  # noqa: PLC0415
    from shared.google.firestore_store import FirestoreVoices  # noqa: PLC0415

    # The client library knows its emulator from nowhere else.
    environment[FIRESTORE_VARIABLE] = str(addresses.firestore)
    client = AsyncClient(project=names.PROJECT_ID)
    return FirestoreVoices(client, DocumentListener(client, targets_per_stream=100))


async def _warm_up_firestore(voices: VoiceStore) -> None:
    """Let the emulator meet its first requests now: Java takes a second or two over them."""
    voice = create(new_voice_id(), "nobody", Options(), now=datetime.now(UTC))
    await voices.create(voice)
    async with voices.watch(voice.voice_id) as states:
        await anext(states)
    await change(voices, voice.voice_id, lambda current, now: replace(current, updated_at=now))
    await voices.delete(voice.voice_id)


class _Starter:
    """Starts one local cloud's services.

    Args:
        options: what can be chosen about it.
        addresses: where the services shall listen.
        scratch: a folder for objects and the key.
        supervisor: runs the processes.
    """

    def __init__(
        self, options: CloudOptions, addresses: Addresses, scratch: Path, supervisor: Supervisor
    ) -> None:
        self._options = options
        self._addresses = addresses
        self._scratch = scratch
        self._key_file = scratch / "signing-key.json"
        self._supervisor = supervisor
        self._probes: list[tuple[Process, str]] = []
        self._foundations: list[tuple[Process, str]] = []

    async def start_all(self, emulators: Emulators | None) -> None:
        """Start every process without waiting for any."""
        make_key().write(self._key_file)
        if emulators is not None:
            await self._start_emulators(emulators)
        await self._start_storage()
        await self._start_deployables()

    async def provision(self) -> None:
        """Make buckets, topics and subscriptions as soon as there is something to make them in."""
        for process, url in self._foundations:
            await self._supervisor.wait_until_ready(process, url)
        subscriptions = provisioning.plan_subscriptions(self._addresses, self._options.timeouts)
        try:
            async with httpx.AsyncClient(timeout=READY_SECONDS) as client:
                pubsub = f"http://{self._addresses.pubsub}"
                await provisioning.make_subscriptions(client, pubsub, subscriptions)
                await provisioning.make_buckets(
                    client, self._addresses.storage, self._addresses.origins
                )
        except httpx.HTTPError as error:
            raise StartError(f"buckets and topics could not be made: {error}") from error

    async def wait_until_ready(self) -> None:
        """Wait until every deployable serves."""
        for process, url in self._probes:
            await self._supervisor.wait_until_ready(process, url)

    async def _start_emulators(self, emulators: Emulators) -> None:
        firestore, pubsub = str(self._addresses.firestore), str(self._addresses.pubsub)
        running = _running(os.environ)
        if "firestore" not in running:
            command = emulators.firestore_command(_port(firestore), RULES)
            process = await self._supervisor.start("firestore", command, os.environ)
            self._foundations.append((process, f"http://{firestore}/"))
        if "pubsub" not in running:
            command = emulators.pubsub_command(_port(pubsub))
            process = await self._supervisor.start("pubsub", command, os.environ)
            self._foundations.append((process, f"http://{pubsub}/"))

    async def _start_storage(self) -> None:
        storage = self._addresses.storage
        command = [
            sys.executable,
            "-m",
            "infra.local.storage_service",
            str(_port(storage)),
            str(self._scratch / "storage"),
            str(self._key_file),
            str(self._addresses.pubsub),
        ]
        process = await self._supervisor.start("storage", command, self._environment({}))
        self._foundations.append((process, f"{storage}/storage/v1/b?project={names.PROJECT_ID}"))

    async def _start_deployables(self) -> None:
        environments = deployable_environments(self._options, self._addresses, self._key_file)
        for name in _FUNCTIONS:
            url = getattr(self._addresses, name)
            command = _function_command(name, _port(url))
            await self._start_deployable(name, command, environments[name], f"{url}/healthz")
        await self._start_convert(environments["convert"])

    async def _start_convert(self, environment: dict[str, str]) -> None:
        url, scaling = self._addresses.convert, self._options.scaling
        command, probe = [sys.executable, "-m", "functions.convert.main"], "/readyz"
        if scaling is not None:
            before = front.command(
                "convert", _port(url), self._options.folder / "logs", probe, scaling
            )
            command, probe = [*before, *command], "/healthz"
        await self._start_deployable("convert", command, environment, url + probe)

    async def _start_deployable(
        self, name: str, command: list[str], environment: dict[str, str], probe: str
    ) -> None:
        process = await self._supervisor.start(name, command, self._environment(environment))
        self._probes.append((process, probe))

    def _environment(self, own: Mapping[str, str]) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "STORAGE_EMULATOR_HOST": self._addresses.storage,
            FIRESTORE_VARIABLE: str(self._addresses.firestore),
            PUBSUB_VARIABLE: str(self._addresses.pubsub),
            **own,
        }


def _function_command(name: str, port: int) -> list[str]:
    """Return the command that serves a function as Cloud Functions' own image does."""
    return [
        sys.executable,
        "-m",
        "functions_framework",
        "--asgi",
        f"--source={ROOT / 'functions' / name / 'main.py'}",
        f"--target={name}",
        "--host=127.0.0.1",
        f"--port={port}",
    ]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
