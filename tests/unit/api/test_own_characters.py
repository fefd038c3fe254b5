from __future__ import annotations

import io
import json
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from functions.api.limits import RequestLimits
from functions.api.own_characters import (
    OwnCharacterAccess,
    OwnCharacterService,
    OwnCharacterServices,
)
from infra.local.cloud.memory import MemoryOwnCharacters
from shared.characters.bucket import CharacterBucket, new_character_id
from shared.characters.consent import draw_sentence
from shared.characters.own import own_character
from shared.characters.own import own_character as own
from shared.characters.own.own_character import OwnCharacterStatus
from shared.characters.own.recordings import (
    MAX_RECORDING_BYTES,
    MAX_RECORDINGS,
    Kind,
    card_prefix,
)
from shared.characters.own.store import DayLimits, UnknownOwnCharacterError, change_own
from tests.support.buckets import MemoryBucket
from tests.unit.api.stage import Stage, UidTokens, problem
from tests.unit.characters.character_objects import put_character

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

PATH = "/api/v1/own-characters"
WISH = {
    "name": "Ada's voice",
    "language": "en",
    "owner": "Ada Example",
    "contact": "ada@example.org",
    "is_my_own_voice": True,
    "no_public_figure_no_minor": True,
}


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2026, 11, 23, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


class Workshop:
    """What the making of characters speaks to, in memory."""

    def __init__(self, *, allows_public: bool = False) -> None:
        self.clock = Clock()
        self.store = MemoryOwnCharacters(self.clock)
        self.recordings = MemoryBucket("recordings")
        self.characters = MemoryBucket("characters")
        self.woken = 0
        services = OwnCharacterServices(
            self.store, self.recordings, lambda: self.characters, self.wake
        )
        self.making = OwnCharacterService(
            services,
            limits=DayLimits(by_all=3, by_owner=2),
            upload_lifetime=timedelta(minutes=10),
            now=self.clock,
            allows_public=allows_public,
        )
        self.access = OwnCharacterAccess(self.store, allows_public)

    def wake(self) -> None:
        self.woken += 1


@pytest.fixture
def workshop() -> Workshop:
    return Workshop()


@pytest_asyncio.fixture
async def client(tmp_path: Path, workshop: Workshop) -> AsyncIterator[httpx.AsyncClient]:
    bucket = CharacterBucket(lambda: workshop.characters)
    limits = RequestLimits(per_minute=0, waiting=0, trusted_proxies=1)
    stage = Stage(
        folder=tmp_path,
        making=workshop.making,
        bucket=bucket,
        limits=limits,
        own=workshop.access,
    )
    async with stage.client() as opened:
        yield opened


async def begin(
    client: httpx.AsyncClient, address: str = "203.0.113.1", **wish: Any
) -> tuple[str, dict[str, str]]:
    """Begin a character; return its address and the header of its owner."""
    headers = {"X-Forwarded-For": address}
    answer = await client.post(PATH, json=WISH | wish, headers=headers)
    assert answer.status_code == 201, answer.text
    body = answer.json()
    return f"{PATH}/{body['character_id']}", {"Own-Character-Key": body["key"]}


async def bring(
    client: httpx.AsyncClient, workshop: Workshop, path: str, key: dict[str, str], kind: str
) -> str:
    """Upload a recording as a page does; return its id."""
    answer = await client.post(f"{path}/recordings", json={"kind": kind}, headers=key)
    assert answer.status_code == 201, answer.text
    upload = answer.json()["upload"]
    name = upload["url"].split("/recordings/", 1)[1].split("?")[0]
    assert upload["max_bytes"] == MAX_RECORDING_BYTES
    await workshop.recordings.write(name, io.BytesIO(b"sound"), content_type="audio/webm")
    recording_id: str = answer.json()["recording_id"]
    return recording_id


async def test_without_the_operators_word_there_is_no_such_address(tmp_path: Path) -> None:
    async with Stage(folder=tmp_path).client() as client:
        problem(await client.post(PATH, json=WISH), 404, "not_found")


async def test_an_owner_begins_a_character_brings_recordings_and_asks_for_the_training(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    path, key = await begin(client)
    shown = (await client.get(path, headers=key)).json()
    assert shown["status"] == "collecting"
    assert shown["sentence"].startswith("Today is November 23, 2026. I agree")
    first = await bring(client, workshop, path, key, "speech")
    again = await bring(client, workshop, path, key, "speech")
    assert (await client.delete(f"{path}/recordings/{first}", headers=key)).status_code == 204
    consent = await bring(client, workshop, path, key, "consent")
    shown = (await client.get(path, headers=key)).json()
    assert {(each["kind"], each["recording_id"]) for each in shown["recordings"]} == {
        ("speech", again),
        ("consent", consent),
    }

    answer = await client.post(f"{path}/training", headers=key)

    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    assert workshop.woken == 1
    busy = await client.post(f"{path}/recordings", json={"kind": "speech"}, headers=key)
    problem(busy, 409, "own_character_busy")
    problem(
        await client.delete(f"{path}/recordings/{again}", headers=key), 409, "own_character_busy"
    )
    # Asking twice, as an impatient page does, begins one training.
    assert (await client.post(f"{path}/training", headers=key)).status_code == 202
    stored = (await workshop.store.read(path.rpartition("/")[2])).character
    assert stored.trainings == 1


@pytest.mark.parametrize("kinds", [["speech"], ["consent"], ["speech", "consent", "consent"]])
async def test_nothing_is_trained_without_recordings_and_one_spoken_consent(
    client: httpx.AsyncClient, workshop: Workshop, kinds: list[str]
) -> None:
    path, key = await begin(client)
    for kind in kinds:
        await bring(client, workshop, path, key, kind)
    problem(await client.post(f"{path}/training", headers=key), 409, "recordings_missing")
    assert workshop.woken == 0


async def test_who_has_not_the_key_is_told_the_same_as_for_a_character_that_is_not_there(
    client: httpx.AsyncClient,
) -> None:
    path, key = await begin(client)
    _, others = await begin(client)
    nowhere = f"{PATH}/{new_character_id()}"
    said = {
        problem(await client.request(method, f"{where}{rest}", headers=header, json=body), 404,
                "unknown_own_character")
        for method, rest, body in (
            ("GET", "", None),
            ("DELETE", "", None),
            ("POST", "/training", None),
            ("POST", "/recordings", {"kind": "speech"}),
            ("DELETE", f"/recordings/{'0' * 32}", None),
        )
        for where, header in ((path, {}), (path, others), (nowhere, key), (f"{PATH}/hina", key))
    }  # fmt: skip
    assert len(said) == 1
    assert (await client.get(path, headers=key)).status_code == 200


async def test_where_visitors_sign_in_only_they_make_characters_each_their_own(
    tmp_path: Path, workshop: Workshop
) -> None:
    stage = Stage(folder=tmp_path, making=workshop.making, verifier=UidTokens())
    async with stage.client() as client:
        problem(await client.post(PATH, json=WISH), 403, "sign_in_needed")
        mine = {"Authorization": "Bearer uid:me"}
        body = (await client.post(PATH, json=WISH, headers=mine)).json()
        path, key = f"{PATH}/{body['character_id']}", {"Own-Character-Key": body["key"]}
        other = {"Authorization": "Bearer uid:you"}
        for stranger in (other, {"Own-Character-Key": "another"} | other):
            problem(await client.get(path, headers=stranger), 404, "unknown_own_character")
        # Only who has the secret link is told that there is such a character, and nothing of it.
        for another in (key | other, key):
            for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/training")):
                answer = await client.request(method, path + rest, headers=another)
                problem(answer, 403, "own_character_of_another_account")
                assert str(WISH["name"]) not in answer.text
        # It is the visitor's, whatever became of the key.
        for owner in (mine, key | mine, {"Own-Character-Key": "another"} | mine):
            assert (await client.get(path, headers=owner)).status_code == 200
        assert (await client.delete(path, headers=mine)).status_code == 204


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "<img src=x onerror=alert(1)>"},
        {"name": "\u202egpj.exe"},
        {"name": " "},
        {"name": "a" * 41},
        {"name": "\u061cabc"},
        {"name": "a\u2060b"},
        {"name": "\u3164"},
        {"name": "\u2800\u00ad"},
        {"name": "Ada\U000e0041"},
        {"name": "e" + "\u0301" * 39},
        {"owner": "Ada\ufff9Example"},
        {"contact": "ada@example.org\u202emoc"},
        {"owner": "Ada\nExample"},
        {"contact": "javascript:alert(1)"},
        {"is_my_own_voice": False},
        {"no_public_figure_no_minor": False},
        {"language": "tlh"},
        {"another": 1},
    ],
)
async def test_markup_in_names_and_terms_that_are_not_agreed_to_are_refused(
    client: httpx.AsyncClient, wrong: dict[str, Any]
) -> None:
    problem(await client.post(PATH, json=WISH | wrong), 422, "invalid_request")


@pytest.mark.parametrize("name", ["メイの声", "か\u3099くや", "山田\u3000花子", "Nguyễn", "👩 Ada"])
async def test_names_of_people_are_taken(client: httpx.AsyncClient, name: str) -> None:
    path, key = await begin(client, name=name, owner=name)
    shown = (await client.get(path, headers=key)).json()["name"]
    assert shown == unicodedata.normalize("NFC", name)


async def test_as_many_characters_are_begun_in_a_day_as_the_operator_allows(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    for number in range(3):
        path, key = await begin(client, address=f"198.51.100.{number}")
    # Deleting one gives no new place: its training may have been paid for.
    assert (await client.delete(path, headers=key)).status_code == 204
    problem(await client.post(PATH, json=WISH), 429, "too_many_own_characters")
    workshop.clock.time += timedelta(days=1, seconds=1)
    await begin(client)


async def test_one_visitor_does_not_take_all_places_of_a_day(client: httpx.AsyncClient) -> None:
    for _ in range(2):
        await begin(client, address="198.51.100.1")
    again = await client.post(PATH, json=WISH, headers={"X-Forwarded-For": "198.51.100.1"})
    problem(again, 429, "too_many_own_characters_of_owner")
    await begin(client, address="198.51.100.2")


async def test_a_visitor_who_is_signed_in_has_the_number_of_a_day_wherever_they_are(
    tmp_path: Path, workshop: Workshop
) -> None:
    stage = Stage(folder=tmp_path, making=workshop.making, verifier=UidTokens())
    async with stage.client() as client:
        for number, code in enumerate([201, 201, 429]):
            headers = {
                "Authorization": "Bearer uid:me",
                "X-Forwarded-For": f"198.51.100.{number}",
            }
            assert (await client.post(PATH, json=WISH, headers=headers)).status_code == code


async def test_thousands_of_small_files_are_refused(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    path, key = await begin(client)
    character_id = path.rpartition("/")[2]
    for index in range(MAX_RECORDINGS):
        workshop.recordings.put(f"{character_id}/speech/{index:032x}", b"x")
    answer = await client.post(f"{path}/recordings", json={"kind": "speech"}, headers=key)
    problem(answer, 409, "too_many_recordings")
    # More addresses than recordings may have been signed before.
    for kind in Kind:
        workshop.recordings.put(f"{character_id}/{kind.value}/{'f' * 32}", b"x")
    problem(await client.post(f"{path}/training", headers=key), 409, "too_many_recordings")


async def test_a_deletion_leaves_nothing_of_a_character_and_the_others_as_they_are(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    path, key = await begin(client)
    other, others_key = await begin(client)
    for each, header in ((path, key), (other, others_key)):
        await bring(client, workshop, each, header, "speech")
        workshop.characters.put(f"{each.rpartition('/')[2]}/character.json", b"{}")
        workshop.characters.put(f"{each.rpartition('/')[2]}/{'0' * 64}.onnx", b"graph")

    assert (await client.delete(path, headers=key)).status_code == 204

    kept = other.rpartition("/")[2]
    names = [*workshop.recordings.objects, *workshop.characters.objects]
    assert len(names) == 3
    assert all(name.startswith(f"{kept}/") for name in names)
    with pytest.raises(UnknownOwnCharacterError):
        await workshop.store.read(path.rpartition("/")[2])
    problem(await client.delete(path, headers=key), 404, "unknown_own_character")


async def test_a_deletion_that_a_bucket_stopped_can_be_asked_for_again(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    path, key = await begin(client)
    await bring(client, workshop, path, key, "speech")
    workshop.recordings.is_out_of_reach = True
    problem(await client.delete(path, headers=key), 503, "unavailable")
    workshop.recordings.is_out_of_reach = False
    assert (await client.delete(path, headers=key)).status_code == 204
    assert not workshop.recordings.objects


async def test_a_failed_training_says_why_and_the_owner_may_ask_three_times(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    path, key = await begin(client)
    await bring(client, workshop, path, key, "speech")
    await bring(client, workshop, path, key, "consent")
    character_id = path.rpartition("/")[2]
    failure = own.TrainingFailure(own.TrainingErrorCode.ANOTHER_VOICE, "Two speak.", ("r1",))
    for _ in range(own.MAX_TRAININGS):
        assert (await client.post(f"{path}/training", headers=key)).status_code == 202
        await change_own(workshop.store, character_id, lambda each, now: own.lease(each, now, 60))
        await change_own(
            workshop.store,
            character_id,
            lambda each, now: own.fail(each, each.attempt, failure, now),
        )
    shown = (await client.get(path, headers=key)).json()
    assert shown["status"] == "failed"
    said = {"code": "another_voice", "message": "Two speak.", "recordings": ["r1"]}
    assert shown["error"] == said
    problem(await client.post(f"{path}/training", headers=key), 409, "own_character_busy")


async def a_ready_one(
    client: httpx.AsyncClient, workshop: Workshop, **wish: Any
) -> tuple[str, dict[str, str]]:
    """Begin a character, and let a trainer finish it; its address and the header of its owner."""
    path, key = await begin(client, **wish)
    for kind in ("speech", "consent"):
        await bring(client, workshop, path, key, kind)
    assert (await client.post(f"{path}/training", headers=key)).status_code == 202
    await train(workshop, path)
    put_character(workshop.characters, path.rpartition("/")[2])
    return path, key


async def train(workshop: Workshop, path: str) -> None:
    character_id = path.rpartition("/")[2]
    await change_own(workshop.store, character_id, lambda each, now: own.lease(each, now, 60))
    await change_own(
        workshop.store, character_id, lambda each, now: own.finish(each, each.attempt, now)
    )


async def statuses(
    client: httpx.AsyncClient, character_id: str, header: dict[str, str]
) -> tuple[int, int, bool]:
    """Speak with a character, look it up, and look for it in the list."""
    wish = {"character": character_id}
    spoken = await client.post("/api/v1/voices", json=wish, headers=header)
    shown = await client.get(f"/api/v1/characters/{character_id}", headers=header)
    for answer, status in ((spoken, 422), (shown, 404)):
        if answer.status_code >= 400:
            problem(answer, status, "unknown_character")
    listed = (await client.get("/api/v1/characters")).json()["characters"]
    is_listed = character_id in {each["id"] for each in listed}
    return spoken.status_code, shown.status_code, is_listed


async def test_a_private_character_is_its_owners_and_a_link_can_be_withdrawn(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    path, key = await a_ready_one(client, workshop)
    _, others = await begin(client)
    character_id = path.rpartition("/")[2]
    assert (await client.get(path, headers=key)).json()["visibility"] == "private"
    assert await statuses(client, character_id, {}) == (422, 404, False)
    assert await statuses(client, character_id, others) == (422, 404, False)
    assert await statuses(client, character_id, key) == (201, 200, False)

    shared = await client.patch(path, headers=key, json={"visibility": "link"})

    assert (shared.status_code, shared.json()["visibility"]) == (200, "link")
    assert await statuses(client, character_id, {}) == (201, 200, False)
    await client.patch(path, headers=key, json={"visibility": "private"})
    assert await statuses(client, character_id, {}) == (422, 404, False)


async def test_nobody_else_changes_a_character_and_nothing_is_shared_before_it_is_ready(
    client: httpx.AsyncClient,
) -> None:
    path, key = await begin(client)
    for header in ({}, {"Own-Character-Key": "wrong"}):
        answer = await client.patch(path, headers=header, json={"visibility": "link"})
        problem(answer, 404, "unknown_own_character")
        answer = await client.post(f"{path}/again", headers=header)
        problem(answer, 404, "unknown_own_character")
    answer = await client.patch(path, headers=key, json={"visibility": "link"})
    problem(answer, 409, "own_character_busy")
    answer = await client.patch(path, headers=key, json={"visibility": "public"})
    problem(answer, 403, "not_allowed_here")
    assert (await client.get(path, headers=key)).json()["allowed_visibilities"] == [
        "private",
        "link",
    ]
    for wrong in ({"visibility": "all"}, {"name": "<b>"}, {"owner": "Eve"}):
        problem(await client.patch(path, headers=key, json=wrong), 422, "invalid_request")


async def test_a_public_character_is_listed_by_the_name_that_its_owner_gives_it(
    tmp_path: Path,
) -> None:
    workshop = Workshop(allows_public=True)
    bucket = CharacterBucket(lambda: workshop.characters)
    stage = Stage(folder=tmp_path, making=workshop.making, bucket=bucket, own=workshop.access)
    async with stage.client() as client:
        path, key = await a_ready_one(client, workshop)
        character_id = path.rpartition("/")[2]
        wish = {"visibility": "public", "name": "Ada"}
        assert (await client.patch(path, headers=key, json=wish)).status_code == 200

        assert await statuses(client, character_id, {}) == (201, 200, True)

        listed = (await client.get("/api/v1/characters")).json()["characters"]
        names = {each["id"]: each["name"] for each in listed}
        assert names[character_id] == {"ja": "Ada", "en": "Ada"}
        assert list(names)[-1] == character_id
        await client.patch(path, headers=key, json={"visibility": "private"})
        wish = {"character": character_id}
        refused = await client.post("/api/v1/voices", json=wish)
        # The list of this instance is read again only after some seconds.
        problem(refused, 422, "unknown_character")


async def test_where_public_ones_are_not_allowed_any_more_none_is_listed(
    tmp_path: Path, workshop: Workshop
) -> None:
    bucket = CharacterBucket(lambda: workshop.characters)
    stage = Stage(folder=tmp_path, making=workshop.making, bucket=bucket, own=workshop.access)
    async with stage.client() as client:
        path, _ = await a_ready_one(client, workshop)
        character_id = path.rpartition("/")[2]
        await change_own(
            workshop.store,
            character_id,
            lambda each, now: own_character.share(each, own.Visibility.PUBLIC, now),
        )
        assert await statuses(client, character_id, {}) == (201, 200, False)


async def test_a_signed_in_owner_needs_no_secret(tmp_path: Path, workshop: Workshop) -> None:
    bucket = CharacterBucket(lambda: workshop.characters)
    stage = Stage(
        folder=tmp_path,
        making=workshop.making,
        bucket=bucket,
        own=workshop.access,
        verifier=UidTokens(),
    )
    mine, other = ({"Authorization": f"Bearer uid:{uid}"} for uid in ("me", "you"))
    async with stage.client() as client:
        body = (await client.post(PATH, json=WISH, headers=mine)).json()
        path, key = f"{PATH}/{body['character_id']}", {"Own-Character-Key": body["key"]}
        assert (await client.get(path, headers=mine)).status_code == 200
        problem(await client.get(path, headers=key), 403, "own_character_of_another_account")
        problem(
            await client.get(path, headers=key | other), 403, "own_character_of_another_account"
        )


async def test_who_has_signed_in_finds_all_own_characters_without_any_secret(
    tmp_path: Path, workshop: Workshop
) -> None:
    stage = Stage(folder=tmp_path, making=workshop.making, verifier=UidTokens())
    mine, other = ({"Authorization": f"Bearer uid:{uid}"} for uid in ("me", "you"))
    async with stage.client() as client:
        for name, who in (("First", mine), ("Theirs", other), ("Second", mine)):
            workshop.clock.time += timedelta(hours=1)
            body = (await client.post(PATH, json=WISH | {"name": name}, headers=who)).json()
        answer = await client.get(PATH, headers=mine)
        assert [each["name"] for each in answer.json()["characters"]] == ["Second", "First"]
        assert answer.json()["characters"][0] == {
            "character_id": body["character_id"],
            "name": "Second",
            "language": "en",
            "status": "collecting",
            "is_usable": False,
            "visibility": "private",
            "created_at": workshop.clock.time.isoformat().replace("+00:00", "Z"),
        }
        # The key that nobody else has is no sign-in.
        key = {"Own-Character-Key": body["key"]}
        problem(await client.get(PATH, headers=key), 403, "sign_in_needed")
        wrong = {"Authorization": "Bearer somebody"}
        problem(await client.get(PATH, headers=wrong), 401, "token_refused")


async def test_the_list_of_an_account_has_at_most_fifty(tmp_path: Path, workshop: Workshop) -> None:
    for hours in range(60):
        now = workshop.clock.time - timedelta(hours=hours)
        await workshop.store.create(
            own.begin(
                new_character_id(),
                name=f"{hours} hours ago",
                key="a secret",
                owner="me",
                consent=own.TypedConsent("Ada Example", "ada@example.org", "2026-11-23"),
                sentence=draw_sentence("ja", now.date()),
                now=now,
            ),
            limits=DayLimits(100, 100),
            by="me",
        )
    stage = Stage(folder=tmp_path, making=workshop.making, verifier=UidTokens())
    async with stage.client() as client:
        listed = (await client.get(PATH, headers={"Authorization": "Bearer uid:me"})).json()
    assert [each["name"] for each in listed["characters"]] == [
        f"{hours} hours ago" for hours in range(50)
    ]


async def test_without_a_sign_in_there_is_no_list(client: httpx.AsyncClient) -> None:
    _, key = await begin(client)
    problem(await client.get(PATH, headers=key), 403, "sign_in_needed")


async def test_recordings_that_were_kept_are_trained_again_with_more_of_them(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    path, key = await begin(client)
    await client.patch(path, headers=key, json={"keeps_recordings": True})
    for kind in ("speech", "consent"):
        await bring(client, workshop, path, key, kind)
    await client.post(f"{path}/training", headers=key)
    busy = await client.post(f"{path}/again", headers=key)
    problem(busy, 409, "own_character_busy")
    await train(workshop, path)
    put_character(workshop.characters, path.rpartition("/")[2])
    assert await workshop.store.find_to_clean(10) == []
    ready = (await client.get(path, headers=key)).json()
    assert (ready["can_train_again"], len(ready["recordings"])) == (True, 2)

    again = (await client.post(f"{path}/again", headers=key)).json()

    assert (again["status"], again["is_usable"]) == ("collecting", True)
    assert again["sentence"] != ready["sentence"]
    assert [each["kind"] for each in again["recordings"]] == ["speech"]
    assert again["expires_at"] is None
    assert await statuses(client, path.rpartition("/")[2], key) == (201, 200, False)
    missing = await client.post(f"{path}/training", headers=key)
    problem(missing, 409, "recordings_missing")
    await bring(client, workshop, path, key, "consent")
    await bring(client, workshop, path, key, "speech")
    assert (await client.post(f"{path}/training", headers=key)).status_code == 202
    await train(workshop, path)

    gone = await client.patch(path, headers=key, json={"keeps_recordings": False})

    assert (gone.json()["status"], gone.json()["can_train_again"]) == ("ready", False)
    found = [each.character.character_id for each in await workshop.store.find_to_clean(10)]
    assert found == [path.rpartition("/")[2]]


async def test_who_does_not_want_more_recordings_after_all_has_the_character_as_it_was(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    path, key = await begin(client)
    await client.patch(path, headers=key, json={"keeps_recordings": True})
    for kind in ("speech", "consent"):
        await bring(client, workshop, path, key, kind)
    await client.post(f"{path}/training", headers=key)
    await train(workshop, path)
    await client.post(f"{path}/again", headers=key)

    kept = await client.patch(path, headers=key, json={"keeps_recordings": False})

    assert kept.json()["status"] == "ready"
    assert len(await workshop.store.find_to_clean(10)) == 1


async def test_a_further_training_takes_a_place_of_the_day(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    path, key = await begin(client)
    await client.patch(path, headers=key, json={"keeps_recordings": True})
    for kind in ("speech", "consent"):
        await bring(client, workshop, path, key, kind)
    await client.post(f"{path}/training", headers=key)
    await train(workshop, path)
    for number in range(2):
        await begin(client, address=f"198.51.100.{number}")
    full = await client.post(f"{path}/again", headers=key)
    problem(full, 429, "too_many_own_characters")
    assert (await client.get(path, headers=key)).json()["status"] == "ready"


async def test_an_owner_reads_and_hears_the_card_and_nobody_else(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    path, key = await a_ready_one(client, workshop)
    problem(await client.get(f"{path}/card", headers=key), 404, "no_card")
    prefix = card_prefix(path.rpartition("/")[2])
    workshop.characters.put(f"{prefix}card.json", b"{}")
    problem(await client.get(f"{path}/card", headers=key), 404, "no_card")
    workshop.characters.objects.pop(f"{prefix}card.json")
    figures = {"converted": 0.87, "recorded": 0.97, "reachable": 0.92, "before": 0.5, "left": None}
    words = {"wrong": 3, "of": 51}
    said = {"seconds": 200.5, "likeness": figures, "likeness_of_others": figures, "words": words}
    workshop.characters.put(f"{prefix}card.json", json.dumps(said).encode())
    workshop.characters.put(f"{prefix}other-1-original.wav", b"as recorded")

    card = (await client.get(f"{path}/card", headers=key)).json()

    assert (card["words"], card["sounds"]) == (words, ["other-1-original"])
    # A card of before says nothing of it.
    assert card["unused"] == {}
    assert card["likeness"] == {"converted": 0.87, "recorded": 0.97, "reachable": 0.92}
    heard = await client.get(f"{path}/card/other-1-original", headers=key)
    assert (heard.content, heard.headers["content-type"]) == (b"as recorded", "audio/wav")
    missing = await client.get(f"{path}/card/own-1-original", headers=key)
    problem(missing, 404, "no_card")
    outside = await client.get(f"{path}/card/..%2Fcharacter", headers=key)
    assert outside.status_code in {404, 422}
    for rest in ("card", "card/other-1-original"):
        problem(await client.get(f"{path}/{rest}"), 404, "unknown_own_character")


async def test_without_recordings_that_were_kept_nothing_is_trained_again(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    path, key = await a_ready_one(client, workshop)
    problem(await client.post(f"{path}/again", headers=key), 409, "own_character_busy")


async def test_an_id_that_nobody_has_and_a_bundle_that_is_broken_are_no_character(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    wish = {"character": new_character_id()}
    problem(await client.post("/api/v1/voices", json=wish), 422, "unknown_character")
    path, key = await a_ready_one(client, workshop)
    wish = {"character": path.rpartition("/")[2]}
    workshop.characters.put(f"{wish['character']}/character.json", b"{}")
    answer = await client.post("/api/v1/voices", json=wish, headers=key)
    problem(answer, 422, "unknown_character")
    workshop.characters.objects.clear()
    answer = await client.post("/api/v1/voices", json=wish, headers=key)
    problem(answer, 422, "unknown_character")


def a_character(now: datetime) -> own.OwnCharacter:
    return own.begin(
        new_character_id(),
        name="Ada",
        key="a secret",
        owner=None,
        consent=own.TypedConsent("Ada Example", "ada@example.org", now.date().isoformat()),
        sentence=draw_sentence("en", now.date()),
        now=now,
    )


async def test_an_attempt_that_was_taken_over_writes_nothing_any_more(workshop: Workshop) -> None:
    now = workshop.clock()
    waiting = replace(a_character(now), status=OwnCharacterStatus.QUEUED)
    first = own.lease(waiting, now, 60)
    with pytest.raises(own.NotAllowedError):
        own.lease(first, now + timedelta(seconds=59), 60)
    second = own.lease(first, now + timedelta(seconds=60), 60)
    with pytest.raises(own.TakenOverError):
        own.finish(second, first.attempt, now)
    with pytest.raises(own.TakenOverError):
        own.report(second, first.attempt, "learning", 0.5, now=now, seconds=60)
    assert own.finish(second, second.attempt, now).status is OwnCharacterStatus.READY
    third = own.lease(second, now + timedelta(seconds=120), 60)
    assert (third.status, third.error and third.error.code.value) == (
        OwnCharacterStatus.FAILED,
        "attempts_exhausted",
    )
