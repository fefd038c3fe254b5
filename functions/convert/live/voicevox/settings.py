"""The settings of the VOICEVOX service where it runs by itself."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003 - pydantic reads it
from typing import Annotated

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from functions.convert.serving import ServingSettings
from shared.settings import CommaSeparated  # noqa: TC001 - likewise

Key = Annotated[SecretStr, Field(min_length=16)]

_CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class VoicevoxSettings(ServingSettings):
    """Settings of the VOICEVOX service; those of ServingSettings, and these.

    Attributes:
        port: VOICEVOX's own.
        workers: how many processes speak; by default one for each CPU.
        concurrency: how many texts all processes together speak at once; by default as many.
        log_level: the least severity that is logged.
        allowed_origins: the web sites whose pages may call the service, `*` for all.
        voicevox_key: the key that requests must carry; None if everybody may call the service.
        data_dir: where presets and the user dictionary are kept; None keeps them until the end.
        weights_dir: where several processes keep the networks that they share; a folder of this
            run if None.
        slots_dir: where several processes agree about who speaks; a folder of this run if None.
    """

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    port: Annotated[int, Field(ge=1, le=65535)] = 50_021
    workers: Annotated[int, Field(ge=1, le=32)] = min(_CPUS, 32)
    concurrency: Annotated[int, Field(ge=1, le=64)] = Field(
        default_factory=lambda settings: settings.get("workers", 1)
    )
    log_level: Annotated[str, Field(pattern="^(DEBUG|INFO|WARNING|ERROR)$")] = "INFO"
    allowed_origins: CommaSeparated = ()
    voicevox_key: Key | None = None
    data_dir: Path | None = None
    weights_dir: Path | None = None
    slots_dir: Path | None = None
