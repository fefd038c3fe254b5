from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from shared.store import UnknownVoiceError
from shared.voice import new_voice_id
from tests.support.voices import EVERY_STATE, a_done
from tests.unit.api.stage import Stage, UidTokens, problem

if TYPE_CHECKING:
    from pathlib import Path

    import httpx


@pytest.mark.parametrize("state", EVERY_STATE)
async def test_everything_of_a_voice_is_erased_and_nothing_else(
    stage: Stage, client: httpx.AsyncClient, state: str
) -> None:
    voice, other = EVERY_STATE[state](), a_done()
    for each in (voice, other):
        await stage.voices.create(each)
        stage.uploads.put(each.voice_id, b"recording")
        stage.results.put(f"{each.voice_id}/1.wav", b"result")
    stage.results.put(f"{voice.voice_id}/2.mp3", b"result")

    response = await client.delete(f"/api/v1/voices/{voice.voice_id}")

    assert (response.status_code, response.content) == (204, b"")
    with pytest.raises(UnknownVoiceError):
        await stage.voices.read(voice.voice_id)
    assert set(stage.uploads.objects) == {other.voice_id}
    assert set(stage.results.objects) == {f"{other.voice_id}/1.wav"}
    problem(await client.delete(f"/api/v1/voices/{voice.voice_id}"), 404, "unknown_voice")


async def test_a_deletion_that_was_cut_off_is_completed_by_the_next(
    stage: Stage, client: httpx.AsyncClient
) -> None:
    voice_id = new_voice_id()
    stage.uploads.put(voice_id, b"recording")
    stage.results.put(f"{voice_id}/1.wav", b"result")

    problem(await client.delete(f"/api/v1/voices/{voice_id}"), 404, "unknown_voice")

    assert not stage.uploads.objects
    assert not stage.results.objects


async def test_an_unknown_or_malformed_voice_id_is_told_apart(client: httpx.AsyncClient) -> None:
    problem(await client.delete(f"/api/v1/voices/{new_voice_id()}"), 404, "unknown_voice")
    problem(await client.delete("/api/v1/voices/x"), 422, "invalid_voice_id")


async def test_only_the_owner_erases_a_voice_that_has_one(stage: Stage) -> None:
    stage.verifier = UidTokens()
    voice = replace(a_done(), owner="me")
    await stage.voices.create(voice)
    path = f"/api/v1/voices/{voice.voice_id}"

    async with stage.client() as client:
        problem(await client.delete(path), 403, "not_owner")
        assert (await stage.voices.read(voice.voice_id)).voice == voice
        mine = await client.delete(path, headers={"Authorization": "Bearer uid:me"})

    assert mine.status_code == 204


async def test_the_characters_are_listed_with_credit_licence_and_terms(
    client: httpx.AsyncClient,
) -> None:
    characters = (await client.get("/api/v1/characters")).json()["characters"]

    assert [character["id"] for character in characters] == ["mei", "taro", "kobo"]
    assert characters[0] == {
        "id": "mei",
        "name": {"ja": "メイ", "en": "Mei"},
        "credit": "Voice: somebody",
        "licence": {"name": "CC BY 4.0", "url": "https://licence.example/"},
        "terms_url": "https://terms.example/",
        "colour": "#aabbcc",
        "portrait_url": "/api/v1/characters/mei/portrait",
        "limits": {"min_seconds": 2.0, "max_seconds": 8.0},
    }
    assert characters[1]["portrait_url"] is None


async def test_a_portrait_is_shown_and_may_run_nothing(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    (tmp_path / "mei").mkdir()
    (tmp_path / "mei" / "portrait.svg").write_text("<svg/>")

    response = await client.get("/api/v1/characters/mei/portrait")

    assert (response.text, response.headers["content-type"]) == ("<svg/>", "image/svg+xml")
    assert "default-src 'none'" in response.headers["content-security-policy"]


@pytest.mark.parametrize("name", ["taro", "nobody", ".."])
async def test_where_there_is_no_portrait_none_is_made_up(
    client: httpx.AsyncClient, name: str
) -> None:
    response = await client.get(f"/api/v1/characters/{name}/portrait")

    assert response.status_code == 404
