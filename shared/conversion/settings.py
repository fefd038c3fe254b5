"""Settings of the conversion container and of `live`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from shared.container.process_plan import (
    ProcessPlan,
    ServingSettings,
    memory_needs,
    plan,
    read_resources,
)
from shared.conversion.provenance import CredentialSettings, NoticeSettings
from shared.runtime.settings import (
    CharacterSettings,
    RecordingSettings,
    SigningSettings,
    Switch,
)
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.engines.kokoro_packages import KokoroPackages
from shared.speech.results.watermark_engines import WatermarkSettings


def _plan(settings: dict[str, Any], workers: int | None = None) -> ProcessPlan:
    limits = DecodeLimits(
        max_seconds=settings["max_seconds"], max_bytes=settings["max_upload_bytes"]
    )
    has_bucket = settings["characters_bucket"] is not None
    # While a character is loaded, its file takes memory beside the network made of it.
    fetched = settings["characters_memory_bytes"] + settings["max_bundle_bytes"]
    is_on = settings["kokoro"] is Switch.ON
    has_kokoro = is_on and KokoroPackages(settings["kokoro_dir"]).is_complete()
    needs = memory_needs(limits, fetched if has_bucket else None, has_kokoro=has_kokoro)
    return plan(read_resources(), needs, workers=workers)


class BucketCharacterSettings(CharacterSettings):
    """Settings of a process that fetches characters from the bucket.

    Attributes:
        characters_memory_bytes: the most bytes of the graphs of all characters from the bucket that
            one process keeps loaded.
    """

    characters_memory_bytes: Annotated[int, Field(ge=1)] = 1 << 30


# The fields of later bases come first: the plan follows from those of recordings.
class ConverterSettings(
    ServingSettings,
    WatermarkSettings,
    CredentialSettings,
    NoticeSettings,
    SigningSettings,
    RecordingSettings,
    BucketCharacterSettings,
):
    """Settings of a process that converts recordings.

    Attributes:
        workers: the most processes; the default follows from the container's CPUs and memory.
        concurrency: voices that all processes together convert at once; likewise.
        max_speech_seconds: the longest speech of a text.
        result_url_seconds: the time for which the address of a result works.
    """

    workers: Annotated[int, Field(ge=1, le=32)] = Field(
        default_factory=lambda settings: _plan(settings).workers
    )
    concurrency: Annotated[int, Field(ge=1, le=64)] = Field(
        default_factory=lambda settings: _plan(settings, settings.get("workers")).concurrency
    )
    max_speech_seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    result_url_seconds: Annotated[int, Field(ge=60, le=604_800)] = 86_400

    @property
    def decode_limits(self) -> DecodeLimits:
        return DecodeLimits(
            min_seconds=self.min_seconds,
            max_seconds=self.max_seconds,
            max_bytes=self.max_upload_bytes,
        )
