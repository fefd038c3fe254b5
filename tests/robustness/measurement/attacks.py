"""What a hostile client does: it floods the service, and counts what became of its requests."""

from __future__ import annotations

import asyncio
import ipaddress
import random
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import httpx

from shared.voices.store import UnknownVoiceError
from tests.integration.audio.recordings import raw_wav
from tests.robustness.hostile.costliest import COSTLIEST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping

    from tests.robustness.faults.cloud import FaultyCloud

Attack: TypeAlias = "Callable[[Attacker], Awaitable[None]]"
"""Does one thing once."""

REQUESTS_PER_SECOND: Final = 40
"""How many requests the client sends, whatever is answered: 20 times what one address may send."""

HELD_AFTER_SECONDS: Final = 2.0
"""A request that is to stall or to wait, and is not answered for so long, was let in."""

_LAST_SECONDS: Final = 90.0
_ENDS_WITHIN_SECONDS: Final = 120.0
_SENT: Final = (
    "Opus with 255 channels and 60 packets",
    "100 000 MP4 boxes moof",
    "Opus, 10 000 hidden packets",
)
"""Of the costliest files those that take most processor time for what the client has to send."""

OWN_CHARACTER: Final = {
    "name": "Nobody",
    "language": "en",
    "owner": "Nobody",
    "contact": "nobody@example.org",
    "is_my_own_voice": True,
    "no_public_figure_no_minor": True,
}

ONE_KANA: Final = "あ" * 500
"""A vowel that is held for so long that the built-in voice grows too loud."""

_RECORDINGS_SHARE: Final = 0.8
"""Of what is asked about own characters: recordings for those that were begun."""

_REFUSED: Final = 400
_WAITED_TO_THE_END: Final = 504
_VOICES_TO_WAIT_FOR: Final = 20
_LONGEST_SOUND_BYTES: Final = 59 * 8_000 * 2
_FORM: Final = {"content-type": "multipart/form-data; boundary=b", "content-length": "8000000"}
_FORM_BEGINS: Final = (
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.webm"\r\n'
    b"Content-Type: audio/webm\r\n\r\n"
)


@dataclass
class Counts:
    """What became of the client's requests."""

    sent: int = 0
    let_in: int = 0
    refused: int = 0
    broken: int = 0
    open: int = 0
    most_open: int = 0
    voices: list[str] = field(default_factory=list)

    def count(self, status: int) -> bool:
        """Count an answer; return whether the request was let in."""
        is_let_in = status < _REFUSED
        self.let_in += is_let_in
        self.refused += not is_let_in
        return is_let_in

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Count a request as held open inside the context."""
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            yield
        finally:
            self.open -= 1

    async def hold(self, request: Awaitable[int]) -> None:
        """Send a request that is to stall or to wait, and count what becomes of it."""
        self.sent += 1
        answering = asyncio.ensure_future(request)
        try:
            await asyncio.wait({answering}, timeout=HELD_AFTER_SECONDS)
            if answering.done():
                status = await answering
                self.count(200 if status == _WAITED_TO_THE_END else status)
                return
            self.let_in += 1
            with self.holding():
                await answering
        finally:
            answering.cancel()


@dataclass
class Waits:
    """How long honest visitors waited, and how many were refused or got no result."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0


async def repeat(begin: Callable[[], Coroutine[Any, Any, None]], per_second: int) -> None:
    """Begin something so many times a second, until this is cancelled."""
    async with asyncio.TaskGroup() as under_way:
        loop = asyncio.get_running_loop()
        start, number = loop.time(), 0
        while True:
            number += 1
            under_way.create_task(begin())
            await asyncio.sleep(start + number / per_second - loop.time())


class Attacker:
    """One client that does its worst."""

    def __init__(self, api: str, addresses: Iterator[str]) -> None:
        self._voices_url = f"{api}/api/v1/voices"
        self._waiting_url = f"{api}/api/v1/conversion"
        self._verifications_url = f"{api}/api/v1/verifications"
        noise = random.Random(7).randbytes(_LONGEST_SOUND_BYTES)  # noqa: S311 - no secret
        self._long_sound = raw_wav(noise, sample_rate=8_000)
        self._addresses = addresses
        self._files = cycle(COSTLIEST[name] for name in _SENT)
        self._created: list[str] = []
        self._own_url = f"{api}/api/v1/own-characters"
        self._owned: list[tuple[str, dict[str, str]]] = []
        self.counts = Counts()
        self._client = httpx.AsyncClient(
            timeout=_LAST_SECONDS, limits=httpx.Limits(max_connections=None)
        )

    async def flood(self, attack: Attack) -> None:
        async with self._client:
            await repeat(lambda: self._try(attack), REQUESTS_PER_SECOND)

    async def _try(self, attack: Attack) -> None:
        try:
            await attack(self)
        except (httpx.TransportError, OSError):
            self.counts.broken += 1

    async def send_costly_file(self) -> None:
        """Create a voice and upload one of the files whose decoding costs most."""
        created = await self._create()
        if created is None:
            return
        upload = created.json()["upload"]
        stored = await self._client.put(
            upload["url"], headers=upload["headers"], content=next(self._files)()
        )
        if stored.is_success:
            self.counts.voices.append(created.json()["voice_id"])

    async def create_voice(self) -> None:
        await self._create()

    async def speak_one_kana(self) -> None:
        """Create a voice of one kana that is repeated, which the built-in voice cannot hold."""
        wish = {"text": ONE_KANA, "character": "mei"}
        created = await self._ask(self._voices_url, {}, wish)
        if created.is_success:
            self.counts.voices.append(created.json()["voice_id"])

    async def wait_for_nothing(self) -> None:
        if len(self._created) < _VOICES_TO_WAIT_FOR:
            created = await self._client.post(self._voices_url, headers=self._origin())
            if created.is_success:
                self._created.append(created.json()["voice_id"])
        if self._created:
            voice_id = random.choice(self._created)  # noqa: S311 - no secrets
            await self.counts.hold(self._wait(voice_id))

    async def verify_noise(self) -> None:
        """Ask whether a minute of noise was made here, which takes the longest search."""
        self.counts.sent += 1
        answer = await self._client.post(
            self._verifications_url, content=self._long_sound, headers=self._origin()
        )
        self.counts.count(answer.status_code)

    async def collect_recordings(self) -> None:
        """Begin a character of the own voice, or send one more recording of nothing for it."""
        if self._owned and random.random() < _RECORDINGS_SHARE:  # noqa: S311 - no secrets
            await self._send_nothing(*random.choice(self._owned))  # noqa: S311 - no secrets
            return
        answer = await self._ask(self._own_url, {}, OWN_CHARACTER)
        if answer.is_success:
            begun = answer.json()
            key = {"Own-Character-Key": begun["key"]}
            self._owned.append((f"{self._own_url}/{begun['character_id']}", key))

    async def _send_nothing(self, character: str, key: dict[str, str]) -> None:
        wish = {"kind": "speech", "content_type": "audio/webm"}
        answer = await self._ask(f"{character}/recordings", key, wish)
        if answer.is_success:
            upload = answer.json()["upload"]
            await self._client.put(upload["url"], headers=upload["headers"], content=b"nothing")
        await self._ask(f"{character}/training", key, None)

    async def _ask(
        self, url: str, key: dict[str, str], body: dict[str, Any] | None
    ) -> httpx.Response:
        self.counts.sent += 1
        answer = await self._client.post(url, json=body, headers={**key, **self._origin()})
        self.counts.count(answer.status_code)
        return answer

    async def _wait(self, voice_id: str) -> int:
        answer = await self._client.get(f"{self._waiting_url}/{voice_id}", headers=self._origin())
        return answer.status_code

    async def stall_upload(self) -> None:
        """Begin to send a recording of 8 MB through the api, and send no more of it."""
        headers = {**_FORM, **self._origin()}
        await self.counts.hold(send_beginning("PUT", self._voices_url, headers, _FORM_BEGINS))

    async def _create(self) -> httpx.Response | None:
        self.counts.sent += 1
        answer = await self._client.post(
            self._voices_url, json={"content_type": "audio/webm"}, headers=self._origin()
        )
        return answer if self.counts.count(answer.status_code) else None

    def _origin(self) -> dict[str, str]:
        return {"X-Forwarded-For": next(self._addresses)}


async def send_beginning(
    method: str, address: str, headers: Mapping[str, str], beginning: bytes
) -> int:
    """Send the beginning of a request's body, wait for the answer, and return its status.

    A usual client reads no answer before it has sent everything.
    """
    url = httpx.URL(address)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        lines = [f"{method} {url.path} HTTP/1.1", f"Host: {url.netloc.decode()}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + beginning)
        async with asyncio.timeout(_LAST_SECONDS):
            answer = await reader.readline()
    finally:
        writer.close()
    if not answer:
        raise ConnectionError("the connection was closed without an answer")
    return int(answer.split()[1])


ATTACKS: Final[Mapping[str, Attack]] = {
    "creates": Attacker.create_voice,
    "waits": Attacker.wait_for_nothing,
    "stalled uploads": Attacker.stall_upload,
    "verifications": Attacker.verify_noise,
    "texts of one kana": Attacker.speak_one_kana,
    "own characters": Attacker.collect_recordings,
    # The last, because its recordings are still being refused and delivered again afterwards.
    "costly files": Attacker.send_costly_file,
}


def one_address(number: int) -> Iterator[str]:
    """Yield the same address for ever; another one for every number."""
    while True:
        yield f"203.0.113.{number}"


def one_network(number: int) -> Iterator[str]:
    """Yield new addresses of one IPv6 /48 for ever; of another one for every number."""
    network = ipaddress.IPv6Network(f"2001:db8:{number}::/48")
    while True:
        yield str(network[random.getrandbits(80)])


PLACES: Final[Mapping[str, Callable[[int], Iterator[str]]]] = {
    "one address": one_address,
    "one /48": one_network,
}


async def endings(cloud: FaultyCloud, voices: list[str]) -> Counter[str]:
    """Wait for the ends of voices; return how many ended in what, `waiting` if they did not."""
    ends: Counter[str] = Counter()
    with suppress(TimeoutError):
        async with asyncio.timeout(_ENDS_WITHIN_SECONDS):
            for voice_id in voices:
                with suppress(UnknownVoiceError):
                    voice = await cloud.ended(voice_id)
                    ends[voice.error.code.value if voice.error else "done"] += 1
    if left := len(voices) - ends.total():
        ends["waiting"] = left
    return ends


async def beside(flood: Coroutine[Any, Any, None], measurement: Awaitable[Waits]) -> Waits:
    """Return the waits of honest clients during a flood, which ends with their measurement."""
    flooding = asyncio.create_task(flood)
    try:
        waits = await measurement
        if flooding.done():
            flooding.result()
    finally:
        flooding.cancel()
        with suppress(asyncio.CancelledError):
            await flooding
    return waits
