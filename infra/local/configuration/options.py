"""The options of a local cloud."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from shared.runtime.settings import Timeouts

if TYPE_CHECKING:
    from infra.local.configuration.keys import SigningKey

ROOT: Final = Path(__file__).parents[3]  # the repository's root: where packages are imported from
RULES: Final = ROOT / "infra" / "firestore.rules"

PAGE_PORT: Final = 50_010
"""Where `serve` has its page and the api, or at the next port that is free.

Browsers keep bookmarks, permissions and keys for an address and its port.
"""

VOICEVOX_PORT: Final = 50_021
"""Where clients of VOICEVOX look for an engine unless they are told otherwise."""

WYOMING_PORT: Final = 10_200
"""Where Home Assistant's own speech service is, and people look for one."""

LOCAL_ORIGINS: Final = ("http://localhost:*", "http://127.0.0.1:*")
"""Every site that a developer serves on this machine."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Scaling of the conversion container, as on Cloud Run."""

    idle_seconds: float


@dataclass(frozen=True, slots=True)
class LivenessProbe:
    """The liveness probe of a running converter; Terraform sets the same numbers."""

    period_seconds: float = 10.0  # between two probes
    timeout_seconds: float = 5.0
    failure_threshold: int = 3


@dataclass(frozen=True, slots=True)
class OwnCharacterOptions:
    per_day: int
    command: tuple[str, ...]
    allows_public: bool = False


@dataclass(frozen=True, slots=True)
class SignInOptions:
    """The stand-in for Firebase Authentication, which pages ask as they ask Firebase's emulator."""

    address: str  # http://HOST:PORT
    key: SigningKey  # signs the tokens that the api takes; it is also the local cloud's own


@dataclass(frozen=True, slots=True)
class CloudOptions:
    """The options of a local cloud.

    Attributes:
        rate_limit_per_minute: how many requests per minute the api takes from one address; 0 for
            any number, because here every visitor has the same address.
        sweep_period_seconds: the time between two sweeps; as in Terraform's schedule.
        app_check: whether the api requires App Check tokens. The local cloud signs one and gives it
            to its page.
        web_root: folder of the built page, or None to serve none.
        traces: the file that the steps of voices are appended to, or the address of a collector
            that takes OTLP over HTTP; None for neither.
        api_port: the api's port; a free one if None.
        page_port: the first port to try for the api, then those after it; any if None.
        voicevox_port: the port of the routes of VOICEVOX; a free one if None or if it is taken.
        wyoming_port: the port for clients of Wyoming, a free one if it is taken; None for none.
        scaling: how the conversion container starts and stops; None to keep it running.
        own_characters: lets visitors make characters; None to offer none.
        sign_in: lets visitors sign in; None if they cannot.
    """

    folder: Path = ROOT / ".local"
    min_seconds: float = 1.0
    max_seconds: float = 10.0
    max_upload_bytes: int = 8_000_000
    max_text_characters: int = 500
    max_speech_seconds: float = 60.0
    upload_url_seconds: int = 600
    upload_shards: int = 1
    conversion_deadline_seconds: int = 60
    concurrency: int = 4
    backlog: int = 32
    wait_seconds: float = 50.0
    rate_limit_per_minute: int = 0
    sweep_period_seconds: float = 300.0
    patience_seconds: int = 300
    app_check: bool = False
    web_root: Path | None = None
    notice: Literal["off", "before", "after"] = "off"
    traces: Path | str | None = None
    page_origins: tuple[str, ...] = LOCAL_ORIGINS
    api_port: int | None = None
    page_port: int | None = None
    voicevox_port: int | None = None
    wyoming_port: int | None = None
    scaling: Scaling | None = None
    liveness: LivenessProbe = field(default_factory=LivenessProbe)
    own_characters: OwnCharacterOptions | None = None
    sign_in: SignInOptions | None = None

    @property
    def timeouts(self) -> Timeouts:
        return Timeouts(self.conversion_deadline_seconds)
