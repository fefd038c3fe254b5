"""The settings of the APIs that other clients speak."""

from __future__ import annotations

import secrets
from pathlib import Path  # noqa: TC003 - pydantic reads it
from typing import Annotated, Any

from pydantic import Field, SecretStr, model_validator

from shared.container.process_plan import ServingSettings, read_resources
from shared.runtime import logs
from shared.runtime.settings import CommaSeparated, EnvironmentSettings, SecretKeys
from shared.speech.results.watermark_engines import WatermarkSettings

Key = Annotated[SecretStr, Field(min_length=16)]

_MOST_WORKERS = 32


class DialectSettings(EnvironmentSettings):
    """The settings of the APIs that other clients speak, wherever they run.

    Attributes:
        voicevox_key: the key that requests of all dialects must carry; None if everybody may call
            the service.
        api_keys: further keys, each NAME=KEY with 32 characters or more, separated by commas; the
            use of each is counted.
        key_characters_per_day: the most characters that each key may have spoken in a day, in this
            service or instance; None for no limit.
        key_seconds_per_day: the most seconds of recordings that each key may have converted,
            likewise.
        max_speech_seconds: the longest speech of one request.
        allowed_origins: the web sites whose pages may call the service, `*` for all.
        voicevox_speakers: further numbers of characters, each NUMBER=CHARACTER, separated by
            commas: bots know the numbers of another engine.
        openai_voices: further names of characters for clients of OpenAI, each NAME=CHARACTER,
            separated by commas; OpenAI's own names are the first character otherwise.
        wyoming_port: the port of Wyoming for Home Assistant; None, as usual, for none.
    """

    voicevox_key: Key | None = None
    api_keys: SecretKeys = ()
    key_characters_per_day: Annotated[int, Field(ge=1)] | None = None
    key_seconds_per_day: Annotated[float, Field(gt=0)] | None = None
    max_speech_seconds: Annotated[float, Field(gt=0, le=3600)] = 300.0
    allowed_origins: CommaSeparated = ()
    voicevox_speakers: CommaSeparated = ()
    openai_voices: CommaSeparated = ()
    wyoming_port: Annotated[int, Field(ge=1, le=65535)] | None = None


class CompatSettings(ServingSettings, WatermarkSettings, DialectSettings):
    """Settings of compat; those of its bases, and these.

    Attributes:
        host: every address if there is a key, this machine's own alone if not.
        port: VOICEVOX's own.
        workers: the number of processes; by default one for each CPU.
        concurrency: the texts that all processes together speak at once; by default as many.
        log_level: the least severity that is logged.
        allowed_hosts: the names under which requests without a key may come, beside addresses and
            `localhost`; `*` for all.
        wyoming_host: the address of the port for Wyoming. Its protocol knows no key: everybody who
            reaches it may let the characters speak.
        backlog: the texts that wait in each process.
        data_dir: the folder of presets and of the user dictionary; None keeps them until the end.
        weights_dir: the folder of the networks that several processes share; a folder of this run
            if None.
        slots_dir: the folder in which several processes share their places; likewise.
    """

    wyoming_host: str = "127.0.0.1"
    backlog: Annotated[int, Field(ge=0, le=1000)] = 64
    port: Annotated[int, Field(ge=1, le=65535)] = 50_021
    workers: Annotated[int, Field(ge=1, le=_MOST_WORKERS)] = Field(
        default_factory=lambda: min(max(1, round(read_resources().cpus)), _MOST_WORKERS)
    )
    concurrency: Annotated[int, Field(ge=1, le=64)] = Field(
        default_factory=lambda settings: settings.get("workers", 1)
    )
    log_level: Annotated[str, Field(pattern="^(DEBUG|INFO|WARNING|ERROR)$")] = "INFO"
    allowed_hosts: CommaSeparated = ()
    data_dir: Path | None = None
    weights_dir: Path | None = None
    slots_dir: Path | None = None

    def configure_logs(self) -> None:
        # No voice of this service has an id, so nobody needs to know the key of their pseudonyms.
        logs.configure("", self.log_level, secrets.token_hex())

    @model_validator(mode="before")
    @classmethod
    def _listen_where_it_is_safe(cls, data: dict[str, Any]) -> dict[str, Any]:
        usual = "0.0.0.0" if data.get("voicevox_key") or data.get("api_keys") else "127.0.0.1"  # noqa: S104
        return {"host": usual} | data
