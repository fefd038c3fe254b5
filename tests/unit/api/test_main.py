"""The composition of the api from its settings."""

from __future__ import annotations

import asyncio
import json
import runpy
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from pydantic import SecretStr

from functions.api import main
from functions.api.main import ApiServices, build, open_sign_in
from functions.api.settings import ApiSettings, FirebaseAuth
from infra.local.cloud.memory import MemoryVoices
from shared.characters.manifest import ManifestError
from shared.runtime.function import TARGET_VARIABLE
from shared.runtime.settings import SettingsError
from tests.support.buckets import MemoryBucket
from tests.support.messages import RecordingPublisher
from tests.support.voices import a_waiting
from tests.unit.api.stage import problem

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import FastAPI


MANIFEST = {
    "schema_version": 1,
    "id": "mei",
    "name": {"ja": "メイ", "en": "Mei"},
    "engine": "harmonic",
    "sample_rate": 24000,
    "graphs": {"network": {"file": "network.onnx", "sha256": "00" * 32, "bytes": 1}},
    "pitch": {
        "policy": "auto",
        "median_hz": 220.0,
        "log_std": 0.2,
        "low_hz": 100.0,
        "high_hz": 500.0,
    },
    "limits": {"min_seconds": 1.0, "max_seconds": 10.0},
    "credit": "Voice: somebody",
    "licence": {"name": "CC BY 4.0", "spdx": "CC-BY-4.0", "url": "https://licence.example/"},
    "terms_url": "https://terms.example/",
    "consent": "Somebody agreed.",
    "contact": "mailto:somebody@voice.example",
    "preview": {"colour": "#aabbcc", "portrait": None},
}


@pytest.fixture
def characters(tmp_path: Path) -> Path:
    folder = tmp_path / "characters" / "mei"
    folder.mkdir(parents=True)
    (folder / "character.json").write_text(json.dumps(MANIFEST))
    return folder.parent


def an_app(characters: Path, **changes: Any) -> FastAPI:
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
    config = ApiSettings(**(fields | changes))
    return build(
        config,
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


async def test_elsewhere_no_page_is_served(characters: Path) -> None:
    problem(await get(an_app(characters), "/"), 404, "not_found")


async def test_a_voice_is_created_even_if_the_conversion_is_out_of_reach(
    characters: Path,
) -> None:
    transport = httpx.ASGITransport(an_app(characters))
    async with httpx.AsyncClient(transport=transport, base_url="http://api.test") as client:
        assert (await client.post("/api/v1/voices")).status_code == 201
    await asyncio.sleep(0)


def test_a_default_character_that_there_is_not_is_refused(characters: Path) -> None:
    with pytest.raises(SettingsError, match="DEFAULT_CHARACTER: expected one of mei, found 'ada'"):
        an_app(characters, default_character="ada")


def test_without_characters_there_is_no_api(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="at least one character bundle"):
        an_app(tmp_path)


def start(monkeypatch: pytest.MonkeyPatch, characters: Path) -> None:
    """Load the module as the Functions Framework does before it serves the function."""
    variables = {
        "PROJECT_ID": "p",
        "ENVIRONMENT": "local",
        "UPLOADS_BUCKET": "my-uploads",
        "RESULTS_BUCKET": "my-results",
        "SIGNING_KEY_FILE": "/key.json",
        "CONVERSIONS_TOPIC": "conversions",
        "CONVERT_URL": "http://127.0.0.1:1",
        "CHARACTERS_DIR": str(characters),
        TARGET_VARIABLE: "api",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    runpy.run_path(str(main.__file__))


def test_the_api_starts_with_characters(monkeypatch: pytest.MonkeyPatch, characters: Path) -> None:
    start(monkeypatch, characters)


@pytest.mark.parametrize("manifest", [None, "{}", json.dumps(MANIFEST | {"id": "ada"})])
def test_the_api_does_not_start_without_valid_characters_and_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    characters: Path,
    manifest: str | None,
) -> None:
    path = characters / "mei" / "character.json"
    path.unlink()
    if manifest is not None:
        path.write_text(manifest)

    with pytest.raises(SystemExit) as end:
        start(monkeypatch, characters)

    (line,) = capsys.readouterr().err.splitlines()
    assert end.value.code == 2
    assert line.startswith(f"CHARACTERS_DIR={characters} is wrong: ")


@pytest.mark.parametrize("firebase_auth", FirebaseAuth)
async def test_visitors_are_known_only_where_they_may_sign_in(firebase_auth: FirebaseAuth) -> None:
    config = ApiSettings(
        project_id="p",
        conversions_topic="conversions",
        uploads_bucket="my-uploads",
        log_key=SecretStr("k" * 64),
        results_bucket="my-results",
        signing_service_account="signer@p.example",
        convert_url="https://convert.example",
        firebase_auth=firebase_auth,
    )
    sign_in = open_sign_in(config)

    assert await sign_in.uid_of(None) is None
    await sign_in.require_owner(a_waiting(), None)


DESCRIBE: Final = """
import json
from fastapi import FastAPI
from pydantic import BaseModel

class Wish(BaseModel):
    text: str

app = FastAPI(title="x", version="1")

@app.post("/wishes")
def wish(wish: Wish) -> Wish:
    return wish

print(json.dumps(app.openapi()))
"""


def said(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_start_builds_no_model_of_the_description_and_all_others_as_ever() -> None:
    program = (
        "import json, functions.api.main\n"
        "from pydantic import BaseModel\n"
        "from fastapi.openapi.models import OpenAPI\n"
        "class Later(BaseModel): pass\n"
        "print(json.dumps([OpenAPI.__pydantic_complete__, Later.__pydantic_complete__,"
        " BaseModel.model_config]))"
    )

    assert json.loads(said(program)) == [False, True, {}]


def test_the_description_is_the_same_when_it_is_built_later() -> None:
    later = said(f"import functions.api.fastapi_import\n{DESCRIBE}")

    assert json.loads(later)["paths"]["/wishes"]["post"]
    assert later == said(DESCRIBE)
