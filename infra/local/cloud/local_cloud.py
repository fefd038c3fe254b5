"""A running local cloud, and the file that tells other programs where it is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from infra.local.configuration import names
from infra.local.configuration.environments import FIRESTORE_VARIABLE, PUBSUB_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from infra.local.configuration.environments import Addresses
    from infra.local.configuration.options import CloudOptions
    from shared.voices.store import VoiceStore


@dataclass(frozen=True, slots=True)
class LocalCloud:
    addresses: Addresses
    voices: VoiceStore
    crashed: Callable[[], Awaitable[str]]  # waits until a service ends by itself; returns its name
    restart_converter: Callable[[], Awaitable[None]]
    has_page: bool
    pids: Mapping[str, int] = field(default_factory=dict)  # of services with a process of their own

    def endpoints(self) -> dict[str, Any]:
        addresses = self.addresses
        return {
            "api": addresses.api,
            "page": f"{addresses.api}/" if self.has_page else None,
            "firestore": addresses.firestore,
            "page_firestore": addresses.page_firestore,
            "pubsub": addresses.pubsub,
            "storage": addresses.storage,
            "live": addresses.live_socket,
            "voicevox": addresses.live,
            "wyoming": addresses.wyoming,
            "project_id": names.PROJECT_ID,
            "pid": os.getpid(),
        }


Progress = Callable[[str], None]
StartServices = Callable[["CloudOptions", Path, AsyncExitStack, Progress], Awaitable[LocalCloud]]
"""Starts the services, with a folder for their files; the stack stops them."""


@contextmanager
def published_endpoints(cloud: LocalCloud, folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "endpoints.json"
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(cloud.endpoints(), indent=2) + "\n")
    draft.replace(path)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class RunningCloud:
    """A local cloud that `serve` keeps up in another process."""

    api: str
    characters: tuple[str, ...]


def find_running_cloud(folder: Path) -> RunningCloud | None:
    """Find the local cloud that wrote `endpoints.json` into a folder, if it answers."""
    try:
        api = json.loads((folder / "endpoints.json").read_text())["api"]
        answer = httpx.get(f"{api}/api/v1/characters", timeout=_ANSWER_SECONDS).raise_for_status()
        characters = answer.json()["characters"]
    except (OSError, ValueError, KeyError, httpx.HTTPError):
        return None
    return RunningCloud(api, tuple(each["id"] for each in characters))


LEAST_JAVA: Final = 17
_ANSWER_SECONDS: Final = 5.0

_USUAL_ROOTS: Final = (
    "~/google-cloud-sdk",
    "/usr/lib/google-cloud-sdk",
    "/usr/share/google-cloud-sdk",
    "/usr/local/google-cloud-sdk",
    "/usr/local/share/google-cloud-sdk",
    "/opt/google-cloud-sdk",
    "/opt/homebrew/share/google-cloud-sdk",
    "/snap/google-cloud-cli/current",
    "/snap/google-cloud-sdk/current",
)
_GCLOUD_SECONDS: Final = 30
_JAVA_SECONDS: Final = 30
_VARIABLES: Final = {"firestore": FIRESTORE_VARIABLE, "pubsub": PUBSUB_VARIABLE}

# An emulator runs too briefly for the optimising compiler to pay off: without it, and with the
# simplest collector, it starts in two thirds of the time and needs a third of the processor time
# per call.
_FOR_SHORT_RUNS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
)


class EmulatorsMissingError(Exception):
    """The emulators cannot be started on this machine; the message says how to get them."""


@dataclass(frozen=True, slots=True)
class Emulators:
    java: str
    firestore_jar: Path
    pubsub_jar: Path

    def firestore_command(self, address: str, rules: Path) -> list[str]:
        """Return the command that serves Firestore at `HOST:PORT`."""
        return [
            self.java,
            *_FOR_SHORT_RUNS,
            "-cp",
            str(self.firestore_jar),
            "com.google.cloud.datastore.emulator.firestore.CloudFirestore",
            "start",
            *place_options(address),
            f"--rules={rules}",
        ]

    def pubsub_command(self, address: str, hosts: Path | None = None) -> list[str]:
        """Return the command that serves Pub/Sub at `HOST:PORT`.

        The emulator's HTTP looks for its own gRPC at `localhost`: in the file `hosts` that is HOST.
        """
        return [
            self.java,
            *_FOR_SHORT_RUNS,
            *(() if hosts is None else (f"-Djdk.net.hosts.file={hosts}",)),
            "-jar",
            str(self.pubsub_jar),
            *place_options(address),
        ]


def place_options(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return f"--host={host}", f"--port={port}"


def running_emulators(environment: Mapping[str, str]) -> dict[str, str]:
    """Read the addresses of emulators that already run, by name; an empty variable is none."""
    return {name: host for name, key in _VARIABLES.items() if (host := environment.get(key))}


def find_or_reuse(environment: Mapping[str, str]) -> Emulators | None:
    """Build the commands that start the emulators, or None if both run already."""
    if len(running_emulators(environment)) == len(_VARIABLES):
        return None
    return find_emulators(environment)


def find_emulators(environment: Mapping[str, str] = os.environ) -> Emulators:
    """Find the emulators in the usual folders of the Google Cloud CLI."""
    java = find_java(environment)
    for root in cloud_cli_roots(environment):
        firestore = root / "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"
        libraries = root / "platform/pubsub-emulator/lib"
        pubsub = sorted(libraries.glob("cloud-pubsub-emulator-*-all.jar"))
        if firestore.is_file() and pubsub:
            return Emulators(java, firestore, pubsub[-1])
    raise EmulatorsMissingError(
        "Google's emulators were not found; install the Google Cloud CLI and run "
        "`gcloud components install cloud-firestore-emulator pubsub-emulator`"
    )


def find_java(environment: Mapping[str, str]) -> str:
    home = environment.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None) or shutil.which("java")
    if java is None:
        raise EmulatorsMissingError(f"Java was not found; install version {LEAST_JAVA} or newer")
    try:
        said = subprocess.run(  # noqa: S603 - the user's own Java
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_JAVA_SECONDS
        ).stderr
    except subprocess.TimeoutExpired as error:
        raise EmulatorsMissingError(f"{java} does not say its version") from error
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < LEAST_JAVA:
        raise EmulatorsMissingError(f"{java} is too old; install Java {LEAST_JAVA} or newer")
    return java


def cloud_cli_roots(environment: Mapping[str, str]) -> Iterator[Path]:
    for variable in ("CLOUDSDK_ROOT_DIR", "GOOGLE_CLOUD_SDK"):
        if root := environment.get(variable):
            yield Path(root)
    gcloud = shutil.which("gcloud", path=environment.get("PATH"))
    if gcloud is not None:
        yield Path(gcloud).resolve().parent.parent
    for root in _USUAL_ROOTS:
        yield Path(root).expanduser()
    if gcloud is not None:
        # Last, because the answer takes seconds.
        command = [gcloud, "info", "--format=value(installation.sdk_root)"]
        with suppress(OSError, subprocess.SubprocessError):
            said = subprocess.run(  # noqa: S603 - the user's own gcloud
                command, capture_output=True, text=True, check=True, timeout=_GCLOUD_SECONDS
            ).stdout.strip()
            if said:
                yield Path(said)
