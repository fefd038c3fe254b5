"""The settings of the conversion container, and those that it shares with `live`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from functions.convert.planning import (
    RECYCLED_AFTER,
    Plan,
    memory_needs,
    plan,
    read_resources,
)
from shared.characters import MAX_BUNDLE_BYTES
from shared.settings import (
    CharacterSettings,
    PushSettings,
    RecordingSettings,
    SigningSettings,
)
from speech.audio.recording import DecodeLimits
from speech.engines.providers import Provider


def _planned_workers(settings: dict[str, Any]) -> int:
    return _plan(settings).workers


def _planned_concurrency(settings: dict[str, Any]) -> int:
    return _plan(settings, workers=settings.get("workers")).concurrency


def _plan(settings: dict[str, Any], workers: int | None = None) -> Plan:
    limits = DecodeLimits(
        max_seconds=settings["max_seconds"], max_bytes=settings["max_upload_bytes"]
    )
    has_bucket = settings["characters_bucket"] is not None
    fetched = settings["characters_memory_bytes"] if has_bucket else None
    return plan(read_resources(), memory_needs(limits, fetched), workers=workers)


def _planned_max_requests(settings: dict[str, Any]) -> int:
    return RECYCLED_AFTER if settings.get("workers", 1) > 1 else 0


class ConverterSettings(SigningSettings, RecordingSettings, CharacterSettings):
    """Settings of whatever converts recordings: the conversion container, and `live`.

    Attributes:
        port: the port that it listens on.
        host: the address that it listens on.
        workers: the most processes; the default follows from the container's CPUs and memory.
        concurrency: how many voices are converted at once by all processes together; likewise.
        backlog: how many more messages may wait; further ones are refused.
        threads: how many threads one conversion's network uses.
        timeout: after how many seconds without a heartbeat one of several processes is replaced; a
            new process must be able to convert within this time.
        graceful_timeout: how many seconds a process may take to stop; Cloud Run kills an instance
            ten seconds after SIGTERM.
        keepalive: how many seconds an idle connection is kept open.
        max_requests: after how many requests a process is replaced; 0 for never, which is the
            default for a single process.
        max_requests_jitter: up to how many requests are added to that at random, so that not all
            processes are replaced at once.
        max_speech_seconds: how long the speech of a text may be.
        provider: where the characters' networks run; `cuda` needs a GPU and the image with CUDA.
        result_url_seconds: how long the address of a result works.
        max_bundle_bytes: how many bytes the graphs of one character bundle may have together.
        characters_dir: folder of the character bundles that come with the image.
        characters_memory_bytes: how many bytes the graphs of the characters from the bucket may
            have together that one process keeps loaded.
    """

    # Before those whose defaults are planned from it.
    characters_memory_bytes: Annotated[int, Field(ge=1)] = 1 << 30
    host: str = "0.0.0.0"  # noqa: S104 - a container must be reachable from outside
    port: Annotated[int, Field(ge=1, le=65535)] = 8080
    workers: Annotated[int, Field(ge=1, le=32)] = Field(default_factory=_planned_workers)
    concurrency: Annotated[int, Field(ge=1, le=64)] = Field(default_factory=_planned_concurrency)
    backlog: Annotated[int, Field(ge=0, le=1000)] = 8
    threads: Annotated[int, Field(ge=1, le=16)] = 1
    provider: Provider = Provider.CPU
    timeout: Annotated[int, Field(ge=5, le=600)] = 30
    graceful_timeout: Annotated[int, Field(ge=1, le=600)] = 8
    keepalive: Annotated[float, Field(ge=1, le=3600)] = 75.0
    max_requests: Annotated[int, Field(ge=0, le=10_000_000)] = Field(
        default_factory=_planned_max_requests
    )
    max_requests_jitter: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default_factory=lambda settings: settings.get("max_requests", 0) // 10
    )
    max_speech_seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    result_url_seconds: Annotated[int, Field(ge=60, le=604_800)] = 86_400
    max_bundle_bytes: Annotated[int, Field(ge=1)] = MAX_BUNDLE_BYTES
    characters_dir: Path = Path(__file__).parents[2] / "characters"

    @property
    def decode_limits(self) -> DecodeLimits:
        """The limits of a recording."""
        return DecodeLimits(
            min_seconds=self.min_seconds,
            max_seconds=self.max_seconds,
            max_bytes=self.max_upload_bytes,
        )

    @property
    def is_alone(self) -> bool:
        """Whether there is only one process, which is never replaced."""
        return self.processes == 1 and self.max_requests == 0

    @property
    def processes(self) -> int:
        """How many processes there are: each of them must be able to run a conversion."""
        return min(self.workers, self.concurrency)

    def share(self, number: int) -> int:
        """Return one process's share of a number that is meant for all processes."""
        return math.ceil(number / self.processes)


class ConvertSettings(PushSettings, ConverterSettings):
    """Settings of the conversion container."""
