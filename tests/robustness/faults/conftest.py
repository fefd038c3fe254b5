from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from infra.local.cloud.local_cloud import find_emulators
from tests.integration.served import require_emulators
from tests.robustness.faults.cloud import FaultyCloud, faulty_cloud

# Processes are started while gRPC's threads run; its handlers for that would end some at birth.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def cloud(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FaultyCloud]:
    require_emulators()
    folder = tmp_path_factory.mktemp("faults")
    with pytest.MonkeyPatch.context() as environment:
        # The client libraries know their emulators from nowhere else.
        for variable in ("FIRESTORE_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"):
            environment.setenv(variable, "unset")
        async with faulty_cloud(find_emulators(), folder) as running:
            yield running
