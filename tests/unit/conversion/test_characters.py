from __future__ import annotations

import asyncio
import gc
import json
from typing import TYPE_CHECKING

import pytest

from shared.characters.bucket import CharacterBucket
from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MAX_BUNDLE_BYTES
from shared.conversion.characters import (
    BuiltInCharacters,
    CharacterLoader,
    LoadedCharacter,
)
from shared.speech.graphs.sessions import SessionSettings
from shared.voices.voice import ErrorCode, VoiceError
from tests.support.buckets import MemoryBucket
from tests.support.conversion import MEI
from tests.unit.engines.rvc_voices import write_voice

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_character_that_there_is_not_is_named() -> None:
    with pytest.raises(VoiceError, match="'nobody'") as caught:
        async with BuiltInCharacters({"mei": MEI}).lend("nobody"):
            pass

    assert caught.value.code is ErrorCode.UNKNOWN_CHARACTER


class CountingBucket(MemoryBucket):
    """Records the objects that are read."""

    def __init__(self) -> None:
        super().__init__("characters")
        self.reads: list[str] = []

    async def read(self, name: str, generation: int, *, max_bytes: int) -> bytes:
        self.reads.append(name)
        return await super().read(name, generation, max_bytes=max_bytes)


class LoaderStage:
    """A bucket with two RVC voices that have the same networks."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BUNDLE_BYTES) -> None:
        self.objects = CountingBucket()
        self.bucket = CharacterBucket(lambda: self.objects)
        self.loader = CharacterLoader(self.bucket, SessionSettings(), max_bytes)
        bundle = write_voice(folder)
        for name in ("ada", "bob"):
            for path in bundle.iterdir():
                self.objects.put(f"{name}/{path.name}", path.read_bytes())
            said = json.loads((bundle / "character.json").read_text())
            self.objects.put(f"{name}/character.json", json.dumps(said | {"id": name}).encode())

    async def load(self, name: str) -> LoadedCharacter:
        return await self.loader.load(await self.bucket.read(name))

    @property
    def graphs_read(self) -> list[str]:
        return sorted(name for name in self.objects.reads if name.endswith(".onnx"))


@pytest.fixture
def stage(tmp_path: Path) -> LoaderStage:
    return LoaderStage(tmp_path)


async def test_a_character_is_loaded_from_the_bucket(stage: LoaderStage) -> None:
    loaded = await stage.load("ada")

    assert loaded.manifest.id == "ada"
    assert loaded.engine.sample_rate == loaded.manifest.sample_rate


async def test_networks_that_run_already_are_not_read_again(stage: LoaderStage) -> None:
    first = await stage.load("ada")
    read = stage.graphs_read
    second = await stage.load("bob")
    assert stage.graphs_read == read

    bob = await stage.bucket.read("bob")
    held = stage.loader.hold_shared(bob)
    del first, second
    gc.collect()
    assert (await stage.load("bob")).manifest.id == "bob"
    assert stage.graphs_read == read

    del held
    async with asyncio.timeout(30):
        # A thread that has loaded drops its result a moment later.
        while stage.loader.hold_shared(bob):
            gc.collect()
            await asyncio.sleep(0.01)
    await stage.load("bob")

    assert len(stage.graphs_read) == 2 * len(read)


async def test_a_graph_with_another_digest_is_refused(stage: LoaderStage) -> None:
    stored = stage.objects.objects["ada/synthesizer.onnx"].data
    stage.objects.put("ada/synthesizer.onnx", stored[:-1] + bytes([stored[-1] ^ 1]))

    with pytest.raises(BundleError, match=r"synthesizer\.onnx: expected SHA-256"):
        await stage.load("ada")


async def test_a_character_that_is_too_large_is_not_even_read(tmp_path: Path) -> None:
    stage = LoaderStage(tmp_path, max_bytes=100)

    with pytest.raises(BundleError, match="at most 100 bytes"):
        await stage.load("ada")

    assert stage.graphs_read == []


async def test_a_graph_with_two_roles_is_read_once(tmp_path: Path) -> None:
    stage = LoaderStage(tmp_path)
    said = json.loads(stage.objects.objects["ada/character.json"].data)
    graphs = said["graphs"]
    graphs["pitch"] = graphs["content"]
    stage.objects.put("ada/character.json", json.dumps(said).encode())

    with pytest.raises(BundleError, match="expected a pitch model"):
        await stage.load("ada")

    assert stage.graphs_read == ["ada/content.onnx", "ada/synthesizer.onnx"]
