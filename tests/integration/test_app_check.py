from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from infra.local.cloud.start import local_cloud
from infra.local.configuration.options import CloudOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    (page := tmp_path / "page").mkdir()
    (page / "index.html").write_text("<!doctype html><title>The page</title>")
    options = CloudOptions(folder=tmp_path, web_root=page, app_check=True)
    async with (
        local_cloud(options, embedded=True) as cloud,
        httpx.AsyncClient(base_url=cloud.addresses.api) as asking,
    ):
        yield asking


async def test_only_the_local_clouds_own_page_is_let_in(
    client: httpx.AsyncClient,
) -> None:
    token = (await client.get("/config.json")).json()["appCheck"]["token"]

    refused = await client.post("/api/v1/voices")
    created = await client.post("/api/v1/voices", headers={"X-Firebase-AppCheck": token})
    forged = await client.post(
        "/api/v1/voices", headers={"X-Firebase-AppCheck": f"{token[:-4]}AAAA"}
    )

    assert (refused.status_code, refused.json()["code"]) == (401, "app_check_refused")
    assert (forged.status_code, forged.json()["code"]) == (401, "app_check_refused")
    assert created.status_code == 201, created.text
