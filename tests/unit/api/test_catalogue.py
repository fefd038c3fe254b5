from __future__ import annotations

import asyncio
from typing import Any

import pytest

from functions.api.catalogue import UNKNOWN_OLD_SECONDS, Catalogue, VoiceSource
from functions.api.problems import Problem
from shared.characters.bucket import CharacterBucket, manifest_name
from shared.characters.manifest import MAX_PORTRAIT_BYTES
from shared.voices.objects import StorageUnavailableError
from tests.support.buckets import MemoryBucket
from tests.support.characters import a_manifest
from tests.support.logs import log_book
from tests.support.virtual_time import in_virtual_time
from tests.unit.api.stage import ApiStage
from tests.unit.characters.character_objects import put_character, put_manifest

REFRESH_SECONDS = 20.0


class CatalogueStage:
    """The built-in character `mei`, and a bucket."""

    def __init__(self, default: str | None = None) -> None:
        self.objects = MemoryBucket("characters")
        self.catalogue = Catalogue(
            {"mei": a_manifest("mei")},
            CharacterBucket(lambda: self.objects),
            REFRESH_SECONDS,
            default,
            now=lambda: asyncio.get_running_loop().time(),
        )

    async def listed(self) -> list[str]:
        return list(await self.catalogue.list())

    async def chosen(self, name: str | None) -> str:
        return (await self.catalogue.choose(name, VoiceSource.SPEECH))[0].id


@in_virtual_time
async def test_the_default_character_may_lie_in_the_bucket() -> None:
    stage = CatalogueStage(default="ada")
    assert await stage.chosen(None) == "mei"

    put_character(stage.objects, "ada")
    await asyncio.sleep(REFRESH_SECONDS)

    assert await stage.listed() == ["ada", "mei"]
    assert await stage.chosen(None) == "ada"
    assert stage.catalogue.to_load(None) == "ada"


@in_virtual_time
async def test_what_is_uploaded_or_removed_shows_after_a_while() -> None:
    stage = CatalogueStage()
    assert await stage.listed() == ["mei"]

    put_character(stage.objects, "ada")
    assert await stage.listed() == ["mei"]
    await asyncio.sleep(REFRESH_SECONDS)
    assert await stage.listed() == ["mei", "ada"]
    loaded = [stage.catalogue.to_load(name) for name in ("ada", "mei", "nobody", None)]
    assert loaded == ["ada", None, None, None]

    await stage.objects.delete(manifest_name("ada"))
    await asyncio.sleep(REFRESH_SECONDS)
    assert await stage.listed() == ["mei"]


@in_virtual_time
async def test_a_character_that_is_asked_for_by_name_is_found_soon_after_its_upload() -> None:
    stage = CatalogueStage()
    await stage.listed()
    put_character(stage.objects, "ada")

    await asyncio.sleep(UNKNOWN_OLD_SECONDS)

    assert await stage.chosen("ada") == "ada"


@in_virtual_time
async def test_neither_a_half_uploaded_character_nor_one_that_is_hidden_can_be_chosen() -> None:
    stage = CatalogueStage()
    put_manifest(stage.objects, "ada")
    put_character(stage.objects, "mei", credit="Voice: somebody else")

    with pytest.raises(Problem, match="no character 'ada'; choose one of mei"):
        await stage.chosen("ada")
    assert (await stage.catalogue.list())["mei"].credit == "Voice: somebody"


@in_virtual_time
async def test_a_voice_of_a_built_in_character_does_not_wait_for_the_bucket() -> None:
    stage = CatalogueStage()
    stage.objects.is_out_of_reach = True

    with log_book() as book:
        assert [await stage.chosen(name) for name in ("mei", None)] == ["mei", "mei"]

    assert book.of("characters_not_read") == []


@in_virtual_time
async def test_while_the_bucket_is_out_of_reach_characters_stay_and_none_is_unknown() -> None:
    stage = CatalogueStage()
    put_character(stage.objects, "ada")
    await stage.listed()
    stage.objects.is_out_of_reach = True
    await asyncio.sleep(REFRESH_SECONDS)

    with log_book() as book:
        assert await stage.listed() == ["mei", "ada"]
        assert await stage.chosen("ada") == "ada"
        assert len(book.of("characters_not_read")) == 1
        with pytest.raises(StorageUnavailableError):
            await stage.chosen("eve")

    stage.objects.is_out_of_reach = False
    await asyncio.sleep(UNKNOWN_OLD_SECONDS)
    with pytest.raises(Problem, match="no character 'eve'"):
        await stage.chosen("eve")


@in_virtual_time
async def test_a_portrait_comes_from_the_bucket() -> None:
    stage = CatalogueStage()
    preview = {"colour": "#336699", "portrait": "ada.svg"}
    put_character(stage.objects, "ada", preview=preview)
    assert await stage.catalogue.portrait("ada") is None

    stage.objects.put("ada/ada.svg", b"<svg/>")
    await asyncio.sleep(REFRESH_SECONDS)
    assert await stage.catalogue.portrait("ada") == b"<svg/>"

    stage.objects.put("ada/ada.svg", b"x" * 100_000)
    await asyncio.sleep(REFRESH_SECONDS)
    assert await stage.catalogue.portrait("ada") is None


@in_virtual_time
async def test_a_portrait_is_read_from_the_bucket_once_for_all_who_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = CatalogueStage()
    put_character(stage.objects, "ada", preview={"colour": "#336699", "portrait": "ada.svg"})
    stage.objects.put("ada/ada.svg", b"<svg/>")
    await stage.listed()
    reads, read = [], stage.objects.read

    async def counted(name: str, generation: int, *, max_bytes: int) -> bytes:
        reads.append((name, max_bytes))
        # The others ask while it is read.
        await asyncio.sleep(0.1)
        return await read(name, generation, max_bytes=max_bytes)

    monkeypatch.setattr(stage.objects, "read", counted)
    portraits = await asyncio.gather(*(stage.catalogue.portrait("ada") for _ in range(20)))

    assert portraits == [b"<svg/>"] * 20
    assert reads == [("ada/ada.svg", MAX_PORTRAIT_BYTES)]


@in_virtual_time
async def test_a_slow_portrait_holds_up_no_other_and_has_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = CatalogueStage()
    for name in ("ada", "eve"):
        preview = {"colour": "#336699", "portrait": f"{name}.svg"}
        put_character(stage.objects, name, preview=preview)
        stage.objects.put(f"{name}/{name}.svg", b"<svg/>")
    await stage.listed()
    read = stage.objects.read

    async def slow(name: str, generation: int, **options: Any) -> bytes:
        if name == "ada/ada.svg":
            await asyncio.Event().wait()
        return await read(name, generation, **options)

    monkeypatch.setattr(stage.objects, "read", slow)
    waiting = asyncio.create_task(stage.catalogue.portrait("ada"))
    await asyncio.sleep(0.1)
    async with asyncio.timeout(1.0):
        assert await stage.catalogue.portrait("eve") == b"<svg/>"

    with pytest.raises(StorageUnavailableError):
        async with asyncio.timeout(60.0):
            await waiting


async def test_a_voice_with_a_character_of_the_bucket_names_it_to_the_converter() -> None:
    objects = MemoryBucket("characters")
    put_character(objects, "ada")
    stage = ApiStage(bucket=CharacterBucket(lambda: objects))

    listed = (await stage.http.get("/api/v1/characters")).json()["characters"]
    created = await stage.http.post("/api/v1/voices", json={"character": "ada"})

    assert "ada" in [character["id"] for character in listed]
    assert (created.status_code, stage.container.characters) == (201, ["ada"])
