"""The settings of whatever converts recordings."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from shared.container.process_plan import (
    ProcessPlan,
    memory_needs,
    plan,
    read_resources,
)
from shared.container.server import ServingSettings
from shared.conversion.provenance import CredentialSettings, NoticeSettings
from shared.runtime.settings import (
    CharacterSettings,
    RecordingSettings,
    SigningSettings,
)
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.results.watermark_engines import WatermarkSettings


def _planned_workers(settings: dict[str, Any]) -> int:
    return _plan(settings).workers


def _planned_concurrency(settings: dict[str, Any]) -> int:
    return _plan(settings, workers=settings.get("workers")).concurrency


def _plan(settings: dict[str, Any], workers: int | None = None) -> ProcessPlan:
    limits = DecodeLimits(
        max_seconds=settings["max_seconds"], max_bytes=settings["max_upload_bytes"]
    )
    has_bucket = settings["characters_bucket"] is not None
    # While a character is loaded, its file takes memory beside the network made of it.
    fetched = settings["characters_memory_bytes"] + settings["max_bundle_bytes"]
    needs = memory_needs(limits, fetched if has_bucket else None)
    return plan(read_resources(), needs, workers=workers)


class BucketCharacterSettings(CharacterSettings):
    """Settings of a process that fetches characters from the bucket.

    Attributes:
        characters_memory_bytes: how many bytes the graphs of the characters from the bucket may
            have together that one process keeps loaded.
    """

    characters_memory_bytes: Annotated[int, Field(ge=1)] = 1 << 30


# The fields of later bases come first: what is planned follows from those of recordings.
class ConverterSettings(
    ServingSettings,
    WatermarkSettings,
    CredentialSettings,
    NoticeSettings,
    SigningSettings,
    RecordingSettings,
    BucketCharacterSettings,
):
    """Settings of whatever converts recordings: the conversion container, and `live`.

    Attributes:
        workers: the most processes; the default follows from the container's CPUs and memory.
        concurrency: how many voices are converted at once by all processes together; likewise.
        max_speech_seconds: how long the speech of a text may be.
        result_url_seconds: how long the address of a result works.
    """

    workers: Annotated[int, Field(ge=1, le=32)] = Field(default_factory=_planned_workers)
    concurrency: Annotated[int, Field(ge=1, le=64)] = Field(default_factory=_planned_concurrency)
    max_speech_seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    result_url_seconds: Annotated[int, Field(ge=60, le=604_800)] = 86_400

    @property
    def decode_limits(self) -> DecodeLimits:
        """The limits of a recording."""
        return DecodeLimits(
            min_seconds=self.min_seconds,
            max_seconds=self.max_seconds,
            max_bytes=self.max_upload_bytes,
        )
