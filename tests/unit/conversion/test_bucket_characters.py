from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from shared.characters.bucket import NoSuchCharacterError, PublishedCharacter
from shared.characters.bundle_files import BundleError
from shared.characters.manifest import GraphFile, ManifestError
from shared.conversion.bucket_characters import (
    BROKEN_SECONDS,
    MEMORY_WAIT_SECONDS,
    BucketCharacters,
    CacheFullError,
)
from shared.conversion.characters import BuiltInCharacters, LoadedCharacter
from shared.voices.objects import StorageUnavailableError
from shared.voices.voice import ErrorCode, VoiceError
from tests.support.characters import a_manifest
from tests.support.clock import loop_seconds
from tests.support.conversion import MEI
from tests.support.logs import log_book
from tests.support.virtual_time import in_virtual_time, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.characters.bucket import CharacterBucket
    from shared.conversion.characters import CharacterLoader
    from shared.speech.engines.interface import Engine

MEMORY_BYTES = 100
REFRESH_SECONDS = 20.0


class FakeBucket:
    def __init__(self) -> None:
        self.characters: dict[str, tuple[int, dict[str, int]]] = {}
        self.error: Exception | None = None
        self.asked = 0

    def put(self, name: str, revision: int = 1, **graphs: int) -> None:
        self.characters[name] = (revision, graphs or {name: 40})

    async def revision(self, character_id: str) -> int:
        self.asked += 1
        if self.error is not None:
            raise self.error
        if character_id not in self.characters:
            raise NoSuchCharacterError(character_id)
        return self.characters[character_id][0]

    async def read(self, character_id: str) -> PublishedCharacter:
        revision = await self.revision(character_id)
        entries = {
            role: GraphFile(file=f"{role}.onnx", sha256=f"{ord(role[0]):064x}", bytes=size)
            for role, size in self.characters[character_id][1].items()
        }
        manifest = a_manifest(character_id, Path(character_id)).model_copy(
            update={"graphs": entries}
        )
        return PublishedCharacter(manifest, revision, {})


class FakeLoader:
    """Takes its time and fails as the test says."""

    def __init__(self) -> None:
        self.loaded: list[tuple[str, int]] = []
        self.seconds = 0.0
        self.error: Exception | None = None
        self.at_once = 0

    def hold_shared(self, character: PublishedCharacter) -> object:
        return character

    async def load(self, character: PublishedCharacter) -> LoadedCharacter:
        self.loaded.append((character.manifest.id, character.revision))
        self.at_once += 1
        assert self.at_once == 1
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_once -= 1
        if self.error is not None:
            raise self.error
        return LoadedCharacter(character.manifest, cast("Engine", character.revision))


class LenderStage:
    def __init__(self, *names: str) -> None:
        self.bucket, self.loader = FakeBucket(), FakeLoader()
        for name in names:
            self.bucket.put(name)
        self.characters = BucketCharacters(
            BuiltInCharacters({"mei": MEI}),
            cast("CharacterBucket", self.bucket),
            cast("CharacterLoader", self.loader),
            memory_bytes=MEMORY_BYTES,
            refresh_seconds=REFRESH_SECONDS,
            now=loop_seconds,
        )

    async def use(self, name: str) -> Any:
        """Borrow a character for a moment, and return its revision."""
        async with self.characters.lend(name) as character:
            return character.engine

    @asynccontextmanager
    async def borrow(self, name: str) -> AsyncIterator[Any]:
        async with self.characters.lend(name) as character:
            yield character.engine

    @property
    def loads(self) -> list[str]:
        return [name for name, _ in self.loader.loaded]


@pytest.fixture
def stage() -> LenderStage:
    return LenderStage("ada")


@in_virtual_time
async def test_a_built_in_character_is_lent_without_asking_the_bucket() -> None:
    stage = LenderStage("mei")
    stage.bucket.error = StorageUnavailableError("down")

    async with stage.characters.lend("mei") as character:
        assert character is MEI

    assert stage.bucket.asked == 0


@in_virtual_time
async def test_a_load_goes_on_when_the_voice_that_began_it_is_given_up(stage: LenderStage) -> None:
    stage.loader.seconds = 5.0
    first = asyncio.create_task(stage.use("ada"))
    await settle()
    first.cancel()

    await stage.use("ada")

    assert stage.loads == ["ada"]


@in_virtual_time
async def test_the_characters_used_longest_ago_make_room() -> None:
    stage = LenderStage("ada", "bob", "cid")

    for name in ("ada", "bob", "ada", "cid", "ada", "bob"):
        await stage.use(name)

    assert stage.loads == ["ada", "bob", "cid", "bob"]


@in_virtual_time
async def test_an_encoder_that_characters_share_takes_room_once() -> None:
    stage = LenderStage()
    for name in ("ada", "bob", "cid"):
        stage.bucket.put(name, shared=70, **{name: 10})

    for _ in range(2):
        for name in ("ada", "bob", "cid"):
            await stage.use(name)

    assert stage.loads == ["ada", "bob", "cid"]


@in_virtual_time
async def test_a_character_in_use_is_not_dropped_and_another_waits_until_it_is_returned() -> None:
    stage = LenderStage("ada", "bob")
    stage.bucket.put("cid", cid=60)

    async with stage.borrow("ada"), stage.borrow("bob"):
        waiting = asyncio.create_task(stage.use("cid"))
        await settle()
        assert stage.loads == ["ada", "bob"]
    await waiting

    assert stage.loads == ["ada", "bob", "cid"]


@in_virtual_time
async def test_a_character_for_which_there_is_no_room_in_time_may_be_asked_for_again() -> None:
    stage = LenderStage("ada", "bob")
    stage.bucket.put("cid", cid=60)

    async with stage.borrow("ada"), stage.borrow("bob"):
        begin = loop_seconds()
        with pytest.raises(CacheFullError):
            await stage.use("cid")
        assert loop_seconds() - begin == pytest.approx(MEMORY_WAIT_SECONDS)
    await stage.use("cid")


@in_virtual_time
async def test_a_character_that_never_fits_is_broken() -> None:
    stage = LenderStage()
    stage.bucket.put("ada", ada=MEMORY_BYTES + 1)

    with log_book() as book, pytest.raises(VoiceError) as caught:
        await stage.use("ada")

    assert caught.value.code is ErrorCode.INTERNAL
    (entry,) = book.of("character_broken")
    assert "CHARACTERS_MEMORY_BYTES" in entry["message"]


@in_virtual_time
async def test_voices_finish_with_what_they_began_with_and_later_ones_use_the_new(
    stage: LenderStage,
) -> None:
    async with stage.borrow("ada") as before:
        stage.bucket.put("ada", revision=2)
        assert await stage.use("ada") == 1

        await asyncio.sleep(REFRESH_SECONDS)
        assert await stage.use("ada") == 2
        assert before == 1

    assert stage.loader.loaded == [("ada", 1), ("ada", 2)]


@in_virtual_time
async def test_a_replaced_character_takes_room_until_it_is_returned() -> None:
    stage = LenderStage()
    stage.bucket.put("ada", ada=60)
    async with stage.borrow("ada"):
        stage.bucket.put("ada", revision=2, bda=60)
        await asyncio.sleep(REFRESH_SECONDS)
        waiting = asyncio.create_task(stage.use("ada"))
        await settle()
        assert stage.loads == ["ada"]

    assert await waiting == 2


@in_virtual_time
async def test_a_removed_character_is_unknown_after_a_while(stage: LenderStage) -> None:
    async with stage.borrow("ada"):
        del stage.bucket.characters["ada"]
        await asyncio.sleep(REFRESH_SECONDS)

        with pytest.raises(VoiceError) as caught:
            await stage.use("ada")

    assert caught.value.code is ErrorCode.UNKNOWN_CHARACTER


@in_virtual_time
async def test_a_loaded_character_is_used_while_the_bucket_is_out_of_reach(
    stage: LenderStage,
) -> None:
    await stage.use("ada")
    stage.bucket.error = StorageUnavailableError("down")
    await asyncio.sleep(REFRESH_SECONDS)
    asked = stage.bucket.asked

    with log_book() as book:
        await stage.use("ada")
        await stage.use("ada")

    assert stage.bucket.asked == asked + 1
    assert len(book.of("character_not_checked")) == 1


@in_virtual_time
async def test_a_character_that_cannot_be_fetched_now_is_fetched_later(stage: LenderStage) -> None:
    stage.loader.error = StorageUnavailableError("down")
    with pytest.raises(StorageUnavailableError):
        await stage.use("ada")

    stage.loader.error = None

    assert await stage.use("ada") == 1


@pytest.mark.parametrize(
    "error", [BundleError("voice.onnx: expected SHA-256 a, found b."), ManifestError("wrong")]
)
@in_virtual_time
async def test_a_broken_character_is_logged_and_not_loaded_again_at_once(
    stage: LenderStage,
    error: Exception,
) -> None:
    stage.loader.error = error
    with log_book() as book:
        for _ in range(3):
            with pytest.raises(VoiceError) as caught:
                await stage.use("ada")
            assert caught.value.code is ErrorCode.INTERNAL
    assert len(book.of("character_broken")) == len(stage.loads) == 1

    stage.loader.error = None
    await asyncio.sleep(BROKEN_SECONDS)
    assert await stage.use("ada") == 1


@in_virtual_time
async def test_a_broken_character_works_as_soon_as_it_is_replaced(stage: LenderStage) -> None:
    stage.loader.error = BundleError("broken")
    with pytest.raises(VoiceError):
        await stage.use("ada")

    stage.loader.error = None
    stage.bucket.put("ada", revision=2)

    assert await stage.use("ada") == 2
