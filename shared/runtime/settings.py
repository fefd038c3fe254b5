"""The settings of the deployables, and the chain of timeouts, derived from one number.

conversion deadline < request timeout <= acknowledgement deadline. So a conversion ends before its
request is cut off, and a message is not delivered again while its request still runs. Terraform
derives the same chain in `infra/terraform/locals.tf`; a test compares the two.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from shared.runtime import logs
from shared.voices.tickets import LEAST_KEY_CHARACTERS

QUEUE_SECONDS: Final = 15
"""The most time for which a message waits for its turn; no answer to it would be a refusal."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The chain for one conversion deadline, all in seconds."""

    conversion_deadline: int

    @property
    def request(self) -> int:
        # It may wait for a dead worker's lease, too.
        return self.conversion_deadline + QUEUE_SECONDS + 10

    @property
    def acknowledgement(self) -> int:
        return self.conversion_deadline + 30


BucketName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$")]
TopicId = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9._~+%-]{2,254}$")]
ServiceAccount = Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$")]


def _begins_with(*schemes: str) -> AfterValidator:
    def check(text: str) -> str:
        if not text.startswith(schemes):
            raise ValueError(f"must begin with {' or '.join(schemes)}")
        return text

    return AfterValidator(check)


WebAddress = Annotated[
    str, _begins_with("http://", "https://"), AfterValidator(lambda text: text.rstrip("/"))
]
WebSocketAddress = Annotated[str, _begins_with("ws://", "wss://")]


def _split_at_commas(text: object) -> object:
    if not isinstance(text, str):
        return text
    return tuple(part.strip() for part in text.split(",") if part.strip())


CommaSeparated = Annotated[tuple[str, ...], BeforeValidator(_split_at_commas)]
SecretKeys = Annotated[
    tuple[Annotated[SecretStr, Field(min_length=LEAST_KEY_CHARACTERS)], ...],
    BeforeValidator(_split_at_commas),
]


class Environment(StrEnum):
    PRODUCTION = "production"
    LOCAL = "local"


class PushVerification(StrEnum):
    """The checks of a push's identity token.

    ON checks everything. PLATFORM is for a service that only IAM's invokers may call: Cloud Run has
    verified the token and removed its signature, so only the claims are checked. OFF checks
    nothing.
    """

    ON = "on"
    PLATFORM = "platform"
    OFF = "off"


class SettingsError(ValueError):
    """A setting is missing or wrong; the message has one line per variable."""


class Switch(StrEnum):
    ON = "on"
    OFF = "off"


class EnvironmentSettings(BaseModel):
    """Settings in the environment: PROJECT_ID is the variable of `project_id`.

    The package pydantic-settings does more, and would take a twelfth of a function's start.
    """

    # Built when first used: of a deployable's settings and all their bases only the last one is.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _read_environment(cls, given: dict[str, Any]) -> dict[str, Any]:
        variables = {name: _read_variable(name.upper()) for name in cls.model_fields}
        return {name: value for name, value in variables.items() if value is not None} | given


def _read_variable(name: str) -> str | None:
    """Return a variable with NAME_1, NAME_2 and so on behind it: a list whose parts are secrets."""
    parts, value = list[str](), os.environ.get(name)
    while value is not None:
        parts.append(value)
        value = os.environ.get(f"{name}_{len(parts)}")
    return ",".join(parts) if parts else None


class CommonSettings(EnvironmentSettings):
    project_id: Annotated[str, Field(min_length=1)]
    environment: Environment = Environment.PRODUCTION
    firestore_database: Annotated[str, Field(min_length=1)] = "(default)"
    log_level: Annotated[str, Field(pattern="^(DEBUG|INFO|WARNING|ERROR)$")] = "INFO"
    log_key: Annotated[SecretStr, Field(min_length=32)] | None = None  # of the logs' pseudonyms
    # The destination of voices' steps: `google` for Cloud Trace, the address of a collector that
    # takes OTLP over HTTP (`http://.../v1/traces`), or, in the local cloud, a file.
    traces: Annotated[str, Field(min_length=1)] | None = None
    trace_ratio: Annotated[float, Field(gt=0, le=1)] = 1.0  # the share of voices that is traced
    uploads_bucket: BucketName
    # The number of buckets of recordings, and of results; see `shared.google.sharded_bucket`.
    upload_shards: Annotated[int, Field(ge=1, le=32)] = 1
    conversion_deadline_seconds: Annotated[int, Field(ge=5, le=500)] = 60  # see `Timeouts`

    @model_validator(mode="after")
    def check_logs_and_traces(self) -> Self:
        if self.log_key is None and self.environment is not Environment.LOCAL:
            raise ValueError("LOG_KEY is not set: with it the logs name voices")
        if self.traces and self.traces != "google" and not self.traces.startswith("http"):
            self.require_local("TRACES", self.traces)
        return self

    @property
    def pseudonym_key(self) -> str:
        return logs.LOCAL_KEY if self.log_key is None else self.log_key.get_secret_value()

    def configure_logs(self) -> None:
        has_traces = self.traces is not None
        logs.configure(self.project_id, self.log_level, self.pseudonym_key, has_traces=has_traces)

    @property
    def timeouts(self) -> Timeouts:
        return Timeouts(self.conversion_deadline_seconds)

    def require_local(self, variable: str, value: object) -> None:
        """Refuse a value that only the local cloud may have."""
        if self.environment is not Environment.LOCAL:
            raise ValueError(
                f"{variable}={value} is only for the local cloud (ENVIRONMENT=local); "
                f"in production remove it"
            )


class PushSettings(CommonSettings):
    push_verification: PushVerification = PushVerification.ON
    push_audience: str = ""  # the audience that the token must name
    push_service_account: ServiceAccount | None = None  # the account that the token must name

    @model_validator(mode="after")
    def check_push(self) -> Self:
        if self.push_verification is PushVerification.OFF:
            self.require_local("PUSH_VERIFICATION", "off")
        elif not self.push_audience or not self.push_service_account:
            raise ValueError(
                "PUSH_AUDIENCE and PUSH_SERVICE_ACCOUNT must be set unless PUSH_VERIFICATION is off"
            )
        return self


class SigningSettings(CommonSettings):
    results_bucket: BucketName
    signing_service_account: ServiceAccount | None = None  # signs through IAM, without a key
    signing_key_file: str | None = None  # a service account's; only for the local cloud
    # The HMAC key that signs instead, without any call to IAM: its name, and the key itself.
    signing_hmac_access_id: Annotated[str, Field(pattern=r"^[A-Z0-9]{24,128}$")] | None = None
    signing_hmac_secret: Annotated[SecretStr, Field(min_length=16)] | None = None

    @model_validator(mode="after")
    def check_signing(self) -> Self:
        if (self.signing_hmac_access_id is None) != (self.signing_hmac_secret is None):
            raise ValueError(
                "SIGNING_HMAC_ACCESS_ID and SIGNING_HMAC_SECRET must be set both or neither: "
                "one names the key, the other is it"
            )
        if self.signing_hmac_access_id is not None:
            return self
        if self.signing_key_file is not None:
            self.require_local("SIGNING_KEY_FILE", self.signing_key_file)
        elif self.signing_service_account is None:
            raise ValueError("SIGNING_SERVICE_ACCOUNT must be set: who signs upload addresses?")
        return self


class CharacterSettings(CommonSettings):
    characters_bucket: BucketName | None = None  # of the bundles that do not come with the image
    # The time after which that bucket is read again.
    characters_refresh_seconds: Annotated[float, Field(gt=0, le=30)] = 20.0


class RecordingSettings(CommonSettings):
    """The limits of the recordings that are converted."""

    min_seconds: Annotated[float, Field(gt=0, le=60)] = 1.0
    max_seconds: Annotated[float, Field(gt=0, le=600)] = 10.0
    max_upload_bytes: Annotated[int, Field(ge=1000, le=256_000_000)] = 8_000_000

    @model_validator(mode="after")
    def check_seconds(self) -> Self:
        if self.min_seconds > self.max_seconds:
            raise ValueError(
                f"MIN_SECONDS={self.min_seconds:g} is more than MAX_SECONDS={self.max_seconds:g}: "
                "no recording would be converted"
            )
        return self


# The ends of the names of variables whose values no message shows.
_SECRETS: Final = ("_KEY", "_KEYS", "_SECRET")
_Settings = TypeVar("_Settings", bound=EnvironmentSettings)


def load(kind: type[_Settings], **overrides: Any) -> _Settings:
    """Read settings from the environment or `overrides`; `SettingsError` if one is wrong."""
    try:
        return kind(**overrides)
    except ValidationError as error:
        problems: list[Any] = error.errors()
        # A default that is computed from other fields can't be computed when one of them is wrong.
        causes = [each for each in problems if each["type"] != "default_factory_not_called"]
        raise SettingsError("\n".join(map(_explain, causes))) from None


def _explain(problem: Any) -> str:
    variable = "_".join(str(part) for part in problem["loc"][:1]).upper()
    reason = str(problem["msg"]).removeprefix("Value error, ")
    if not variable:
        return reason
    if problem["type"] == "missing":
        return f"{variable} is not set"
    if variable.endswith(_SECRETS):
        return f"{variable} is wrong: {reason}"
    return f"{variable}={problem['input']!r} is wrong: {reason}"
