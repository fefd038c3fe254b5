"""The local cloud: which services it has, where they are, how the deployables are told."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from infra.local import names
from infra.local.processes import free_ports
from shared.timeouts import Timeouts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from shared.ports.store import VoiceStore

ROOT: Final = Path(__file__).parent.parent.parent
"""The repository's root: where packages are imported from."""

RULES: Final = ROOT / "infra" / "firestore.rules"


@dataclass(frozen=True, slots=True)
class Scaling:
    """How the conversion container comes and goes, as on Cloud Run.

    Attributes:
        idle_seconds: how long an instance without requests is kept.
        min_instances: 0, or 1 to keep an instance for ever.
    """

    idle_seconds: float
    min_instances: int = 0


@dataclass(frozen=True, slots=True)
class CloudOptions:
    """What can be chosen about a local cloud.

    Attributes:
        folder: where logs go.
        min_seconds: the shortest recording.
        max_seconds: the longest recording.
        max_upload_bytes: the largest recording.
        conversion_deadline_seconds: the number that all timeouts derive from.
        concurrency: how many voices are converted at once; as many as in Terraform's container.
        backlog: how many more may wait.
        wait_seconds: how long a client waits for a conversion before it must ask again.
        rate_limit_per_minute: how many requests a minute the api takes from one address; 0 for any
            number, because here every visitor has the same address.
        web_root: folder of the built page, or None to serve none.
        api_port: the api's port; a free one if None.
        scaling: how the conversion container comes and goes; None to keep it up.
    """

    folder: Path = ROOT / ".local"
    min_seconds: float = 1.0
    max_seconds: float = 10.0
    max_upload_bytes: int = 8_000_000
    conversion_deadline_seconds: int = 60
    concurrency: int = 4
    backlog: int = 8
    wait_seconds: float = 50.0
    rate_limit_per_minute: int = 0
    web_root: Path | None = None
    api_port: int | None = None
    scaling: Scaling | None = None

    @property
    def timeouts(self) -> Timeouts:
        """The chain of timeouts."""
        return Timeouts(self.conversion_deadline_seconds)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the services of a local cloud listen; `HOST:PORT` for the emulators.

    Attributes:
        api: base address of the api.
        on_upload: base address of on_upload.
        convert: base address of the conversion container.
        dead_letter: base address of dead_letter.
        storage: base address of the storage server.
        firestore: the Firestore emulator, or None where memory stands in.
        pubsub: the Pub/Sub emulator, or None where memory stands in.
    """

    api: str
    on_upload: str
    convert: str
    dead_letter: str
    storage: str
    firestore: str | None = None
    pubsub: str | None = None

    @property
    def origins(self) -> tuple[str, str]:
        """The origins that the page may be looked at from."""
        return self.api, self.api.replace("127.0.0.1", "localhost")


def choose_addresses(options: CloudOptions, *, emulated: bool) -> Addresses:
    """Choose a free port for every service, and for the emulators where there are any."""
    *ports, firestore, pubsub = free_ports(7)
    if options.api_port is not None:
        ports[0] = options.api_port
    api, on_upload, convert, dead_letter, storage = (f"http://127.0.0.1:{port}" for port in ports)
    return Addresses(
        api=api,
        on_upload=on_upload,
        convert=convert,
        dead_letter=dead_letter,
        storage=storage,
        firestore=f"127.0.0.1:{firestore}" if emulated else None,
        pubsub=f"127.0.0.1:{pubsub}" if emulated else None,
    )


@dataclass(frozen=True, slots=True)
class LocalCloud:
    """A running local cloud.

    Attributes:
        addresses: where its services listen.
        has_page: whether the api serves the page, too.
        voices: its voices, to watch them from this process.
        crashed: returns, with the name of a service, when one has ended by itself.
        pids: the process ids of the services that are processes of their own, by name.
    """

    addresses: Addresses
    has_page: bool
    voices: VoiceStore
    crashed: Callable[[], Awaitable[str]]
    pids: Mapping[str, int] = field(default_factory=dict)

    def endpoints(self) -> dict[str, Any]:
        """Return what `endpoints.json` tells to other programs."""
        return {
            "api": self.addresses.api,
            "page": f"{self.addresses.api}/" if self.has_page else None,
            "firestore": self.addresses.firestore,
            "pubsub": self.addresses.pubsub,
            "storage": self.addresses.storage,
            "project_id": names.PROJECT_ID,
            "pid": os.getpid(),
        }


@contextmanager
def published_endpoints(cloud: LocalCloud, folder: Path) -> Iterator[Path]:
    """Write `endpoints.json` into a folder and remove it at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "endpoints.json"
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(cloud.endpoints(), indent=2) + "\n")
    draft.replace(path)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


@asynccontextmanager
async def local_cloud(
    options: CloudOptions, *, embedded: bool | None = None, note: Callable[[str], None]
) -> AsyncIterator[LocalCloud]:
    """Start a local cloud and stop it at the end.

    Args:
        options: what can be chosen about it.
        embedded: True to do without Google's emulators, False to insist on them, None to use them
            where they are found.
        note: is told, in one line, when they are missing.

    Raises:
        EmulatorsMissingError: they are missing and `embedded` is False, or the options need them.
        StartError: a service did not come up.
    """
    # Imported here and below: each kind of cloud needs what the other does not.
    from infra.local.emulated import emulated_cloud, find_or_reuse  # noqa: PLC0415
    from infra.local.emulators import EmulatorsMissingError  # noqa: PLC0415

    if options.scaling is not None:
        # In memory every service is in one process, which cannot come and go.
        embedded = False
    if not embedded:
        try:
            emulators = find_or_reuse(os.environ)
        except EmulatorsMissingError as error:
            if embedded is False:
                raise
            note(f"Firestore and Pub/Sub are kept in memory, because {_lower_first(str(error))}.")
        else:
            async with emulated_cloud(options, emulators) as cloud:
                yield cloud
            return
    from infra.local.embedded import embedded_cloud  # noqa: PLC0415

    async with embedded_cloud(options) as cloud:
        yield cloud


def _lower_first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def deployable_environments(
    options: CloudOptions, addresses: Addresses, key_file: Path
) -> dict[str, dict[str, str]]:
    """Return, for each deployable, the environment variables that its settings come from."""
    common = {
        "PROJECT_ID": names.PROJECT_ID,
        "ENVIRONMENT": "local",
        "UPLOADS_BUCKET": names.UPLOADS_BUCKET,
        "CONVERSION_DEADLINE_SECONDS": str(options.conversion_deadline_seconds),
    }
    pushed_to = common | {"PUSH_VERIFICATION": "off"}
    signing = {"RESULTS_BUCKET": names.RESULTS_BUCKET, "SIGNING_KEY_FILE": str(key_file)}
    limits = {"MAX_UPLOAD_BYTES": str(options.max_upload_bytes)}
    return {
        "api": common | signing | limits | _api_environment(options, addresses),
        "on_upload": pushed_to | {"CONVERSIONS_TOPIC": names.CONVERSIONS_TOPIC},
        "convert": pushed_to | signing | limits | _convert_environment(options, addresses),
        "dead_letter": pushed_to | {"RESULTS_BUCKET": names.RESULTS_BUCKET},
    }


def _api_environment(options: CloudOptions, addresses: Addresses) -> dict[str, str]:
    environment = {
        "CONVERT_URL": addresses.convert,
        "ALLOWED_ORIGINS": ",".join(addresses.origins),
        "WAIT_SECONDS": str(options.wait_seconds),
        "RATE_LIMIT_PER_MINUTE": str(options.rate_limit_per_minute),
        "WAITING_PER_CLIENT": "0",
        "TRUSTED_PROXIES": "0",
        **_seconds(options),
    }
    if options.web_root is not None:
        environment["WEB_ROOT"] = str(options.web_root)
        environment["PAGE_CONFIG"] = json.dumps(page_config(addresses))
    return environment


def _convert_environment(options: CloudOptions, addresses: Addresses) -> dict[str, str]:
    return {
        "HOST": "127.0.0.1",
        "PORT": addresses.convert.rpartition(":")[2],
        **_seconds(options),
        # One process: whatever the machine, its pid and its log are the converter's.
        "WORKERS": "1",
        "CONCURRENCY": str(options.concurrency),
        "BACKLOG": str(options.backlog),
    }


def _seconds(options: CloudOptions) -> dict[str, str]:
    return {"MIN_SECONDS": str(options.min_seconds), "MAX_SECONDS": str(options.max_seconds)}


def page_config(addresses: Addresses) -> dict[str, Any]:
    """Return what the page is told about its surroundings."""
    has_firestore = addresses.firestore is not None
    return {
        # The page may be looked at as 127.0.0.1 or as localhost: its own origin serves the api.
        "api": "",
        "firebase": {"projectId": names.PROJECT_ID, "apiKey": "local"} if has_firestore else None,
        "firestoreEmulator": addresses.firestore,
        "storage": addresses.storage,
    }
