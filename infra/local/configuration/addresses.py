"""Where the services of a local cloud listen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions.live.messages.protocol import PATH as LIVE_PATH

if TYPE_CHECKING:
    from infra.local.configuration.options import CloudOptions
    from infra.local.configuration.ports import Ports


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the services of a local cloud listen; `HOST:PORT` for the emulators.

    Attributes:
        api: base URL of the api.
        on_upload: base URL of on_upload.
        convert: base URL of the conversion container.
        dead_letter: base URL of dead_letter.
        sweep: base URL of sweep.
        storage: base URL of the storage server.
        firestore: the Firestore emulator, or None where the documents are kept in memory.
        pubsub: the Pub/Sub emulator, or None where the topics are kept in memory.
        live: base URL of `live`, or None where it is not started.
        wyoming: `HOST:PORT` for clients of Wyoming, or None where they are not served.
        trainer: base URL of the trainer of own characters, or None where there is none.
    """

    api: str
    on_upload: str
    convert: str
    dead_letter: str
    sweep: str
    storage: str
    firestore: str | None = None
    pubsub: str | None = None
    live: str | None = None
    wyoming: str | None = None
    trainer: str | None = None

    @property
    def live_socket(self) -> str | None:
        """Where clients open a WebSocket to `live`, None where it is not started."""
        return None if self.live is None else f"ws{self.live.removeprefix('http')}{LIVE_PATH}"

    def origins(self, options: CloudOptions) -> tuple[str, ...]:
        """The origins whose pages may use the services; the local cloud's own page has two."""
        return self.api, self.api.replace("127.0.0.1", "localhost"), *options.page_origins


def choose_addresses(options: CloudOptions, ports: Ports, *, emulated: bool) -> Addresses:
    """Choose a free port for every service, and for the emulators if they are used."""
    *numbers, firestore, pubsub = ports.free(9)
    if options.api_port is not None:
        numbers[0] = options.api_port
    if options.voicevox_port is not None and ports.keep(options.voicevox_port):
        # The service `live` serves them beside the WebSocket.
        numbers[-1] = options.voicevox_port
    wyoming = options.wyoming_port
    if wyoming is not None and not ports.keep(wyoming):
        (wyoming,) = ports.free(1)
    trainer = None if options.own_characters is None else _url(ports.free(1)[0])
    api, on_upload, convert, dead_letter, sweep, storage, live = map(_url, numbers)
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
        firestore=f"127.0.0.1:{firestore}" if emulated else None,
        pubsub=f"127.0.0.1:{pubsub}" if emulated else None,
    )


def port_of(address: str) -> int:
    """Return the port of a base URL without a path, or of `HOST:PORT`."""
    return int(address.rpartition(":")[2])


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"
