"""The local cloud with Google's emulators: every service has a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse

from infra.local.cloud import provisioning
from infra.local.cloud.local_cloud import LocalCloud, running_emulators
from infra.local.configuration import names
from infra.local.configuration.environments import (
    FIRESTORE_VARIABLE,
    PUBSUB_VARIABLE,
    STORAGE_VARIABLE,
    choose_addresses,
    deployable_environments,
    port_of,
)
from infra.local.configuration.keys import KEY_FILE, make_key
from infra.local.configuration.options import ROOT, RULES
from infra.local.processes import scale_to_zero
from infra.local.processes.children import (
    READY_SECONDS,
    StartError,
    Supervisor,
    require_up,
)
from infra.local.processes.servers import Servers, forwarded, pass_on
from shared.runtime.origins import is_allowed_origin, is_own_host
from shared.voices.store import StoreUnavailableError, change
from shared.voices.voice import Options, create, new_voice_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from contextlib import AsyncExitStack
    from pathlib import Path

    from starlette.types import ASGIApp, Receive, Scope, Send

    from infra.local.cloud.local_cloud import Emulators, Progress
    from infra.local.configuration.environments import Addresses
    from infra.local.configuration.options import CloudOptions
    from infra.local.processes.children import Process
    from shared.voices.store import VoiceStore

_FUNCTIONS: Final = ("api", "on_upload", "dead_letter", "sweep")
_WARM_UP_PAUSE_SECONDS: Final = 0.5

_SERVICE: Final = "/google.firestore.v1.Firestore/"
"""Firebase's SDK uses these paths; the emulator's own ones delete databases."""

_OWNER: Final = "bearer owner"  # with this token the emulator skips the rules


async def start_emulated(
    emulators: Emulators | None,
    options: CloudOptions,
    scratch: Path,
    stack: AsyncExitStack,
    progress: Progress,
) -> LocalCloud:
    """Start every service in parallel, and the emulators unless both run already (None)."""
    supervisor = Supervisor(options.folder / "logs")
    stack.push_async_callback(supervisor.stop_all)
    chosen = choose_addresses(options, supervisor.ports, emulated=True)
    addresses = replace(chosen, **running_emulators(os.environ))
    starter = _Starter(options, addresses, scratch, supervisor)
    await starter.start_all(emulators)
    progress(f"{len(supervisor.processes)} services are starting")
    # The next local cloud of this process would take it for an emulator that runs already.
    stack.enter_context(kept(os.environ, FIRESTORE_VARIABLE))
    voices = open_voices(addresses, environment=os.environ)
    stack.push_async_callback(voices.aclose)
    await starter.provision()
    progress("the emulators and the storage are ready")
    await open_firestore_to_pages(options, addresses, stack)
    if options.own_characters is not None:
        # Imported here: it needs the packages of the conversion, which the others do without.
        from infra.local.cloud.trainer import trainer_of  # noqa: PLC0415

        stack.enter_context(kept(os.environ, STORAGE_VARIABLE))
        os.environ[STORAGE_VARIABLE] = addresses.storage
        environment = starter.environments["api"]
        trainer = trainer_of(environment, options.own_characters, str(addresses.trainer))
        await stack.enter_async_context(trainer)
    await asyncio.gather(starter.wait_until_ready(progress), warm_up_firestore(voices))
    # Another program may have answered before a process found that it had its port.
    for process in supervisor.processes:
        require_up(process)

    async def crashed() -> str:
        return (await supervisor.wait_for_an_end()).name

    pids = {process.name: process.pid for process in supervisor.processes}
    has_page = options.web_root is not None
    return LocalCloud(addresses, voices, crashed, starter.restart_converter, has_page, pids)


async def open_firestore_to_pages(
    options: CloudOptions, addresses: Addresses, stack: AsyncExitStack
) -> None:
    # A page listens for minutes, and asks for many voices at once.
    limits = httpx.Limits(max_connections=None)
    client = await stack.enter_async_context(httpx.AsyncClient(timeout=None, limits=limits))  # noqa: S113
    app = page_firestore(client, str(addresses.firestore), addresses.origins(options))
    servers = await stack.enter_async_context(Servers())
    servers.start(app, f"http://{addresses.page_firestore}")


def page_firestore(client: httpx.AsyncClient, emulator: str, origins: Collection[str]) -> ASGIApp:
    """Return an application that passes on what the pages of some sites ask the emulator.

    The emulator obeys every page of every site, also one that calls itself the database's owner. So
    it has an address that pages can't guess, and only allowed pages get through here.
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        refusal = refusal_of(request, origins)
        if refusal is not None:
            await PlainTextResponse(refusal, 403)(scope, receive, send)
            return
        try:
            async with forwarded(client, request, emulator) as answer:
                await pass_on(answer, send)
        except (httpx.TransportError, ClientDisconnect):
            await PlainTextResponse("Firestore's emulator does not answer", 503)(
                scope, receive, send
            )

    return serve


def refusal_of(request: Request, origins: Collection[str]) -> str | None:
    headers = request.headers
    if not is_own_host(headers.get("host", ""), ()):
        return "expected 127.0.0.1 or localhost as Host"
    if not is_allowed_origin(headers.get("origin", ""), None, origins):
        return f"pages of this site may not read voices; allowed are {', '.join(origins)}"
    if headers.get("authorization", "").strip().lower() == _OWNER:
        return "a page is not the owner of the database"
    if not request.url.path.startswith(_SERVICE):
        return f"expected a path below {_SERVICE}"
    return None


@contextmanager
def kept(environment: os._Environ[str], name: str) -> Iterator[None]:
    before = environment.get(name)
    try:
        yield
    finally:
        if before is None:
            environment.pop(name, None)
        else:
            environment[name] = before


def open_voices(addresses: Addresses, environment: os._Environ[str]) -> VoiceStore:
    """Open the voices in the emulator, to watch them from this process."""
    # Imported here: the services start while the client library is imported.
    from shared.google.firestore import RenewableClient  # noqa: PLC0415
    from shared.google.listener import DocumentListener  # noqa: PLC0415
    from shared.google.voices import FirestoreVoices  # noqa: PLC0415

    environment[FIRESTORE_VARIABLE] = str(addresses.firestore)
    client = RenewableClient(project=names.PROJECT_ID)
    return FirestoreVoices(client, DocumentListener(client, targets_per_stream=100))


async def warm_up_firestore(voices: VoiceStore) -> None:
    """Send the emulator its first requests; Java needs some seconds for them."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            while True:
                with suppress(StoreUnavailableError):
                    return await ask_everything(voices)
                await asyncio.sleep(_WARM_UP_PAUSE_SECONDS)
    except TimeoutError:
        raise StartError("Firestore's emulator does not answer") from None


async def ask_everything(voices: VoiceStore) -> None:
    voice = create(new_voice_id(), "nobody", Options(), now=datetime.now(UTC))
    await voices.create(voice)
    async with voices.watch(voice.voice_id) as states:
        await anext(states)
    await change(voices, voice.voice_id, lambda current, now: replace(current, updated_at=now))
    await voices.delete(voice.voice_id)


class _Starter:
    def __init__(
        self, options: CloudOptions, addresses: Addresses, scratch: Path, supervisor: Supervisor
    ) -> None:
        self._options = options
        self._addresses = addresses
        self._scratch = scratch
        self._key_file = scratch / KEY_FILE
        (options.sign_in.key if options.sign_in else make_key()).write(self._key_file)
        self.environments = deployable_environments(options, addresses, self._key_file)
        self._supervisor = supervisor
        self._deployables: dict[str, tuple[Process, str]] = {}
        self._foundations: list[tuple[Process, str]] = []

    async def start_all(self, emulators: Emulators | None) -> None:
        if emulators is not None:
            await self._start_emulators(emulators)
        await self._start_storage()
        await self._start_deployables()

    async def provision(self) -> None:
        """Make buckets, topics and subscriptions as soon as the servers for them are ready."""
        for process, url in self._foundations:
            await self._supervisor.wait_until_ready(process, url)
        subscriptions = provisioning.plan_subscriptions(self._addresses, self._options.timeouts)
        try:
            async with httpx.AsyncClient(timeout=READY_SECONDS) as client:
                pubsub = f"http://{self._addresses.pubsub}"
                await provisioning.make_subscriptions(client, pubsub, subscriptions)
                origins = self._addresses.origins(self._options)
                await provisioning.make_buckets(
                    client,
                    self._addresses.storage,
                    origins,
                    shards=self._options.upload_shards,
                )
        except httpx.HTTPError as error:
            raise StartError(f"buckets and topics could not be made: {error}") from error

    async def wait_until_ready(self, progress: Progress) -> None:
        for number, (name, (process, url)) in enumerate(self._deployables.items(), 1):
            await self._supervisor.wait_until_ready(process, url)
            progress(f"{name} is ready ({number} of {len(self._deployables)})")

    async def restart_converter(self) -> None:
        stuck, ready_url = self._deployables["convert"]
        process = await self._supervisor.restart(stuck)
        self._deployables["convert"] = process, ready_url
        await self._supervisor.wait_until_ready(process, ready_url)

    async def _start_emulators(self, emulators: Emulators) -> None:
        firestore, pubsub = str(self._addresses.firestore), str(self._addresses.pubsub)
        hosts = self._scratch / "hosts"
        hosts.write_text(f"{pubsub.partition(':')[0]} localhost\n")
        commands = {
            "firestore": (emulators.firestore_command(firestore, RULES), firestore),
            "pubsub": (emulators.pubsub_command(pubsub, hosts), pubsub),
        }
        for name in commands.keys() - running_emulators(os.environ).keys():
            command, address = commands[name]
            process = await self._supervisor.start(name, command, os.environ)
            self._foundations.append((process, f"http://{address}/"))

    async def _start_storage(self) -> None:
        storage = self._addresses.storage
        command = [
            *(sys.executable, "-m", "infra.local.cloud.storage_service", str(port_of(storage))),
            *(str(self._scratch / "storage"), str(self._key_file), str(self._addresses.pubsub)),
        ]
        process = await self._supervisor.start("storage", command, self._environment({}))
        self._foundations.append((process, f"{storage}/storage/v1/b?project={names.PROJECT_ID}"))

    async def _start_deployables(self) -> None:
        options, addresses = self._options, self._addresses
        commands = {}
        for name in _FUNCTIONS:
            url = getattr(addresses, name)
            # As the image of Cloud Functions serves a function.
            command = [
                *(sys.executable, "-m", "functions_framework", "--asgi"),
                *(f"--source={ROOT / 'functions' / name / 'main.py'}", f"--target={name}"),
                *("--host=127.0.0.1", f"--port={port_of(url)}"),
            ]
            commands[name] = (command, f"{url}/healthz")
        convert, ready_path = [sys.executable, "-m", "functions.convert"], "/readyz"
        if options.scaling is not None:
            before = scale_to_zero.command(
                "convert",
                port_of(addresses.convert),
                logs=options.folder / "logs",
                ready_path=ready_path,
                scaling=options.scaling,
                liveness=options.liveness,
            )
            convert, ready_path = [*before, *convert], "/healthz"
        commands["convert"] = (convert, addresses.convert + ready_path)
        live = [sys.executable, "-m", "functions.live_and_compat"]
        commands["live"] = (live, f"{addresses.live}/readyz")
        for name, (command, ready_url) in commands.items():
            environment = self._environment(self.environments[name])
            process = await self._supervisor.start(name, command, environment)
            self._deployables[name] = process, ready_url

    def _environment(self, own: Mapping[str, str]) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            STORAGE_VARIABLE: self._addresses.storage,
            FIRESTORE_VARIABLE: str(self._addresses.firestore),
            PUBSUB_VARIABLE: str(self._addresses.pubsub),
            **own,
        }
