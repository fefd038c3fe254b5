"""A character of a visitor's own voice, from the first sentence to its deletion.

The training command is stood in for by a program that takes and says the same and copies a bundle;
`nox -s tests_training` tests the training.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import httpx

from infra.local.cloud.start import local_cloud
from infra.local.configuration.options import CloudOptions, OwnCharacterOptions
from tests.unit.train.stage import BUNDLE, PROGRAM, speech

if TYPE_CHECKING:
    from pathlib import Path

TERMS = {
    "name": "Ada's voice",
    "language": "ja",
    "owner": "Ada Example",
    "contact": "ada@example.org",
    "is_my_own_voice": True,
    "no_public_figure_no_minor": True,
}


async def test_a_visitor_makes_a_character_hears_it_and_deletes_it(
    tmp_path: Path, *, embedded: bool
) -> None:
    command = (sys.executable, str(PROGRAM), "train", str(BUNDLE))
    making = OwnCharacterOptions(1, command, allows_public=True)
    options = CloudOptions(tmp_path, own_characters=making)
    async with (
        local_cloud(options, embedded=embedded, note=print) as cloud,
        httpx.AsyncClient(base_url=cloud.addresses.api, timeout=60) as client,
    ):
        created = (await client.post("/api/v1/own-characters", json=TERMS)).json()
        character_id = created["character_id"]
        path, key = f"/api/v1/own-characters/{character_id}", {"Own-Character-Key": created["key"]}
        assert "今日は" in created["sentence"]
        for kind in ("speech", "speech", "consent"):
            wish = {"kind": kind, "content_type": "audio/wav"}
            answer = await client.post(f"{path}/recordings", json=wish, headers=key)
            upload = answer.json()["upload"]
            sent = await client.request(
                upload["method"], upload["url"], headers=upload["headers"], content=speech(5)
            )
            assert sent.status_code == 200, sent.text
        assert (await client.post(f"{path}/training", headers=key)).status_code == 202

        async with asyncio.timeout(60):
            while (shown := (await client.get(path, headers=key)).json())["status"] != "ready":
                assert shown["status"] in {"queued", "training"}, shown
                await asyncio.sleep(0.1)

        async with asyncio.timeout(10):
            while (await client.get(path, headers=key)).json()["recordings"]:  # noqa: ASYNC110 - no document to listen to
                await asyncio.sleep(0.1)
        wish = {"character": character_id, "content_type": "audio/wav"}
        stranger = await client.post("/api/v1/voices", json=wish)
        assert stranger.json()["code"] == "unknown_character"
        voice = (await client.post("/api/v1/voices", json=wish, headers=key)).json()
        upload = voice["upload"]
        await client.put(upload["url"], headers=upload["headers"], content=speech(2))
        done = await client.get(f"/api/v1/conversion/{voice['voice_id']}")
        assert done.status_code == 200, done.text
        assert done.json()["result"]["seconds"] > 1
        listed = (await client.get("/api/v1/characters")).json()["characters"]
        assert character_id not in {each["id"] for each in listed}
        shown = await client.patch(path, json={"visibility": "public", "name": "Ada"}, headers=key)
        assert shown.status_code == 200, shown.text
        async with asyncio.timeout(30):
            while True:
                listed = (await client.get("/api/v1/characters")).json()["characters"]
                if {"ja": "Ada", "en": "Ada"} in [each["name"] for each in listed]:
                    break
                await asyncio.sleep(0.5)
        voice = (await client.post("/api/v1/voices", json=wish)).json()
        await client.patch(path, json={"visibility": "private"}, headers=key)
        upload = voice["upload"]
        await client.put(upload["url"], headers=upload["headers"], content=speech(2))
        withdrawn = await client.get(f"/api/v1/conversion/{voice['voice_id']}")
        assert withdrawn.json()["code"] == "unknown_character", withdrawn.text

        assert (await client.delete(path, headers=key)).status_code == 204

        refused = await client.post("/api/v1/voices", json=wish, headers=key)
        assert (refused.status_code, refused.json()["code"]) == (422, "unknown_character")
        assert (await client.get(path, headers=key)).status_code == 404
