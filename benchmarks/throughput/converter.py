"""The converter without the cloud around it: every message finds its voice and its recording.

As `python -m benchmarks.throughput.converter` it serves as the container does, with the settings of
the environment; `app` is the same for other servers, which start it by ASGI's lifespan.
"""

from __future__ import annotations

import base64
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from conversion import composition
from conversion.starting import starting_tools
from functions.convert import main as convert
from functions.convert import process
from functions.convert.settings import ConvertSettings
from infra.local.memory.voices import MemoryVoices
from shared.process import logs, settings
from shared.voices.messages import ConversionMessage
from shared.voices.voice import Input, Options, create, new_voice_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conversion.serving.processes import Supervision
    from shared.ports.bucket import Bucket
    from shared.ports.store import Snapshot
    from shared.voices.voice import Voice

RECORDING_VARIABLE: Final = "BENCHMARK_RECORDING"
CONTENT_TYPE: Final = "audio/webm"
CHARACTER: Final = "mei"


def environment(recording: Path) -> dict[str, str]:
    """Build the converter's environment, but for its port and how many it converts at once."""
    return {
        RECORDING_VARIABLE: str(recording),
        "ENVIRONMENT": "local",
        "HOST": "127.0.0.1",
        "LOG_LEVEL": "ERROR",
        "PROJECT_ID": "nobodys-project",
        "PUSH_VERIFICATION": "off",
        "RESULTS_BUCKET": "results",
        "SIGNING_SERVICE_ACCOUNT": "nobody@example.com",
        "UPLOADS_BUCKET": "uploads",
    }


def envelope(recording_bytes: int) -> bytes:
    """Return a push about a voice that nobody has heard of."""
    upload = Input("uploads", "a-recording", 1, CONTENT_TYPE, recording_bytes)
    data = ConversionMessage(new_voice_id(), upload).encode()
    message = {"data": base64.b64encode(data).decode(), "messageId": "1", "attributes": {}}
    return json.dumps({"message": message, "subscription": "projects/p/subscriptions/s"}).encode()


class EveryVoice(MemoryVoices):
    """Knows every voice that is asked for, until it is done."""

    async def read(self, voice_id: str) -> Snapshot:
        """Read a voice, which waits if it is new."""
        if voice_id not in self._entries:
            options = Options(content_type=CONTENT_TYPE)
            await self.create(create(voice_id, CHARACTER, options, now=datetime.now(UTC)))
        return await super().read(voice_id)

    async def replace(self, snapshot: Snapshot, voice: Voice) -> Snapshot:
        """Write a voice, and forget it if nothing more happens to it."""
        written = await super().replace(snapshot, voice)
        if voice.status.is_final:
            await self.delete(voice.voice_id)
        return written


class Shelf:
    """Stands for both buckets: gives the recording, takes results, signs nothing."""

    name = "shelf"

    def __init__(self, recording: bytes) -> None:
        self._recording = recording

    async def read(self, *_name_and_generation: object, **_limits: object) -> bytes:
        """Return the recording."""
        return self._recording

    async def write(self, _name: str, content: BinaryIO, **_facts: object) -> None:
        """Take a result."""
        content.read()

    async def sign_download(self, _name: str, **_terms: object) -> tuple[str, datetime]:
        """Return an address where there is nothing."""
        return "https://storage.example.com", datetime.now(UTC)


def open_stores(variables: Mapping[str, str]) -> composition.Stores:
    """Return stores without a cloud."""
    shelf = cast("Bucket", Shelf(Path(variables[RECORDING_VARIABLE]).read_bytes()))
    return composition.Stores(voices=EveryVoice(), uploads=shelf, results=shelf)


async def serve(config: ConvertSettings, supervision: Supervision | None = None) -> None:
    """Serve as the container does."""
    async with starting_tools(config) as tools:
        await convert.serve(config, open_stores(os.environ), tools, supervision)


def main() -> None:
    """Serve with the settings of the environment."""
    config = settings.load(ConvertSettings)
    logs.configure(config.project_id, config.log_level, config.pseudonym_key)
    process.run(config, serve)


if __name__ == "__main__":
    main()
