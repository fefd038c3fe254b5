"""Visitors who make characters and mean no good: the api, signed addresses and the trainer.

The whole local cloud in memory; the training command is stood in for by a program that refuses what
is too short, as the real one does. That it refuses a consent in another voice, and recordings in
which nobody speaks, is tested with the real one (tests/unit/training/recordings).
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio

from infra.local.cloud.start import local_cloud
from infra.local.configuration.options import CloudOptions, OwnCharacterOptions
from shared.characters.own.recordings import MAX_RECORDING_BYTES, MAX_RECORDINGS
from tests.integration.test_own_character import TERMS
from tests.unit.train.stage import BUNDLE, PROGRAM, speech

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/api/v1/own-characters"
NO_SPEECH = {
    "page": b"<html><script>alert(1)</script></html>",
    "program": b"\x7fELF" + bytes(2000),
    "noise": os.urandom(20_000),
    "nothing": b"\0",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    folder: Path = tmp_path_factory.mktemp("own")
    program = (sys.executable, str(PROGRAM), "refuse", str(BUNDLE))
    options = CloudOptions(folder, own_characters=OwnCharacterOptions(100, program))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FIRESTORE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"):
            patch.setenv(name, "")
        async with (
            local_cloud(options, embedded=True, note=print) as cloud,
            httpx.AsyncClient(base_url=cloud.addresses.api, timeout=60) as opened,
        ):
            yield opened


async def begin(client: httpx.AsyncClient) -> tuple[str, dict[str, str]]:
    created = (await client.post(PATH, json=TERMS)).json()
    return f"{PATH}/{created['character_id']}", {"Own-Character-Key": created["key"]}


async def sign(
    client: httpx.AsyncClient, path: str, key: dict[str, str], kind: str = "speech"
) -> dict[str, Any]:
    wish = {"kind": kind, "content_type": "audio/wav"}
    answer = await client.post(f"{path}/recordings", json=wish, headers=key)
    assert answer.status_code == 201, answer.text
    upload: dict[str, Any] = answer.json()["upload"]
    return upload


async def put(client: httpx.AsyncClient, upload: dict[str, Any], data: bytes) -> int:
    sent = await client.put(upload["url"], headers=upload["headers"], content=data)
    return sent.status_code


async def code_of(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    code: str = answer.json()["code"]
    return code


async def until_refused(
    client: httpx.AsyncClient, path: str, key: dict[str, str]
) -> dict[str, str]:
    """Ask for the training, and return the error that it ends with."""
    assert (await client.post(f"{path}/training", headers=key)).status_code == 202
    async with asyncio.timeout(60):
        while (shown := (await client.get(path, headers=key)).json())["status"] != "failed":
            assert shown["status"] in {"queued", "training"}, shown
            await asyncio.sleep(0.1)
    error: dict[str, str] = shown["error"]
    return error


@pytest.mark.parametrize("name", NO_SPEECH)
async def test_what_is_no_speech_becomes_no_character(client: httpx.AsyncClient, name: str) -> None:
    path, key = await begin(client)
    assert await put(client, await sign(client, path, key), NO_SPEECH[name]) == 200
    assert await put(client, await sign(client, path, key, "consent"), speech(3)) == 200
    error = await until_refused(client, path, key)
    assert error["code"] == "recordings_refused"
    assert "expected 2 minutes, found 0 s" in error["message"]


@pytest.mark.parametrize("name", NO_SPEECH)
async def test_a_consent_that_is_no_speech_is_none(client: httpx.AsyncClient, name: str) -> None:
    path, key = await begin(client)
    assert await put(client, await sign(client, path, key), speech(3)) == 200
    assert await put(client, await sign(client, path, key, "consent"), NO_SPEECH[name]) == 200
    error = await until_refused(client, path, key)
    assert error["code"] == "consent_refused"
    assert error["message"].startswith("The spoken consent: ")


async def test_addresses_that_were_collected_before_bring_no_more_recordings_than_are_allowed(
    client: httpx.AsyncClient,
) -> None:
    path, key = await begin(client)
    wanted = MAX_RECORDINGS + 5
    signed = [await sign(client, path, key) for _ in range(wanted)]
    signed.append(await sign(client, path, key, "consent"))
    assert {await put(client, each, b"x") for each in signed} == {200}

    more = await client.post(f"{path}/recordings", json={"kind": "speech"}, headers=key)
    assert await code_of(more, 409) == "too_many_recordings"
    trained = await client.post(f"{path}/training", headers=key)
    assert await code_of(trained, 409) == "too_many_recordings"
    assert (await client.delete(path, headers=key)).status_code == 204


async def test_an_address_takes_one_recording_of_the_size_that_was_said(
    client: httpx.AsyncClient,
) -> None:
    path, key = await begin(client)
    upload = await sign(client, path, key)
    assert await put(client, upload, bytes(MAX_RECORDING_BYTES + 1)) == 400
    assert await put(client, upload, speech(1)) == 200
    assert await put(client, upload, speech(2)) == 412
    # Neither does it take another recording's place.
    other, _ = await begin(client)
    moved = upload | {"url": upload["url"].replace(path.split("/")[-1], other.split("/")[-1])}
    assert await put(client, moved, speech(1)) == 403


async def test_somebody_elses_character_can_neither_be_seen_nor_changed(
    client: httpx.AsyncClient,
) -> None:
    path, _ = await begin(client)
    _, stranger = await begin(client)
    for key in ({}, stranger, {"Own-Character-Key": "x" * 32}):
        said = {
            await code_of(
                await client.request(method, f"{path}{rest}", json=body, headers=key), 404
            )
            for method, rest, body in (
                ("GET", "", None),
                ("PATCH", "", {"name": "Mine"}),
                ("POST", "/recordings", {"kind": "speech"}),
                ("POST", "/training", None),
                ("POST", "/again", None),
                ("DELETE", "", None),
            )
        }
        assert said == {"unknown_own_character"}


@pytest.mark.parametrize("path", ["../voices", "hina", "own-" + "a" * 26, "own-%2e%2e%2fhina"])
async def test_an_id_that_is_none_is_unknown(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(f"{PATH}/{path}", headers={"Own-Character-Key": "x"})
    assert answer.status_code in {404, 405}


@pytest.mark.parametrize("field", ["name", "owner"])
@pytest.mark.parametrize("text", ["<b>Ada</b>", "Ada\u202eadA", "Ada\0", "&lt;script&gt;"])
async def test_markup_in_names_is_refused_when_a_character_is_begun_and_when_it_is_renamed(
    client: httpx.AsyncClient, field: str, text: str
) -> None:
    refused = await client.post(PATH, json=TERMS | {field: text})
    assert await code_of(refused, 422) == "invalid_request"
    if field == "name":
        path, key = await begin(client)
        renamed = await client.patch(path, json={"name": text}, headers=key)
        assert await code_of(renamed, 422) == "invalid_request"
