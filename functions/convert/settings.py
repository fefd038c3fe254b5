"""What the conversion container needs to know."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from shared.settings import PushSettings, SigningSettings


class ConvertSettings(PushSettings, SigningSettings):
    """Settings of the conversion container.

    Attributes:
        port: where it listens.
        host: the address it listens at.
        concurrency: how many voices are converted at once.
        backlog: how many more may wait for that, before messages are sent away.
        min_seconds: the shortest recording that is converted.
        max_seconds: the longest.
        max_upload_bytes: the largest.
        result_url_seconds: how long the address of a result works.
        threads: how many threads one conversion's network uses.
        characters_dir: folder of the character bundles.
    """

    host: str = "0.0.0.0"  # noqa: S104 - a container is reached from outside
    port: Annotated[int, Field(ge=1, le=65535)] = 8080
    concurrency: Annotated[int, Field(ge=1, le=64)] = 2
    backlog: Annotated[int, Field(ge=0, le=1000)] = 8
    min_seconds: Annotated[float, Field(gt=0, le=60)] = 1.0
    max_seconds: Annotated[float, Field(gt=0, le=600)] = 10.0
    max_upload_bytes: Annotated[int, Field(ge=1000, le=256_000_000)] = 8_000_000
    result_url_seconds: Annotated[int, Field(ge=60, le=604_800)] = 86_400
    threads: Annotated[int, Field(ge=1, le=16)] = 1
    characters_dir: Path = Path(__file__).parent / "characters"
