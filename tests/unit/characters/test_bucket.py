from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from shared.characters.bucket import (
    CharacterBucket,
    IncompleteCharacterError,
    NoSuchCharacterError,
    graph_name,
    manifest_name,
    shared_graph_name,
)
from shared.characters.manifest import ManifestError
from shared.voices.objects import StorageUnavailableError
from tests.support.buckets import MemoryBucket
from tests.support.logs import log_book
from tests.unit.characters.character_objects import GRAPH, put_character, put_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.characters.manifest import GraphFile


class BucketStage:
    def __init__(self) -> None:
        self.objects = MemoryBucket("characters")
        self.opened = 0
        self.characters = CharacterBucket(self._open)

    def _open(self) -> MemoryBucket:
        self.opened += 1
        return self.objects

    def put(self, name: str = "ada", graph: bytes = GRAPH, **changes: Any) -> GraphFile:
        return put_character(self.objects, name, graph, **changes)

    def put_manifest(self, name: str) -> GraphFile:
        return put_manifest(self.objects, name)


@pytest.fixture
def stage() -> BucketStage:
    return BucketStage()


async def test_the_complete_characters_are_listed_by_id(stage: BucketStage) -> None:
    stage.put("taro")
    stage.put("ada")

    listed = await stage.characters.list()

    assert list(listed) == ["ada", "taro"]
    assert listed["ada"].manifest.id == "ada"
    assert stage.opened == 1


@pytest.mark.parametrize(
    "place",
    [
        lambda graph: graph_name("ada", graph),
        shared_graph_name,
        lambda graph: f"ada/{graph.file}",
    ],
    ids=["the character's", "shared", "copied"],
)
async def test_a_graph_is_found_where_it_may_lie(
    stage: BucketStage, place: Callable[[GraphFile], str]
) -> None:
    stage.objects.put(place(stage.put_manifest("ada")), GRAPH)

    character = await stage.characters.read("ada")

    assert await stage.characters.read_graph(character, "harmonic") == GRAPH


@pytest.mark.parametrize("uploaded", [None, b"half of it"])
async def test_a_character_without_all_of_its_graphs_is_neither_listed_nor_read(
    stage: BucketStage, uploaded: bytes | None
) -> None:
    entry = stage.put_manifest("ada")
    stage.put("taro")
    if uploaded is not None:
        stage.objects.put(graph_name("ada", entry), uploaded)

    with log_book() as book:
        assert list(await stage.characters.list()) == ["taro"]
    assert [entry["character"] for entry in book.of("character_not_listed")] == ["ada"]
    with pytest.raises(IncompleteCharacterError, match="the manifest last"):
        await stage.characters.read("ada")


async def test_a_wrong_manifest_is_not_listed(stage: BucketStage) -> None:
    stage.put("ada", engine=7)

    assert await stage.characters.list() == {}
    with pytest.raises(ManifestError, match="'engine'"):
        await stage.characters.read("ada")


async def test_what_is_wrong_is_logged_once_and_again_when_something_else_is(
    stage: BucketStage,
) -> None:
    """The list is read every few seconds, and whoever fills the bucket could fill the log."""
    with log_book() as book:
        for number in range(30):
            stage.objects.put(manifest_name(f"a{number}"), b"{}")
        for _ in range(3):
            await stage.characters.list()
        assert len(book.of("character_not_listed")) == 30

        stage.put_manifest("a7")
        await stage.characters.list()
        await stage.characters.list()
        assert [each["character"] for each in book.of("character_not_listed")[30:]] == ["a7"]

        await stage.objects.delete(manifest_name("a7"))
        await stage.characters.list()
        stage.put_manifest("a7")
        await stage.characters.list()
        assert len(book.of("character_not_listed")) == 32


async def test_a_bucket_that_somebody_fills_is_read_to_a_limit(
    stage: BucketStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.characters.bucket.MOST_OBJECTS", 4)
    stage.put("ada")
    for number in range(100):
        stage.objects.put(f"b/{number}", b"")
    stage.put("eva")
    with log_book() as book:
        assert list(await stage.characters.list()) == ["ada"]
    assert len(book.of("character_not_listed")) == 1


async def test_a_manifest_under_another_name_is_not_listed(stage: BucketStage) -> None:
    stage.put("ada")
    stage.objects.put(manifest_name("taro"), stage.objects.objects[manifest_name("ada")].data)

    assert list(await stage.characters.list()) == ["ada"]


@pytest.mark.parametrize("name", ["nobody", "../ada", "encoders", "", "Ada", "a/b"])
async def test_a_character_that_there_is_not_is_not_found(stage: BucketStage, name: str) -> None:
    stage.put("ada")

    with pytest.raises(NoSuchCharacterError):
        await stage.characters.revision(name)


async def test_the_revision_changes_with_the_manifest(stage: BucketStage) -> None:
    stage.put("ada")
    before = await stage.characters.revision("ada")
    stage.put("ada", b"another network")

    assert await stage.characters.revision("ada") != before
    assert (await stage.characters.read("ada")).revision != before


async def test_a_graph_that_was_replaced_meanwhile_is_incomplete(stage: BucketStage) -> None:
    entry = stage.put("ada")
    character = await stage.characters.read("ada")
    stage.objects.put(graph_name("ada", entry), b"something")

    with pytest.raises(IncompleteCharacterError):
        await stage.characters.read_graph(character, "harmonic")


async def test_a_manifest_is_read_again_only_when_it_has_changed(stage: BucketStage) -> None:
    stage.put("ada")
    first = (await stage.characters.list())["ada"].manifest
    assert (await stage.characters.list())["ada"].manifest is first

    stage.put("ada", credit="Voice: somebody else")

    assert (await stage.characters.list())["ada"].manifest.credit == "Voice: somebody else"


async def test_what_a_list_has_read_that_was_given_up_is_not_read_again(
    stage: BucketStage,
) -> None:
    """Otherwise a bucket of very many characters would never be listed in time."""
    for name in ("ada", "eva", "ida", "taro"):
        stage.put(name)
    stage.objects.put("ida/character.json", b"{}")
    read, most = list[str](), 3
    really_read = stage.objects.read

    async def read_slowly(name: str, generation: int, *, max_bytes: int) -> bytes:
        if len(read) == most:
            await asyncio.Event().wait()
        read.append(name)
        return await really_read(name, generation, max_bytes=max_bytes)

    stage.objects.read = read_slowly  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await stage.characters.list()
    most = 4

    async with asyncio.timeout(5):
        assert list(await stage.characters.list()) == ["ada", "eva", "taro"]
    assert sorted(read) == [f"{name}/character.json" for name in ("ada", "eva", "ida", "taro")]


async def test_a_bucket_out_of_reach_is_not_an_empty_one(stage: BucketStage) -> None:
    stage.put("ada")
    stage.objects.is_out_of_reach = True

    with pytest.raises(StorageUnavailableError):
        await stage.characters.list()
    with pytest.raises(StorageUnavailableError):
        await stage.characters.revision("ada")
