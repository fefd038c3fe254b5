from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from shared.characters.bucket import new_character_id
from shared.voices.objects import ObjectExistsError
from shared.voices.store import UnknownVoiceError, UnreadableVoiceError
from shared.voices.voice import new_voice_id
from tests.support.logs import log_book, logged_as
from tests.support.voices import EVERY_STATE, a_done
from tests.unit.api.stage import MAX_CHARACTERS, WEBM, ApiStage, UidTokens, WatchedVoices, problem

if TYPE_CHECKING:
    from pathlib import Path

    from shared.voices.store import Snapshot


@pytest.mark.parametrize("state", EVERY_STATE)
async def test_everything_of_a_voice_is_erased_and_nothing_else(
    stage: ApiStage, state: str
) -> None:
    voice, other = EVERY_STATE[state](), a_done()
    for each in (voice, other):
        await stage.voices.create(each)
        stage.uploads.put(each.voice_id, b"recording")
        stage.results.put(f"{each.voice_id}/1.wav", b"result")
    stage.results.put(f"{voice.voice_id}/2.mp3", b"result")

    response = await stage.http.delete(f"/api/v1/voices/{voice.voice_id}")

    assert (response.status_code, response.content) == (204, b"")
    with pytest.raises(UnknownVoiceError):
        await stage.voices.read(voice.voice_id)
    emptied, kept = (stage.uploads.objects[each.voice_id].data for each in (voice, other))
    assert (emptied, kept) == (b"", b"recording")
    assert set(stage.results.objects) == {f"{other.voice_id}/1.wav"}
    # The signed address requires a name that was never used.
    with pytest.raises(ObjectExistsError):
        await stage.uploads.write(voice.voice_id, io.BytesIO(WEBM), content_type="audio/webm")
    problem(await stage.http.delete(f"/api/v1/voices/{voice.voice_id}"), 404, "unknown_voice")
    problem(await stage.http.delete("/api/v1/voices/x"), 422, "invalid_voice_id")


async def test_a_deletion_that_was_cut_off_is_completed_by_the_next(stage: ApiStage) -> None:
    voice_id = new_voice_id()
    stage.uploads.put(voice_id, b"recording")
    stage.results.put(f"{voice_id}/1.wav", b"result")

    problem(await stage.http.delete(f"/api/v1/voices/{voice_id}"), 404, "unknown_voice")

    emptied = stage.uploads.objects[voice_id]
    assert (emptied.data, stage.results.objects) == (b"", {})

    # Deleting once more changes nothing, and makes no object of an invented name.
    for each in (voice_id, new_voice_id()):
        problem(await stage.http.delete(f"/api/v1/voices/{each}"), 404, "unknown_voice")
    assert stage.uploads.objects == {voice_id: emptied}


async def test_a_voice_is_erased_from_its_document_on_so_that_no_worker_commits_meanwhile(
    stage: ApiStage,
) -> None:
    voice = await stage.add(a_done())
    stage.uploads.is_out_of_reach = stage.results.is_out_of_reach = True

    assert (await stage.http.delete(f"/api/v1/voices/{voice.voice_id}")).status_code == 503

    with pytest.raises(UnknownVoiceError):
        await stage.voices.read(voice.voice_id)


async def test_only_the_owner_erases_a_voice_that_has_one(stage: ApiStage) -> None:
    stage.verifier = UidTokens()
    voice = await stage.add(replace(a_done(), owner="me"))
    path = f"/api/v1/voices/{voice.voice_id}"

    problem(await stage.http.delete(path), 403, "not_owner")
    assert await stage.voice(voice.voice_id) == voice
    mine = await stage.http.delete(path, headers={"Authorization": "Bearer uid:me"})

    assert mine.status_code == 204


class Unreadable(WatchedVoices):
    """Holds documents that are no voices."""

    async def read(self, voice_id: str) -> Snapshot:
        await super().read(voice_id)
        raise UnreadableVoiceError(voice_id, KeyError("options"))


@pytest.mark.parametrize("verifier", [None, UidTokens()])
async def test_an_unreadable_voice_is_erased_unless_it_may_have_an_owner_and_takes_no_recording(
    tmp_path: Path, verifier: UidTokens | None
) -> None:
    stage = ApiStage(folder=tmp_path, voices=Unreadable(), verifier=verifier)
    voice = await stage.add(a_done())
    stage.uploads.put(voice.voice_id, b"recording")
    stage.results.put(f"{voice.voice_id}/1.wav", b"result")

    files = {"file": ("recording.webm", WEBM, "audio/webm")}
    form = {"voice_id": voice.voice_id}
    sent = await stage.http.put("/api/v1/voices", data=form, files=files)
    assert "create a new one" in problem(sent, 409, "unreadable_voice")
    with log_book() as book:
        response = await stage.http.delete(f"/api/v1/voices/{voice.voice_id}")

    if verifier is None:
        assert (response.status_code, stage.voices.count) == (204, 0)
        assert (stage.uploads.objects[voice.voice_id].data, stage.results.objects) == (b"", {})
    else:
        assert "by itself" in problem(response, 409, "unreadable_voice")
        assert logged_as(voice.voice_id) in book.of("unreadable_voice")[0]["message"]
        assert stage.uploads.objects[voice.voice_id].data == b"recording"


async def test_the_characters_are_listed_with_credit_licence_and_terms(stage: ApiStage) -> None:
    characters = (await stage.http.get("/api/v1/characters")).json()["characters"]

    assert [character["id"] for character in characters] == ["mei", "taro", "sango", "nobu", "kobo"]
    assert characters[0] == {
        "id": "mei",
        "name": {"ja": "メイ", "en": "Mei"},
        "description": {"ja": "明るい声", "en": "A bright voice"},
        "credit": "Voice: somebody",
        "credits": {"ja": "Voice: somebody", "en": "Voice: somebody"},
        "licence": {"name": "CC BY 4.0", "url": "https://licence.example/"},
        "terms_url": "https://terms.example/",
        "forbidden_uses": [],
        "colour": "#aabbcc",
        "portrait_url": "/api/v1/characters/mei/portrait",
        "face": None,
        "takes": "speech",
        "limits": {"min_seconds": 2.0, "max_seconds": 8.0},
        "text": None,
    }
    assert characters[1]["portrait_url"] is None
    style = {"id": 7, "name": "Calm", "speaker": None}
    assert (characters[2]["takes"], characters[2]["text"]["styles"]) == ("text", [style])
    limits = {"max_characters": MAX_CHARACTERS, "styles": [], "languages": ["ja", "en"]}
    assert (characters[3]["takes"], characters[3]["text"]) == ("both", limits)
    assert (await stage.http.get("/api/v1/characters/mei")).json() == characters[0]
    for name in ("nobody", new_character_id()):
        response = await stage.http.get(f"/api/v1/characters/{name}")
        problem(response, 404, "unknown_character")


async def test_without_kokoro_every_character_speaks_japanese_alone(stage: ApiStage) -> None:
    stage.languages = ("ja",)

    characters = (await stage.http.get("/api/v1/characters")).json()["characters"]

    languages = [each["text"]["languages"] for each in characters if each["text"]]
    assert languages == [["ja"]] * 2


async def test_a_portrait_is_served_so_that_it_runs_no_script_and_sends_no_form(
    stage: ApiStage, tmp_path: Path
) -> None:
    (tmp_path / "portrait.svg").write_text("<svg/>")

    response = await stage.http.get("/api/v1/characters/mei/portrait")

    assert (response.text, response.headers["content-type"]) == ("<svg/>", "image/svg+xml")
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; img-src data:;")
    # A form in it would be sent anywhere: `default-src` says nothing of forms.
    assert "; sandbox" in policy
    assert response.headers["cache-control"] == "max-age=300"
    for name in ("taro", "nobody", ".."):
        response = await stage.http.get(f"/api/v1/characters/{name}/portrait")
        assert response.status_code == 404
