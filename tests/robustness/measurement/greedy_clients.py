"""What a client of `compat` does that wants everything for itself, beside honest ones.

Each has a key of its own, as an operator gives it to them.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Final, TypeAlias

import httpx
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ResponseReceived
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from functions.compat.text_socket import PATH, SUBPROTOCOL
from shared.container.protocols import MOST_RESETS
from tests.robustness.measurement.attacks import Counts, Waits, beside, repeat, send_beginning

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Greed: TypeAlias = "Callable[[GreedyClient], Awaitable[None]]"

KEYS: Final = {name: f"the-key-of-the-{name}-client-of-this-run" for name in ("honest", "greedy")}
HONEST: Final = 5
PAUSE_SECONDS: Final = 2.0
REQUESTS_PER_SECOND: Final = 20
AT_ONCE: Final = 30
"""How many requests are sent in the same moment to get more than a key may have."""

BEYOND_LIMIT: Final = "texts at once, beyond the key's limit"

_SENTENCE: Final = "今日はとてもいい天気ですね。"
_LONG_TEXT: Final = _SENTENCE * 80
_TEXT_AT_ONCE: Final = _SENTENCE * 18
_DIGITS: Final = "9" * 1100
"""Nothing takes longer to say for each of its signs, and it has no commas."""
_KANA: Final = "っ" * 480
"""A sound that the built-in voice cannot hold."""
_LAST_SECONDS: Final = 60.0
_FEW: Final = 10
_AT_ONCE: Final = 7
_FORM: Final = {"content-type": "multipart/form-data; boundary=b", "content-length": "8000000"}
_FORM_BEGINS: Final = (
    b'--b\r\nContent-Disposition: form-data; name="audio"; filename="a.wav"\r\n'
    b"Content-Type: audio/wav\r\n\r\n"
)


class GreedyClient:
    def __init__(self, address: str, key: str = "greedy") -> None:
        self.counts = Counts()
        self._few = asyncio.Semaphore(_FEW)
        self._client = httpx.AsyncClient(
            base_url=address,
            headers={"Authorization": f"Bearer {KEYS[key]}"},
            timeout=_LAST_SECONDS,
            limits=httpx.Limits(max_connections=None),
        )
        self._all_are_ready = asyncio.Barrier(AT_ONCE)
        self._address = address
        self._socket = address.replace("http", "ws") + PATH

    async def flood(self, greed: Greed) -> None:
        async with self._client:
            await repeat(lambda: self._try(greed), REQUESTS_PER_SECOND)

    async def _try(self, greed: Greed) -> None:
        try:
            await greed(self)
        except (httpx.TransportError, WebSocketException, OSError):
            self.counts.broken += 1

    async def ask_for_much(self) -> None:
        await self._ask(_LONG_TEXT, reads=True)

    async def ask_for_few(self) -> None:
        """Ask for minutes of speech, ten times at once and no more, and read all of it."""
        if not self._few.locked():
            async with self._few:
                await self._ask(_LONG_TEXT, reads=True)

    async def ask_for_digits(self) -> None:
        await self._ask(_DIGITS, reads=True)

    async def ask_at_once(self) -> None:
        """Ask for half a minute of speech in the same moment as others of this client."""
        await self._all_are_ready.wait()
        await self._ask(_TEXT_AT_ONCE, reads=True)

    async def ask_for_one_kana(self) -> None:
        await self._ask(_KANA, reads=True)

    async def read_nothing(self) -> None:
        await self._ask(_LONG_TEXT, reads=False)

    async def _ask(self, text: str, *, reads: bool) -> None:
        counts = self.counts
        counts.sent += 1
        body = {"model": "tts-1", "voice": "mei", "input": text, "response_format": "pcm"}
        async with self._client.stream("POST", "/v1/audio/speech", json=body) as answer:
            if not counts.count(answer.status_code):
                return
            with counts.holding():
                if reads:
                    async for _ in answer.aiter_raw():
                        pass
                else:
                    await asyncio.sleep(_LAST_SECONDS)

    async def stall_recording(self) -> None:
        address = f"{self._address}/v1/speech-to-speech/ned"
        headers = {**_FORM, "xi-api-key": KEYS["greedy"]}
        await self.counts.hold(send_beginning("POST", address, headers, _FORM_BEGINS))

    async def write_without_end(self) -> None:
        """Let a text in pieces grow over a WebSocket, and never end it."""
        counts = self.counts
        counts.sent += 1
        headers = {"Authorization": f"Bearer {KEYS['greedy']}"}
        async with connect(
            self._socket,
            subprotocols=[SUBPROTOCOL],  # type: ignore[list-item] # a NewType
            additional_headers=headers,
        ) as socket:
            await socket.send(json.dumps({"type": "begin", "voice": "mei"}))
            is_let_in = False
            while True:
                await socket.send(json.dumps({"type": "text", "text": _SENTENCE * 8}))
                async for message in socket:
                    if isinstance(message, bytes):
                        counts.let_in += not is_let_in
                        is_let_in = True
                        break
                    if json.loads(message)["type"] == "error":
                        counts.refused += 1
                        return

    async def ask_without_key(self) -> None:
        """Send many requests at once, of which one has a key."""
        host, key = self._address.removeprefix("http://"), f"Authorization: Bearer {KEYS['greedy']}"
        one = f"GET /version HTTP/1.1\r\nHost: {host}\r\n"
        asked = f"{one}{key}\r\n\r\n" + f"{one}\r\n" * _AT_ONCE
        reader, writer = await asyncio.open_connection(*host.split(":"))
        try:
            writer.write(asked.encode())
            for _ in range(_AT_ONCE + 1):
                self.counts.sent += 1
                head = await reader.readuntil(b"\r\n\r\n")
                self.counts.count(int(head.split()[1]))
                length = head.lower().partition(b"content-length: ")[2].split()[0]
                await reader.readexactly(int(length))
        except asyncio.IncompleteReadError:
            self.counts.broken += 1
        finally:
            writer.close()

    async def take_back(self) -> None:
        """Send requests over HTTP/2 and take them back at once, until the connection is closed."""
        host = self._address.removeprefix("http://")
        reader, writer = await asyncio.open_connection(*host.split(":"))
        client = H2Connection(H2Configuration(client_side=True))
        client.initiate_connection()
        headers = [(":method", "GET"), (":authority", host), (":scheme", "http")]
        headers += [(":path", "/version"), ("authorization", f"Bearer {KEYS['greedy']}")]
        for number in range(2 * MOST_RESETS):
            client.send_headers(2 * number + 1, headers, end_stream=True)
            if number:
                client.reset_stream(2 * number + 1)
        self.counts.sent += 2 * MOST_RESETS
        try:
            writer.write(client.data_to_send())
            async with asyncio.timeout(_LAST_SECONDS):
                while received := await reader.read(65_536):
                    events = client.receive_data(received)
                    self.counts.let_in += sum(isinstance(one, ResponseReceived) for one in events)
            self.counts.refused += MOST_RESETS
        finally:
            writer.close()


ATTACKS: Final[Mapping[str, Greed]] = {
    "long texts": GreedyClient.ask_for_much,
    "ten long texts": GreedyClient.ask_for_few,
    "texts of digits": GreedyClient.ask_for_digits,
    "one repeated kana": GreedyClient.ask_for_one_kana,
    "long texts, unread": GreedyClient.read_nothing,
    "stalled recordings": GreedyClient.stall_recording,
    "texts without an end": GreedyClient.write_without_end,
    BEYOND_LIMIT: GreedyClient.ask_at_once,
    "requests without a key": GreedyClient.ask_without_key,
    "requests taken back": GreedyClient.take_back,
}

WITHIN_LIMITS: Final = frozenset({"ten long texts"})
"""What comes with the honest clients' key, and no limit refuses."""


def limit_of_keys(seconds: float) -> int:
    """Return a limit of characters that honest clients do not reach in two measurements."""
    honest = 2 * HONEST * (seconds / PAUSE_SECONDS + 1) * len(_SENTENCE)
    return round(honest) + len(_TEXT_AT_ONCE)


def most_let_in(limit: int) -> int:
    """Return how many of the texts at once a key may have spoken with a limit of characters."""
    return limit // len(_TEXT_AT_ONCE)


async def _visit_for_ever(address: str, number: int, waits: Waits, end: float) -> None:
    key = {"Authorization": f"Bearer {KEYS['honest']}"}
    body = {"model": "tts-1", "voice": "mei", "input": _SENTENCE, "response_format": "wav"}
    async with httpx.AsyncClient(base_url=address, headers=key, timeout=_LAST_SECONDS) as client:
        await asyncio.sleep(PAUSE_SECONDS * number / HONEST)
        while time.monotonic() < end:
            begin = time.monotonic()
            try:
                answer = await client.post("/v1/audio/speech", json=body)
            except httpx.TransportError:
                waits.failed += 1
            else:
                waits.seconds.append(time.monotonic() - begin)
                waits.failed += not answer.is_success
            await asyncio.sleep(PAUSE_SECONDS)


async def measure(address: str, seconds: float) -> Waits:
    """Let honest clients ask for a sentence every other second, for so long."""
    waits, end = Waits(), time.monotonic() + seconds
    await asyncio.gather(*(_visit_for_ever(address, n, waits, end) for n in range(1, HONEST + 1)))
    return waits


async def measure_beside(address: str, seconds: float, attack: str) -> tuple[Waits, Counts]:
    """Let honest clients ask for so long beside a greedy one."""
    greedy = GreedyClient(address, "honest" if attack in WITHIN_LIMITS else "greedy")
    return await beside(greedy.flood(ATTACKS[attack]), measure(address, seconds)), greedy.counts
