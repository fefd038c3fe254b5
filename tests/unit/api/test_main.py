"""The composition of the api from its settings."""

from __future__ import annotations

import asyncio
import json
import runpy
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from functions.api import main
from functions.api.main import ApiServices, build, open_sign_in
from functions.api.settings import ApiSettings
from infra.local.cloud.memory import MemoryVoices
from shared.runtime.function import TARGET_VARIABLE
from shared.runtime.settings import SettingsError, Switch
from tests.support.buckets import MemoryBucket
from tests.support.messages import RecordingPublisher
from tests.support.voices import a_waiting
from tests.unit.api.stage import problem
from tests.unit.graphs.bundles import manifest

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import FastAPI


@pytest.fixture
def characters(tmp_path: Path) -> Path:
    folder = tmp_path / "characters" / "mei"
    folder.mkdir(parents=True)
    (folder / "character.json").write_text(json.dumps(manifest(id="mei")))
    return folder.parent


def settings(characters: Path, **changes: Any) -> ApiSettings:
    fields: dict[str, Any] = {
        "project_id": "p",
        "environment": "local",
        "uploads_bucket": "my-uploads",
        "results_bucket": "my-results",
        "signing_key_file": "/key.json",
        # Nobody listens there: whatever a visitor does, the warm-up only fails in the log.
        "conversions_topic": "conversions",
        "convert_url": "http://127.0.0.1:1",
        "characters_dir": characters,
    }
    return ApiSettings(**(fields | changes))


def an_app(characters: Path, **changes: Any) -> FastAPI:
    return build(
        settings(characters, **changes),
        ApiServices(
            voices=MemoryVoices(),
            uploads=MemoryBucket("my-uploads"),
            results=MemoryBucket("my-results"),
            conversions=RecordingPublisher,
        ),
    )


async def get(app: FastAPI, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://api.test") as client:
        return await client.get(path)


async def test_the_page_and_its_configuration_are_served_in_the_local_cloud(
    characters: Path, tmp_path: Path
) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("<p>the page</p>")
    app = an_app(characters, web_root=tmp_path / "page", page_config='{"api": ""}')

    config = await get(app, "/config.json")
    assert (config.json(), config.headers["cache-control"]) == ({"api": ""}, "no-store")
    assert "the page" in (await get(app, "/")).text
    assert (await get(app, "/api/v1/characters")).json()["characters"][0]["id"] == "mei"
    problem(await get(app, "/missing.js"), 404, "not_found")


def test_own_characters_need_a_trainer_and_a_place_for_the_recordings(characters: Path) -> None:
    with pytest.raises(ValueError, match="needs OWN_RECORDINGS_BUCKET, TRAINER_URL and"):
        an_app(characters, own_characters_per_day=3)


async def test_elsewhere_no_page_is_served_and_voices_are_created_without_a_converter(
    characters: Path,
) -> None:
    transport = httpx.ASGITransport(an_app(characters))
    async with httpx.AsyncClient(transport=transport, base_url="http://api.test") as client:
        problem(await client.get("/"), 404, "not_found")
        assert (await client.post("/api/v1/voices")).status_code == 201
    await asyncio.sleep(0)


def test_a_default_character_that_there_is_not_is_refused(characters: Path) -> None:
    with pytest.raises(SettingsError, match="DEFAULT_CHARACTER: expected one of mei, found 'ada'"):
        an_app(characters, default_character="ada")


def start(monkeypatch: pytest.MonkeyPatch, characters: Path) -> None:
    """Load the module as the Functions Framework does before it serves the function."""
    variables = settings(characters).model_dump(exclude_unset=True)
    monkeypatch.setenv(TARGET_VARIABLE, "api")
    for name, value in variables.items():
        monkeypatch.setenv(name.upper(), str(value))
    runpy.run_path(str(main.__file__))


def test_the_api_starts_with_valid_characters_alone_and_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], characters: Path
) -> None:
    start(monkeypatch, characters)
    path = characters / "mei" / "character.json"
    for text in (None, "{}", json.dumps(manifest(id="ada"))):
        path.unlink()
        if text is not None:
            path.write_text(text)

        with pytest.raises(SystemExit) as end:
            start(monkeypatch, characters)

        (line,) = capsys.readouterr().err.splitlines()
        assert end.value.code == 2
        assert line.startswith(f"CHARACTERS_DIR={characters} is wrong: ")
        path.touch()


@pytest.mark.parametrize("sign_in", Switch)
async def test_without_a_token_nobody_is_known_whether_visitors_may_sign_in_or_not(
    characters: Path, sign_in: Switch
) -> None:
    opened = open_sign_in(settings(characters, firebase_auth=sign_in))

    assert await opened.uid_of(None) is None
    assert opened.is_offered is (sign_in is Switch.ON)
    await opened.require_owner(a_waiting(), None)
