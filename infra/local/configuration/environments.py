"""Where the services of a local cloud listen."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from functions.live.protocol import PATH as LIVE_PATH
from infra.local.configuration import names
from infra.local.configuration.keys import provenance_environment, read_key
from shared.runtime.origins import ANY
from shared.runtime.settings import SettingsError
from shared.speech.engines.kokoro_packages import KokoroPackages

if TYPE_CHECKING:
    from infra.local.configuration.names import Ports
    from infra.local.configuration.options import CloudOptions, SignInOptions


_PORTS_TO_TRY: Final = 10


@dataclass(frozen=True, slots=True)
class Addresses:
    """Base URLs of the services of a local cloud; None for one that is not started."""

    api: str
    on_upload: str
    convert: str
    dead_letter: str
    sweep: str
    storage: str
    firestore: str | None = None  # HOST:PORT; None where the documents are kept in memory
    page_firestore: str | None = None  # HOST:PORT, where pages listen to their voices' documents
    pubsub: str | None = None  # HOST:PORT; None where the topics are kept in memory
    live: str | None = None
    wyoming: str | None = None  # HOST:PORT
    trainer: str | None = None

    @property
    def live_socket(self) -> str | None:
        """Where clients open a WebSocket to `live`, None where it is not started."""
        return None if self.live is None else f"ws{self.live.removeprefix('http')}{LIVE_PATH}"

    def origins(self, options: CloudOptions) -> tuple[str, ...]:
        """The origins whose pages may use the services; the local cloud's own page has two."""
        return self.api, self.api.replace("127.0.0.1", "localhost"), *options.page_origins


def choose_addresses(options: CloudOptions, ports: Ports, *, emulated: bool) -> Addresses:
    """Choose a free port for every service, and for the emulators if they are used.

    The emulators obey every web site that finds them, so they get an address that none can guess.
    """
    *numbers, firestore, page_firestore, pubsub = ports.free(10)
    hidden = names.hidden_host()
    if options.api_port is not None:
        if not ports.keep(options.api_port):
            raise SettingsError(
                f"port {options.api_port} is in use by another program; name another with --port"
            )
        numbers[0] = options.api_port
    elif options.page_port is not None:
        following = range(options.page_port, options.page_port + _PORTS_TO_TRY)
        numbers[0] = next(filter(ports.keep, following), numbers[0])
    if options.voicevox_port is not None and ports.keep(options.voicevox_port):
        # The service `live` serves them beside the WebSocket.
        numbers[-1] = options.voicevox_port
    wyoming = options.wyoming_port
    if wyoming is not None and not ports.keep(wyoming):
        (wyoming,) = ports.free(1)
    trainer = None if options.own_characters is None else f"http://127.0.0.1:{ports.free(1)[0]}"
    api, on_upload, convert, dead_letter, sweep, storage, live = (
        f"http://127.0.0.1:{port}" for port in numbers
    )
    return Addresses(
        api=api,
        on_upload=on_upload,
        convert=convert,
        dead_letter=dead_letter,
        sweep=sweep,
        storage=storage,
        live=live,
        wyoming=None if wyoming is None else f"127.0.0.1:{wyoming}",
        trainer=trainer,
        firestore=f"{hidden}:{firestore}" if emulated else None,
        page_firestore=f"127.0.0.1:{page_firestore}" if emulated else None,
        pubsub=f"{hidden}:{pubsub}" if emulated else None,
    )


def port_of(address: str) -> int:
    """Return the port of a base URL without a path, or of `HOST:PORT`."""
    return int(address.rpartition(":")[2])


# Google's client libraries find an emulator through these variables alone.
FIRESTORE_VARIABLE: Final = "FIRESTORE_EMULATOR_HOST"
PUBSUB_VARIABLE: Final = "PUBSUB_EMULATOR_HOST"
STORAGE_VARIABLE: Final = "STORAGE_EMULATOR_HOST"


def deployable_environments(
    options: CloudOptions, addresses: Addresses, key_file: Path
) -> dict[str, dict[str, str]]:
    """Return, for each deployable, the environment variables that hold its settings."""
    common = {
        "PROJECT_ID": names.PROJECT_ID,
        "ENVIRONMENT": "local",
        "UPLOADS_BUCKET": names.UPLOADS_BUCKET,
        "UPLOAD_SHARDS": str(options.upload_shards),
        "CONVERSION_DEADLINE_SECONDS": str(options.conversion_deadline_seconds),
    }
    if options.traces is not None:
        common["TRACES"] = str(options.traces)
    pushed_to = common | {"PUSH_VERIFICATION": "off"}
    signing = {"RESULTS_BUCKET": names.RESULTS_BUCKET, "SIGNING_KEY_FILE": str(key_file)}
    limits = {
        "MAX_UPLOAD_BYTES": str(options.max_upload_bytes),
        "MIN_SECONDS": str(options.min_seconds),
        "MAX_SECONDS": str(options.max_seconds),
    }
    upload_url = {"UPLOAD_URL_SECONDS": str(options.upload_url_seconds)}
    characters = {
        "CHARACTERS_BUCKET": names.CHARACTERS_BUCKET,
        # A bucket on the same machine is asked at no cost.
        "CHARACTERS_REFRESH_SECONDS": "1",
    }
    publishing = {"CONVERSIONS_TOPIC": names.CONVERSIONS_TOPIC}
    origin = provenance_environment(options.folder / "origin") | {"NOTICE": options.notice}
    patience = {"PATIENCE_SECONDS": str(options.patience_seconds)}
    return {
        "api": common
        | signing
        | limits
        | upload_url
        | characters
        | publishing
        | {"MAX_TEXT_CHARACTERS": str(options.max_text_characters)}
        | api_environment(options, addresses, key_file),
        "live": common
        | signing
        | limits
        | characters
        | origin
        | {
            "HOST": "127.0.0.1",
            "PORT": str(port_of(addresses.live or addresses.convert)),
            "VOICEVOX_ALONE": "on",
            "FOLLOW_CHARACTERS": "on",
            "CONCURRENCY": str(options.concurrency),
            "ALLOWED_ORIGINS": ",".join(addresses.origins(options)),
            "LIVE_TICKET_KEYS": names.LIVE_TICKET_KEY,
            # Here every visitor has the same address, and a benchmark brings many.
            "SOCKETS": "200",
            "SOCKETS_PER_CLIENT": "0",
            "TRUSTED_PROXIES": "0",
        }
        | ({"WYOMING_PORT": str(port_of(addresses.wyoming))} if addresses.wyoming else {}),
        "on_upload": pushed_to | publishing,
        "convert": pushed_to
        | signing
        | limits
        | characters
        | origin
        | {
            "HOST": "127.0.0.1",
            "PORT": str(port_of(addresses.convert)),
            # One process on every machine, so that its process id and its log are the converter's.
            "WORKERS": "1",
            "CONCURRENCY": str(options.concurrency),
            "BACKLOG": str(options.backlog),
            "MAX_SPEECH_SECONDS": str(options.max_speech_seconds),
        },
        "dead_letter": pushed_to | publishing | {"RESULTS_BUCKET": names.RESULTS_BUCKET},
        "sweep": pushed_to | publishing | upload_url | patience,
    }


def page_config(
    addresses: Addresses,
    app_check_token: str | None = None,
    *,
    has_own_characters: bool = False,
    sign_in: SignInOptions | None = None,
) -> dict[str, Any]:
    """Return the configuration of the page; without a token, App Check is off."""
    has_firestore = addresses.page_firestore is not None
    attested = {} if app_check_token is None else {"appCheck": {"token": app_check_token}}
    return attested | {
        # The page can be opened as 127.0.0.1 and as localhost: its own origin serves the api.
        "api": "",
        "firebase": {"projectId": names.PROJECT_ID, "apiKey": "local"} if has_firestore else None,
        "firestoreEmulator": addresses.page_firestore,
        "live": addresses.live_socket,
        "ownCharacters": has_own_characters,
        "signIn": {"email": True, "anonymous": True} if sign_in else None,
        "authEmulator": sign_in.address if sign_in else None,
        "storage": addresses.storage,
    }


def api_environment(options: CloudOptions, addresses: Addresses, key_file: Path) -> dict[str, str]:
    origins = addresses.origins(options)
    # The names of these sites may also lead here.
    hosts = sorted({urlsplit(origin).hostname or "" for origin in origins})
    environment = {
        "CONVERT_URL": addresses.convert,
        "ALLOWED_ORIGINS": ",".join(origins),
        "ALLOWED_HOSTS": ANY if ANY in origins else ",".join(hosts),
        "WAIT_SECONDS": str(options.wait_seconds),
        "RATE_LIMIT_PER_MINUTE": str(options.rate_limit_per_minute),
        "WAITING_PER_CLIENT": "0",
        "TRUSTED_PROXIES": "0",
    }
    if addresses.live_socket is not None:
        environment["LIVE_URL"] = addresses.live_socket
        environment["LIVE_TICKET_KEYS"] = names.LIVE_TICKET_KEY
    if options.own_characters is not None:
        environment["OWN_CHARACTERS_PER_DAY"] = str(options.own_characters.per_day)
        environment["OWN_CHARACTERS_PUBLIC"] = str(options.own_characters.allows_public).lower()
        # On one machine there is one visitor.
        environment["OWN_CHARACTERS_PER_OWNER"] = str(options.own_characters.per_day)
        environment["OWN_RECORDINGS_BUCKET"] = names.OWN_RECORDINGS_BUCKET
        environment["TRAINER_URL"] = str(addresses.trainer)
    packages = os.environ.get("KOKORO_DIR")
    if not KokoroPackages(Path(packages) if packages else None).is_complete():
        environment["KOKORO"] = "off"
    if options.sign_in is not None:
        environment["FIREBASE_AUTH"] = "on"
    token = None
    if options.app_check:
        environment["APP_CHECK"] = "on"
        token = read_key(key_file).app_check_token(names.PROJECT_ID)
    if options.web_root is not None:
        environment["WEB_ROOT"] = str(options.web_root)
        environment["PAGE_CONFIG"] = json.dumps(
            page_config(
                addresses,
                token,
                has_own_characters=options.own_characters is not None,
                sign_in=options.sign_in,
            )
        )
    return environment
