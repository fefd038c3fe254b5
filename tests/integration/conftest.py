"""Google's emulators, started once for all tests that need them."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import httpx
import pytest
import pytest_asyncio

from infra.local.cloud.local_cloud import (
    Emulators,
    EmulatorsMissingError,
    find_emulators,
)
from infra.local.configuration.names import PROJECT_ID
from infra.local.configuration.options import RULES
from infra.local.processes.children import READY_SECONDS, Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path


@pytest.fixture
def no_emulator_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the variables that a local cloud sets for the client libraries back at the end."""
    for name in ("FIRESTORE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"):
        monkeypatch.setenv(name, "")


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.emulators)])
def embedded(request: pytest.FixtureRequest, no_emulator_named: None) -> bool:
    """Run a test with a local cloud in memory, and again with Google's emulators."""
    del no_emulator_named
    if not request.param:
        request.getfixturevalue("emulators")
    return bool(request.param)


@pytest.fixture(scope="session")
def emulators() -> Emulators:
    """How the emulators are started; without them, tests are skipped, but never unnoticed in CI."""
    try:
        return find_emulators()
    except EmulatorsMissingError as error:
        if os.environ.get("CI"):
            pytest.fail(f"the tests need Google's emulators: {error}")
        pytest.skip(f"needs Google's emulators: {error}")


@pytest.fixture(scope="session")
def emulator_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emulators")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def firestore_emulator(emulators: Emulators, emulator_logs: Path) -> AsyncIterator[str]:
    """The Firestore emulator with the project's rules, as HOST:PORT."""
    command = partial(emulators.firestore_command, rules=RULES)
    async for address in _served("firestore", command, emulator_logs):
        # The first call takes seconds on a busy machine; let no test's own deadline pay for it.
        database = f"projects/{PROJECT_ID}/databases/(default)"
        async with httpx.AsyncClient(timeout=READY_SECONDS) as client:
            await client.get(f"http://{address}/v1/{database}/documents/voices/none")
        yield address


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pubsub_emulator(emulators: Emulators, emulator_logs: Path) -> AsyncIterator[str]:
    """The Pub/Sub emulator, as HOST:PORT."""
    async for address in _served("pubsub", emulators.pubsub_command, emulator_logs):
        yield address


async def _served(name: str, command: Callable[[str], list[str]], logs: Path) -> AsyncIterator[str]:
    supervisor = Supervisor(logs)
    (port,) = supervisor.ports.free(1)
    address = f"127.0.0.1:{port}"
    try:
        process = await supervisor.start(name, command(address), os.environ)
        await supervisor.wait_until_ready(process, f"http://{address}/")
        yield address
    finally:
        await supervisor.stop_all()
