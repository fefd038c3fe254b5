"""Faults of the bucket of characters, with a converter whose other collaborators are in memory."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import pytest

from infra.local.cloud.memory import MemoryVoices
from shared.characters.bucket import CharacterBucket
from shared.characters.manifest import MAX_BUNDLE_BYTES
from shared.container.admission import Admission
from shared.conversion.bucket_characters import BucketCharacters
from shared.conversion.characters import BuiltInCharacters, CharacterLoader
from shared.conversion.worker import Worker
from shared.speech.graphs.sessions import SessionSettings
from shared.voices.voice import ErrorCode, Options, create, new_voice_id
from tests.support.buckets import MemoryBucket
from tests.support.conversion import DEADLINE, MEI, FakeConversion
from tests.support.logs import log_book
from tests.support.messages import conversion_message
from tests.unit.graphs.bundles import write_waveform_bundle
from tests.unit.graphs.small_graphs import gain_graph

if TYPE_CHECKING:
    from pathlib import Path

    from shared.conversion.stages import Conversion
    from shared.voices.messages import PushMessage
    from shared.voices.voice import Voice

GRAPH = "tester/waveform.onnx"


class CharacterConverter:
    """A converter with the built-in character `mei`, and `tester` in the bucket."""

    def __init__(self, folder: Path) -> None:
        self.objects = MemoryBucket("characters")
        bundle = write_waveform_bundle(folder, gain_graph(0.5), sample_rate=24_000)
        for path in sorted(bundle.iterdir(), reverse=True):
            self.objects.put(f"tester/{path.name}", path.read_bytes())
        bucket = CharacterBucket(lambda: self.objects)
        self.voices, self.conversion = MemoryVoices(), FakeConversion()
        self.worker = Worker(
            self.voices,
            BucketCharacters(
                BuiltInCharacters({"mei": MEI}),
                bucket,
                CharacterLoader(bucket, SessionSettings(), MAX_BUNDLE_BYTES),
                memory_bytes=MAX_BUNDLE_BYTES,
                refresh_seconds=20.0,
            ),
            cast("Conversion", self.conversion),
            Admission(running=1, waiting=4),
            DEADLINE,
        )

    async def add(self, character: str) -> tuple[str, PushMessage]:
        voice = create(new_voice_id(), character, Options(), now=datetime.now(UTC))
        await self.voices.create(voice)
        return voice.voice_id, conversion_message(voice.voice_id)

    async def voice(self, voice_id: str) -> Voice:
        return (await self.voices.read(voice_id)).voice


@pytest.fixture
def stage(tmp_path: Path) -> CharacterConverter:
    return CharacterConverter(tmp_path)


async def test_a_graph_with_a_wrong_digest_fails_its_voices_at_once_and_is_named_in_the_log(
    stage: CharacterConverter,
) -> None:
    stored = stage.objects.objects[GRAPH].data
    stage.objects.put(GRAPH, stored[:-1] + bytes([stored[-1] ^ 1]))

    with log_book() as book:
        for _ in range(2):
            voice_id, message = await stage.add("tester")
            await stage.worker.handle(message)
            failed = await stage.voice(voice_id)
            assert failed.error is not None
            assert failed.error.code is ErrorCode.INTERNAL

    (entry,) = book.of("character_broken")
    assert "waveform.onnx: expected SHA-256" in entry["message"]
    assert stage.conversion.characters == []
