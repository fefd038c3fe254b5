from __future__ import annotations

import asyncio
import io
import json
import logging
import unicodedata
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from functions.api.limits import RequestLimits
from functions.api.own_characters import (
    OwnCharacterAccess,
    OwnCharacterService,
    OwnCharacterServices,
    TrainerCall,
)
from infra.local.cloud.memory import MemoryOwnCharacters
from shared.characters.bucket import CharacterBucket, new_character_id
from shared.characters.own import own_character as own
from shared.characters.own.recordings import (
    MAX_RECORDING_BYTES,
    MAX_RECORDINGS,
    Kind,
    card_prefix,
)
from shared.characters.own.store import DayLimits, UnknownOwnCharacterError, change_own
from shared.google.trainer import TrainerUnavailableError
from tests.support.buckets import MemoryBucket
from tests.support.clock import Calendar
from tests.support.virtual_time import settle
from tests.unit.api.stage import ApiStage, UidTokens, WatchedVoices, problem
from tests.unit.characters.character_objects import put_character

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    import httpx

PATH = "/api/v1/own-characters"
NEW = {
    "name": "Ada's voice",
    "language": "en",
    "owner": "Ada Example",
    "contact": "ada@example.org",
    "is_my_own_voice": True,
    "no_public_figure_no_minor": True,
}
ME, YOU = ({"Authorization": f"Bearer uid:{uid}"} for uid in ("me", "you"))


class Workshop:
    def __init__(self, folder: Path, *, allows_public: bool = False) -> None:
        self.folder = folder
        self.clock = Calendar()
        self.store = MemoryOwnCharacters(self.clock)
        self.recordings = MemoryBucket("recordings")
        self.characters = MemoryBucket("characters")
        self.woken = 0
        self.service = OwnCharacterService(
            OwnCharacterServices(
                self.store, self.recordings, lambda: self.characters, self.wake_trainer
            ),
            limits=DayLimits(by_all=3, by_owner=2),
            upload_lifetime=timedelta(minutes=10),
            now=self.clock,
            allows_public=allows_public,
        )
        self.access = OwnCharacterAccess(self.store, allows_public)
        self.voices = WatchedVoices()

    def wake_trainer(self) -> None:
        self.woken += 1

    def client(self, verifier: UidTokens | None = None) -> httpx.AsyncClient:
        stage = ApiStage(
            folder=self.folder,
            own_characters=self.service,
            bucket=CharacterBucket(lambda: self.characters),
            limits=RequestLimits(per_minute=0, waiting=0, trusted_proxies=1),
            own=self.access,
            verifier=verifier,
            voices=self.voices,
        )
        return stage.http

    async def change(
        self, character_id: str, *transitions: Callable[[own.OwnCharacter, datetime], Any]
    ) -> None:
        for transition in transitions:
            await change_own(self.store, character_id, transition)


@dataclass
class Owner:
    client: httpx.AsyncClient
    workshop: Workshop
    id: str
    key: dict[str, str]

    @property
    def path(self) -> str:
        return f"{PATH}/{self.id}"

    async def send(
        self, method: str, rest: str = "", json: Any = None, headers: Any = None
    ) -> httpx.Response:
        headers = self.key if headers is None else headers
        return await self.client.request(method, self.path + rest, json=json, headers=headers)

    async def shown(self) -> dict[str, Any]:
        facts: dict[str, Any] = (await self.send("GET")).json()
        return facts

    async def patch(self, **changes: Any) -> httpx.Response:
        return await self.send("PATCH", json=changes)

    async def bring(self, *kinds: str) -> str:
        """Upload recordings as a page does; return the last one's id."""
        for kind in kinds:
            answer = await self.send("POST", "/recordings", {"kind": kind})
            assert answer.status_code == 201, answer.text
            upload = answer.json()["upload"]
            name = upload["url"].split("/recordings/", 1)[1].split("?")[0]
            assert upload["max_bytes"] == MAX_RECORDING_BYTES
            await self.workshop.recordings.write(
                name, io.BytesIO(b"sound"), content_type="audio/webm"
            )
        recording_id: str = answer.json()["recording_id"]
        return recording_id

    async def train(self) -> httpx.Response:
        return await self.send("POST", "/training")

    async def be_trained(self) -> Owner:
        """Bring recordings, ask for the training, and let a trainer finish it."""
        await self.bring("speech", "consent")
        assert (await self.train()).status_code == 202
        await self.workshop.change(self.id, lease, finish)
        put_character(self.workshop.characters, self.id)
        return self

    async def statuses(self, headers: dict[str, str]) -> tuple[int, int, bool]:
        """Speak with the character, look it up, and look for it in the list."""
        body = {"character": self.id}
        spoken = await self.client.post("/api/v1/voices", json=body, headers=headers)
        shown = await self.client.get(f"/api/v1/characters/{self.id}", headers=headers)
        for answer, status in ((spoken, 422), (shown, 404)):
            if answer.status_code >= 400:
                problem(answer, status, "unknown_character")
        listed = (await self.client.get("/api/v1/characters")).json()["characters"]
        is_listed = self.id in {each["id"] for each in listed}
        return spoken.status_code, shown.status_code, is_listed


def lease(character: own.OwnCharacter, now: datetime) -> own.OwnCharacter:
    return own.lease(character, now, 60)


def finish(character: own.OwnCharacter, now: datetime) -> own.OwnCharacter:
    return own.finish(character, character.attempt, now)


async def begin(
    client: httpx.AsyncClient,
    workshop: Workshop,
    address: str = "203.0.113.1",
    headers: dict[str, str] | None = None,
    **changes: Any,
) -> Owner:
    headers = {"X-Forwarded-For": address} | (headers or {})
    answer = await client.post(PATH, json=NEW | changes, headers=headers)
    assert answer.status_code == 201, answer.text
    body = answer.json()
    return Owner(client, workshop, body["character_id"], {"Own-Character-Key": body["key"]})


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


@pytest.fixture
def client(workshop: Workshop) -> httpx.AsyncClient:
    return workshop.client()


@pytest.fixture
def signed_in(workshop: Workshop) -> httpx.AsyncClient:
    return workshop.client(UidTokens())


@pytest_asyncio.fixture
async def owner(client: httpx.AsyncClient, workshop: Workshop) -> Owner:
    return await begin(client, workshop)


@pytest_asyncio.fixture
async def ready(owner: Owner) -> Owner:
    return await owner.be_trained()


@pytest_asyncio.fixture
async def reusable(owner: Owner) -> Owner:
    """A ready character whose recordings are kept."""
    await owner.patch(keeps_recordings=True)
    return await owner.be_trained()


async def test_without_the_operators_word_there_is_no_such_address() -> None:
    problem(await ApiStage().http.post(PATH, json=NEW), 404, "not_found")


async def test_an_owner_begins_a_character_brings_recordings_and_asks_for_the_training(
    owner: Owner, workshop: Workshop
) -> None:
    shown = await owner.shown()
    assert shown["status"] == "collecting"
    assert shown["sentence"].startswith("Today is November 23, 2026. I agree")
    first, again = await owner.bring("speech"), await owner.bring("speech")
    assert (await owner.send("DELETE", f"/recordings/{first}")).status_code == 204
    consent = await owner.bring("consent")
    recordings = (await owner.shown())["recordings"]
    assert {(each["kind"], each["recording_id"]) for each in recordings} == {
        ("speech", again),
        ("consent", consent),
    }

    answer = await owner.train()

    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    assert workshop.woken == 1
    for busy in (
        await owner.send("POST", "/recordings", {"kind": "speech"}),
        await owner.send("DELETE", f"/recordings/{again}"),
    ):
        problem(busy, 409, "own_character_busy")
    # Asking twice, as an impatient page does, begins one training.
    assert (await owner.train()).status_code == 202
    assert (await workshop.store.read(owner.id)).character.trainings == 1


@pytest.mark.parametrize("kinds", [["speech"], ["consent"], ["speech", "consent", "consent"]])
async def test_nothing_is_trained_without_recordings_and_one_spoken_consent(
    owner: Owner, workshop: Workshop, kinds: list[str]
) -> None:
    await owner.bring(*kinds)
    problem(await owner.train(), 409, "recordings_missing")
    assert workshop.woken == 0


async def test_who_has_not_the_key_is_told_the_same_as_for_a_character_that_is_not_there(
    owner: Owner,
) -> None:
    other = await begin(owner.client, owner.workshop)
    nowhere, built_in = replace(owner, id=new_character_id()), replace(owner, id="hina")
    details = {
        problem(await where.send(method, rest, body, headers=header), 404, "unknown_own_character")
        for method, rest, body in (
            ("GET", "", None),
            ("DELETE", "", None),
            ("POST", "/training", None),
            ("POST", "/recordings", {"kind": "speech"}),
            ("DELETE", f"/recordings/{'0' * 32}", None),
            ("PATCH", "", {"visibility": "link"}),
            ("POST", "/again", None),
        )
        for where, header in (
            (owner, {}),
            (owner, other.key),
            (nowhere, owner.key),
            (built_in, owner.key),
        )
    }
    assert len(details) == 1
    assert (await owner.send("GET")).status_code == 200


async def test_where_visitors_sign_in_only_they_make_characters_each_their_own(
    signed_in: httpx.AsyncClient, workshop: Workshop
) -> None:
    problem(await signed_in.post(PATH, json=NEW), 403, "sign_in_needed")
    owner = await begin(signed_in, workshop, headers=ME)
    for stranger in (YOU, {"Own-Character-Key": "another"} | YOU):
        problem(await owner.send("GET", headers=stranger), 404, "unknown_own_character")
    # Only the holder of the secret link learns that there is such a character, and nothing of it.
    for another in (owner.key | YOU, owner.key):
        for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/training")):
            answer = await owner.send(method, rest, headers=another)
            problem(answer, 403, "own_character_of_another_account")
            assert str(NEW["name"]) not in answer.text
    # It is the visitor's, with or without the key.
    for header in (ME, owner.key | ME, {"Own-Character-Key": "another"} | ME):
        assert (await owner.send("GET", headers=header)).status_code == 200
    assert (await owner.send("DELETE", headers=ME)).status_code == 204


@pytest.mark.parametrize(
    "wrong",
    [
        *({"name": name} for name in ("<img src=x onerror=alert(1)>", "\u202egpj.exe", " ")),
        *({"name": name} for name in ("a" * 41, "\u061cabc", "\u3164", "e" + "\u0301" * 39)),
        {"owner": "Ada\ufff9Example"},
        {"owner": "Ada\nExample"},
        {"contact": "ada@example.org\u202emoc"},
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
    problem(await client.post(PATH, json=NEW | wrong), 422, "invalid_request")


@pytest.mark.parametrize("name", ["か\u3099くや", "山田\u3000花子", "Nguyễn", "👩 Ada"])
async def test_names_of_people_are_taken(
    client: httpx.AsyncClient, workshop: Workshop, name: str
) -> None:
    owner = await begin(client, workshop, name=name, owner=name)
    assert (await owner.shown())["name"] == unicodedata.normalize("NFC", name)


async def test_neither_one_visitor_nor_all_take_more_places_of_a_day_than_the_operator_allows(
    client: httpx.AsyncClient, workshop: Workshop
) -> None:
    async def refused(code: str, **headers: str) -> None:
        problem(await client.post(PATH, json=NEW, headers=headers), 429, code)

    owners = [await begin(client, workshop, "198.51.100.1") for _ in range(2)]
    await refused("too_many_own_characters_of_owner", **{"X-Forwarded-For": "198.51.100.1"})
    await begin(client, workshop, "198.51.100.2")
    # Deleting one gives no new place: its training may have been paid for.
    assert (await owners[-1].send("DELETE")).status_code == 204
    await refused("too_many_own_characters")

    workshop.clock.advance(timedelta(days=1, seconds=1))
    signed_in = workshop.client(UidTokens())
    for number, status in enumerate([201, 201, 429]):
        # Known by their sign-in wherever they are.
        headers = ME | {"X-Forwarded-For": f"198.51.100.{number}"}
        assert (await signed_in.post(PATH, json=NEW, headers=headers)).status_code == status


async def test_thousands_of_small_files_are_refused(owner: Owner, workshop: Workshop) -> None:
    for index in range(MAX_RECORDINGS):
        workshop.recordings.put(f"{owner.id}/speech/{index:032x}", b"x")
    answer = await owner.send("POST", "/recordings", {"kind": "speech"})
    problem(answer, 409, "too_many_recordings")
    # More addresses than recordings may have been signed before.
    for kind in Kind:
        workshop.recordings.put(f"{owner.id}/{kind.value}/{'f' * 32}", b"x")
    problem(await owner.train(), 409, "too_many_recordings")


async def test_a_deletion_even_after_one_that_a_bucket_stopped_leaves_nothing_but_the_others(
    owner: Owner, workshop: Workshop
) -> None:
    other = await begin(owner.client, workshop)
    for each in (owner, other):
        await each.bring("speech")
        workshop.characters.put(f"{each.id}/character.json", b"{}")
        workshop.characters.put(f"{each.id}/{'0' * 64}.onnx", b"graph")

    workshop.recordings.is_out_of_reach = True
    problem(await owner.send("DELETE"), 503, "unavailable")
    workshop.recordings.is_out_of_reach = False
    assert (await owner.send("DELETE")).status_code == 204

    names = [*workshop.recordings.objects, *workshop.characters.objects]
    assert len(names) == 3
    assert all(name.startswith(f"{other.id}/") for name in names)
    with pytest.raises(UnknownOwnCharacterError):
        await workshop.store.read(owner.id)
    problem(await owner.send("DELETE"), 404, "unknown_own_character")


async def test_a_failed_training_says_why_and_the_owner_may_ask_three_times(
    owner: Owner, workshop: Workshop
) -> None:
    await owner.bring("speech", "consent")
    failure = own.TrainingFailure(own.TrainingErrorCode.ANOTHER_VOICE, "Two speak.", ("r1",))
    for _ in range(own.MAX_TRAININGS):
        assert (await owner.train()).status_code == 202
        await workshop.change(
            owner.id, lease, lambda each, now: own.fail(each, each.attempt, failure, now)
        )
    shown = await owner.shown()
    assert shown["status"] == "failed"
    error = {"code": "another_voice", "message": "Two speak.", "recordings": ["r1"]}
    assert shown["error"] == error
    problem(await owner.train(), 409, "own_character_busy")


async def test_a_private_character_is_its_owners_and_a_link_can_be_withdrawn(ready: Owner) -> None:
    other = await begin(ready.client, ready.workshop)
    assert (await ready.shown())["visibility"] == "private"
    assert await ready.statuses({}) == (422, 404, False)
    assert await ready.statuses(other.key) == (422, 404, False)
    assert await ready.statuses(ready.key) == (201, 200, False)

    shared = await ready.patch(visibility="link")

    assert (shared.status_code, shared.json()["visibility"]) == (200, "link")
    assert await ready.statuses({}) == (201, 200, False)
    await ready.patch(visibility="private")
    assert await ready.statuses({}) == (422, 404, False)


@pytest.mark.parametrize("source", [{}, {"text": "はい。"}])
async def test_a_voice_says_whether_its_character_is_its_visitors_own(
    ready: Owner, source: dict[str, str]
) -> None:
    await ready.patch(visibility="link")
    body = {"character": ready.id} | source
    for headers, is_owner in ((ready.key, True), ({}, False)):
        made = await ready.client.post("/api/v1/voices", json=body, headers=headers)
        voice = (await ready.workshop.voices.read(made.json()["voice_id"])).voice
        assert voice.owns_character is is_owner


async def test_nothing_is_shared_before_it_is_ready_or_where_it_is_not_allowed(
    owner: Owner,
) -> None:
    problem(await owner.patch(visibility="link"), 409, "own_character_busy")
    problem(await owner.patch(visibility="public"), 403, "not_allowed_here")
    assert (await owner.shown())["allowed_visibilities"] == ["private", "link"]
    for wrong in ({"visibility": "all"}, {"name": "<b>"}, {"owner": "Eve"}):
        problem(await owner.patch(**wrong), 422, "invalid_request")


async def test_a_public_character_is_listed_by_the_name_that_its_owner_gives_it(
    tmp_path: Path,
) -> None:
    workshop = Workshop(tmp_path, allows_public=True)
    client = workshop.client()
    ready = await (await begin(client, workshop)).be_trained()
    assert (await ready.patch(visibility="public", name="Ada")).status_code == 200

    assert await ready.statuses({}) == (201, 200, True)

    listed = (await client.get("/api/v1/characters")).json()["characters"]
    names = {each["id"]: each["name"] for each in listed}
    assert names[ready.id] == {"ja": "Ada", "en": "Ada"}
    assert list(names)[-1] == ready.id
    await ready.patch(visibility="private")
    refused = await client.post("/api/v1/voices", json={"character": ready.id})
    # The list of this instance is read again only after some seconds.
    problem(refused, 422, "unknown_character")


async def test_where_public_ones_are_not_allowed_any_more_none_is_listed(
    ready: Owner, workshop: Workshop
) -> None:
    await workshop.change(ready.id, lambda each, now: own.share(each, own.Visibility.PUBLIC, now))
    assert await ready.statuses({}) == (201, 200, False)


async def test_who_has_signed_in_finds_all_own_characters_without_any_secret(
    signed_in: httpx.AsyncClient, workshop: Workshop
) -> None:
    for name, who in (("First", ME), ("Theirs", YOU), ("Second", ME)):
        workshop.clock.advance(timedelta(hours=1))
        owner = await begin(signed_in, workshop, headers=who, name=name)
    listed = (await signed_in.get(PATH, headers=ME)).json()["characters"]
    assert [each["name"] for each in listed] == ["Second", "First"]
    assert listed[0] == {
        "character_id": owner.id,
        "name": "Second",
        "language": "en",
        "status": "collecting",
        "is_usable": False,
        "visibility": "private",
        "created_at": workshop.clock.time.isoformat().replace("+00:00", "Z"),
    }
    # The key that nobody else has is no sign-in, whether visitors may sign in or not.
    for asked in (signed_in, workshop.client()):
        problem(await asked.get(PATH, headers=owner.key), 403, "sign_in_needed")
    wrong = {"Authorization": "Bearer somebody"}
    problem(await signed_in.get(PATH, headers=wrong), 401, "token_refused")


async def test_recordings_that_were_kept_are_trained_again_with_more_of_them(
    owner: Owner, workshop: Workshop
) -> None:
    await owner.patch(keeps_recordings=True)
    await owner.bring("speech", "consent")
    await owner.train()
    problem(await owner.send("POST", "/again"), 409, "own_character_busy")
    await workshop.change(owner.id, lease, finish)
    put_character(workshop.characters, owner.id)
    assert await workshop.store.find_to_clean(10) == []
    ready = await owner.shown()
    assert (ready["can_train_again"], len(ready["recordings"])) == (True, 2)

    again = (await owner.send("POST", "/again")).json()

    assert (again["status"], again["is_usable"]) == ("collecting", True)
    assert again["sentence"] != ready["sentence"]
    assert [each["kind"] for each in again["recordings"]] == ["speech"]
    assert again["expires_at"] is None
    assert await owner.statuses(owner.key) == (201, 200, False)
    problem(await owner.train(), 409, "recordings_missing")
    await owner.bring("consent", "speech")
    assert (await owner.train()).status_code == 202
    await workshop.change(owner.id, lease, finish)

    gone = (await owner.patch(keeps_recordings=False)).json()

    assert (gone["status"], gone["can_train_again"]) == ("ready", False)
    found = [each.character.character_id for each in await workshop.store.find_to_clean(10)]
    assert found == [owner.id]


async def test_a_further_training_takes_a_place_of_the_day_and_can_be_given_up(
    reusable: Owner, workshop: Workshop
) -> None:
    await reusable.send("POST", "/again")
    # Who does not want more recordings after all has the character as it was.
    assert (await reusable.patch(keeps_recordings=False)).json()["status"] == "ready"
    assert len(await workshop.store.find_to_clean(10)) == 1
    problem(await reusable.send("POST", "/again"), 409, "own_character_busy")

    await reusable.patch(keeps_recordings=True)
    await begin(reusable.client, workshop, "198.51.100.1")
    problem(await reusable.send("POST", "/again"), 429, "too_many_own_characters")
    assert (await reusable.shown())["status"] == "ready"


async def test_an_owner_reads_and_hears_the_card_and_nobody_else(
    ready: Owner, workshop: Workshop
) -> None:
    problem(await ready.send("GET", "/card"), 404, "no_card")
    prefix = card_prefix(ready.id)
    workshop.characters.put(f"{prefix}card.json", b"{}")
    problem(await ready.send("GET", "/card"), 404, "no_card")
    workshop.characters.objects.pop(f"{prefix}card.json")
    figures = {"converted": 0.87, "recorded": 0.97, "reachable": 0.92, "before": 0.5, "left": None}
    words = {"wrong": 3, "of": 51}
    facts = {"seconds": 200.5, "likeness": figures, "likeness_of_others": figures, "words": words}
    workshop.characters.put(f"{prefix}card.json", json.dumps(facts).encode())
    workshop.characters.put(f"{prefix}other-1-original.wav", b"as recorded")

    card = (await ready.send("GET", "/card")).json()

    assert (card["words"], card["sounds"]) == (words, ["other-1-original"])
    # An older card does not have it.
    assert card["unused"] == {}
    assert card["likeness"] == {"converted": 0.87, "recorded": 0.97, "reachable": 0.92}
    heard = await ready.send("GET", "/card/other-1-original")
    assert (heard.content, heard.headers["content-type"]) == (b"as recorded", "audio/wav")
    problem(await ready.send("GET", "/card/own-1-original"), 404, "no_card")
    assert (await ready.send("GET", "/card/..%2Fcharacter")).status_code in {404, 422}
    for rest in ("/card", "/card/other-1-original"):
        problem(await ready.send("GET", rest, headers={}), 404, "unknown_own_character")


async def test_nobody_waits_for_the_trainer_whose_failure_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    called, may_answer = asyncio.Event(), asyncio.Event()

    async def start() -> None:
        called.set()
        await may_answer.wait()
        raise TrainerUnavailableError("the trainer was not started: refused")

    caplog.set_level(logging.WARNING)
    TrainerCall(start)()
    async with asyncio.timeout(5):
        await called.wait()
    may_answer.set()
    await settle()

    assert "the trainer was not started: refused" in caplog.text
