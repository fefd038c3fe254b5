"""The settings of the api."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, Json, model_validator

from shared.runtime.settings import (
    BucketName,
    CharacterSettings,
    CommaSeparated,
    RecordingSettings,
    SecretKeys,
    SigningSettings,
    Switch,
    TopicId,
    WebAddress,
    WebSocketAddress,
)


class ApiSettings(SigningSettings, RecordingSettings, CharacterSettings):
    """Settings of the api.

    Attributes:
        warm_ups_at_once: how many warm-ups of this instance may wait for converters to start.
        allowed_hosts: the names under which requests may come, beside addresses and `localhost`;
            `*` for all, as where a front end lets only its own names through.
        default_character: the character of voices that name none; the first built-in one if None.
        wait_seconds: how long a client waits for a conversion before it must ask again.
        rate_limit_per_minute: how many requests a minute one address may send to this instance,
            a twelfth of them at once; 0 for no limit.
        waiting_per_client: how many requests of one address may wait for a conversion at the same
            time; 0 for no limit.
        trusted_proxies: how many proxies have written into `X-Forwarded-For`: 1 for Cloud Run
            alone, 2 with a load balancer in front of it, 0 for none.
        listen_targets_per_stream: how many watched voices share one stream of Firestore.
        kokoro: whether the converters have Kokoro; without it, they speak Japanese alone.
        firebase_auth: the sign-in of visitors, who then own their voices.
        app_check: the demand for a token of Firebase App Check with requests about voices; in the
            local cloud, the tokens are signed with `signing_key_file`.
        app_check_app: the only app whose tokens are accepted; None for any app of the project.
        live_url: the WebSocket address of the service `live`; None if there is none.
        live_ticket_keys: the secret keys of its tickets, separated by commas; the first one signs.
        own_characters_per_day: how many characters of their own voice all visitors together may
            begin in a day; 0 to offer none.
        own_characters_per_owner: the same for one visitor, known by sign-in or else by network.
        own_characters_public: whether owners may list their characters for everybody.
        own_recordings_bucket: the bucket of these visitors' recordings; needed with the number.
        trainer_url: the address that starts or wakes the trainer of these characters; likewise.
        web_root: folder of the built page; only in the local cloud.
        page_config: the configuration that the page reads; only in the local cloud.
    """

    convert_url: WebAddress
    conversions_topic: TopicId
    warm_ups_at_once: Annotated[int, Field(ge=1, le=1000)] = 80
    allowed_origins: CommaSeparated = ()
    allowed_hosts: CommaSeparated = ("*",)
    characters_dir: Path = Path(__file__).parents[2] / "characters"
    default_character: Annotated[str, Field(pattern="^[a-z][a-z0-9-]{0,31}$")] | None = None
    max_text_characters: Annotated[int, Field(ge=1, le=2000)] = 500
    upload_url_seconds: Annotated[int, Field(ge=30, le=3600)] = 600
    wait_seconds: Annotated[float, Field(gt=0, le=3600)] = 50.0
    rate_limit_per_minute: Annotated[int, Field(ge=0, le=100_000)] = 120
    waiting_per_client: Annotated[int, Field(ge=0, le=1000)] = 50
    trusted_proxies: Annotated[int, Field(ge=0, le=10)] = 1
    listen_targets_per_stream: Annotated[int, Field(ge=1, le=1000)] = 100
    kokoro: Switch = Switch.ON
    firebase_auth: Switch = Switch.OFF
    app_check: Switch = Switch.OFF
    app_check_app: str | None = None
    live_url: WebSocketAddress | None = None
    live_ticket_keys: SecretKeys = ()
    own_characters_per_day: Annotated[int, Field(ge=0, le=1000)] = 0
    own_characters_per_owner: Annotated[int, Field(ge=1, le=1000)] = 3
    own_characters_public: bool = False
    own_recordings_bucket: BucketName | None = None
    trainer_url: WebAddress | None = None
    web_root: Path | None = None
    page_config: Json[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def check_live(self) -> Self:
        if (self.live_url is None) != (not self.live_ticket_keys):
            raise ValueError(
                "LIVE_URL and LIVE_TICKET_KEYS must be set both or neither: "
                "clients of `live` need its address and a ticket"
            )
        return self

    @model_validator(mode="after")
    def check_local_only(self) -> Self:
        if self.web_root is not None:
            self.require_local("WEB_ROOT", self.web_root)
        if self.page_config is not None:
            self.require_local("PAGE_CONFIG", "{...}")
        return self

    @model_validator(mode="after")
    def check_own_characters(self) -> Self:
        needed = (self.own_recordings_bucket, self.trainer_url, self.characters_bucket)
        if self.own_characters_per_day and None in needed:
            raise ValueError(
                "OWN_CHARACTERS_PER_DAY needs OWN_RECORDINGS_BUCKET, TRAINER_URL and"
                " CHARACTERS_BUCKET for the recordings, the training and the characters"
            )
        return self
