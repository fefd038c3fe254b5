"""Recordings that are sent while they are spoken, and what happens when that does not work."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

from shared.voices.store import document_path
from tests.browser.sounds import decode, median_pitch
from tests.browser.victim import running_victim
from tests.browser.visitor import BUSY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import WebSocket, WebSocketRoute

    from shared.speech.signal.sound import Samples
    from tests.browser.conftest import OpenPage
    from tests.browser.endpoints import Endpoints
    from tests.browser.visitor import Visitor

_LISTEN = """
const { connect } = AudioNode.prototype;
AudioNode.prototype.connect = function (target, ...others) {
  if (this instanceof AudioWorkletNode) {
    const analyser = this.context.createAnalyser();
    const samples = new Float32Array(analyser.fftSize);
    connect.call(this, analyser);
    window.listened = this;
    window.loudest = () => {
      analyser.getFloatTimeDomainData(samples);
      return Math.max(...samples);
    };
  }
  return connect.call(this, target, ...others);
};
window.loudest = () => 0;
"""
RESTARTING = 1012
RECORDINGS = "voice-avatar-uploads"
SLOW_BYTES_PER_SECOND = 12_000


# Without slots: Playwright keeps its wrappers of a bound method in its object.
@dataclass
class Wire:
    """The bytes that went over a socket, without the control messages."""

    sent: bytes = b""
    received: bytes = b""

    def listen(self, socket: WebSocket) -> None:
        """Record what a socket sends and receives from now on."""
        socket.on("framesent", self._note_sent)
        socket.on("framereceived", self._note_received)

    def _note_sent(self, message: str | bytes) -> None:
        self.sent += message if isinstance(message, bytes) else b""

    def _note_received(self, message: str | bytes) -> None:
        self.received += message if isinstance(message, bytes) else b""


def test_a_recording_that_is_sent_while_it_is_spoken_gives_what_its_upload_gives(
    new_visitor: OpenPage, cloud: Endpoints, tmp_path: Path
) -> None:
    visitor = new_visitor()
    wire = Wire()
    documents: list[dict[str, Any]] = []
    visitor.page.on("websocket", wire.listen)
    visitor.open()
    visitor.speak(
        seconds=2,
        meanwhile=lambda _: documents.append(_document(visitor, "GET")),
    )
    visitor.wait_for("done")
    result = _the_right_voice(visitor, cloud, tmp_path)

    stored = _document(visitor, "GET")["fields"]["input"]["mapValue"]["fields"]
    assert stored["bytes"]["integerValue"] == str(len(wire.sent))
    assert wire.received == result
    assert visitor.sent("PUT", cloud.storage) == []
    assert visitor.sent("GET", f"{cloud.storage}/voice-avatar-results") == []
    # The files differ in their signed statements, which say when they were made.
    uploaded = _uploaded(visitor, documents[0], wire.sent)
    assert np.array_equal(_sound(uploaded, tmp_path), _sound(result, tmp_path))


def _sound(content: bytes, folder: Path) -> Samples:
    """Return the sound of a file."""
    path = folder / "another"
    path.write_bytes(content)
    return decode(path)


def _uploaded(visitor: Visitor, document: dict[str, Any], recording: bytes) -> bytes:
    """Erase the voice, make it again as it was announced, upload the recording, get the result."""
    voice_id, cloud = visitor.voice_id(), visitor.cloud
    response = visitor.sent("POST", "/api/v1/voices")[-1].response()
    assert response is not None
    upload = response.json()["upload"]
    httpx.delete(f"{cloud.api}/api/v1/voices/{voice_id}").raise_for_status()
    # An empty object keeps the name used.
    httpx.delete(f"{cloud.storage}/storage/v1/b/{RECORDINGS}/o/{voice_id}").raise_for_status()
    _document(visitor, "PATCH", json={"fields": document["fields"]})
    httpx.put(upload["url"], headers=upload["headers"], content=recording).raise_for_status()
    done = httpx.get(f"{cloud.api}/api/v1/conversion/{voice_id}", timeout=60).json()
    return httpx.get(done["result"]["url"]).content


def _document(visitor: Visitor, method: str, **request: Any) -> dict[str, Any]:
    """Send a request about the voice's document to the emulator, with all rights."""
    cloud, voice_id = visitor.cloud, visitor.voice_id()
    documents = f"projects/{cloud.project_id}/databases/(default)/documents"
    address = f"http://{cloud.firestore}/v1/{documents}/{document_path(voice_id)}"
    answer = httpx.request(method, address, headers={"Authorization": "Bearer owner"}, **request)
    told: dict[str, Any] = answer.raise_for_status().json()
    return told


def test_visitors_can_hear_the_character_while_they_speak(
    new_visitor: OpenPage, cloud: Endpoints, tmp_path: Path
) -> None:
    visitor = new_visitor()
    visitor.page.add_init_script(_LISTEN)
    visitor.open()
    visitor.page.check("[name=hear]")

    def wait_for_sound(_: str) -> None:
        visitor.page.wait_for_function("() => window.loudest() > 0.01")
        # The portrait says it: its mouth opens and closes.
        visitor.page.wait_for_selector("#face .mouth.open")
        visitor.page.wait_for_selector("#face .mouth:not(.open)", state="attached")

    visitor.speak(seconds=2, meanwhile=wait_for_sound)
    visitor.wait_for("done")
    _the_right_voice(visitor, cloud, tmp_path)
    # Hearing ends with the recording.
    assert visitor.page.evaluate("() => window.listened.context.state") == "closed"


def test_the_mouth_is_still_for_who_prefers_less_motion(new_visitor: OpenPage) -> None:
    visitor = new_visitor(reduced_motion="reduce")
    visitor.page.add_init_script(_LISTEN)
    visitor.open()
    visitor.page.check("[name=hear]")
    moved: list[bool] = []

    def look(_: str) -> None:
        visitor.page.wait_for_function("() => window.loudest() > 0.01")
        visitor.page.wait_for_selector("#face img")
        for _attempt in range(20):
            moved.append(visitor.page.locator("#face .mouth.open").count() > 0)
            visitor.page.wait_for_timeout(40)

    visitor.speak(seconds=2, meanwhile=look)
    assert moved
    assert not any(moved)


def _refuse(socket: WebSocketRoute, _: int) -> None:
    socket.close(code=BUSY)


def _say_nothing(socket: WebSocketRoute, _: int) -> None:
    socket.on_message(lambda _: None)


def _cut_in_the_middle(socket: WebSocketRoute, number: int) -> None:
    _cut(socket, number, after=lambda message: isinstance(message, bytes))


def _cut_after_the_end(socket: WebSocketRoute, number: int) -> None:
    _cut(socket, number, after=lambda message: '"end"' in str(message))


def _cut(socket: WebSocketRoute, number: int, after: Callable[[str | bytes], bool]) -> None:
    """Pass a message on and cut the first connection; leave the second one alone."""
    server = socket.connect_to_server()
    if number > 1:
        return

    def forward(message: str | bytes) -> None:
        server.send(message)
        if after(message):
            server.close(code=RESTARTING)
            socket.close(code=RESTARTING)

    socket.on_message(forward)


@pytest.mark.parametrize(
    ("fault", "uploads"),
    [(_refuse, 1), (_say_nothing, 1), (_cut_in_the_middle, 0), (_cut_after_the_end, None)],
)
def test_a_socket_that_fails_costs_the_visitor_nothing(
    new_visitor: OpenPage,
    cloud: Endpoints,
    tmp_path: Path,
    fault: Callable[[WebSocketRoute, int], None],
    uploads: int | None,
) -> None:
    visitor = new_visitor()
    sockets: list[WebSocketRoute] = []

    def route(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        fault(socket, len(sockets))

    visitor.page.route_web_socket("**/live", route)
    visitor.open()
    visitor.speak(seconds=2)
    visitor.wait_for("done")
    _the_right_voice(visitor, cloud, tmp_path)
    assert uploads in (None, len(visitor.sent("PUT", cloud.storage)))


@pytest.mark.parametrize("step", ["frames", "recording_stored", "before_done"])
def test_a_killed_service_costs_the_visitor_nothing(
    new_visitor: OpenPage, cloud: Endpoints, tmp_path: Path, step: str
) -> None:
    visitor = new_visitor()
    with running_victim(cloud, tmp_path / "live.log") as victim:
        # The last two are between `end` and `converted`, and between `converted` and `done`.
        victim.dies_at = step

        def watch(socket: WebSocket) -> None:
            frames = 0

            def note(message: str | bytes) -> None:
                nonlocal frames
                frames += isinstance(message, bytes)
                if step == "frames" and frames == 5:
                    victim.kill()

            socket.on("framereceived", note)
            socket.on("framesent", note)

        visitor.page.on("websocket", watch)
        visitor.page.route("**/api/v1/voices", victim.offer)
        visitor.open()
        visitor.speak(seconds=2)
        visitor.wait_for("done")
        assert victim.died.is_set()
    _the_right_voice(visitor, cloud, tmp_path)
    # The recording is uploaded where the service could not store it.
    stored = [each.response() for each in visitor.sent("PUT", cloud.storage)]
    accepted = [each for each in stored if each is not None and each.ok]
    assert len(accepted) == (step == "frames")
    # The browser says on the console that the service is gone.
    visitor.complaints[:] = [each for each in visitor.complaints if victim.url not in each]


def test_a_policy_that_forbids_sockets_costs_the_visitor_nothing(
    new_visitor: OpenPage, cloud: Endpoints, tmp_path: Path
) -> None:
    visitor = new_visitor()
    page = httpx.get(cloud.page).text
    assert "ws://127.0.0.1:*" in page
    # A page that the test answers needs permission to speak to this machine's services.
    visitor.context.grant_permissions(["local-network-access", "microphone"], origin=cloud.api)
    visitor.answer(cloud.page, "GET", body=page.replace("ws://", "http://"))
    visitor.open()
    visitor.speak(seconds=2)
    visitor.wait_for("done")
    _the_right_voice(visitor, cloud, tmp_path)
    assert len(visitor.sent("PUT", cloud.storage)) == 1
    visitor.complaints[:] = [each for each in visitor.complaints if "ws://" not in each]


def test_a_slow_network_brings_the_same_voice_later(
    open_page: OpenPage, cloud: Endpoints, tmp_path: Path
) -> None:
    visitor = open_page()
    session = visitor.context.new_cdp_session(visitor.page)
    slow = {"offline": False, "latency": 300, "downloadThroughput": -1}
    session.send(
        "Network.emulateNetworkConditions", slow | {"uploadThroughput": SLOW_BYTES_PER_SECOND}
    )
    visitor.speak(seconds=2)
    visitor.wait_for("done")
    _the_right_voice(visitor, cloud, tmp_path)


def _the_right_voice(visitor: Visitor, cloud: Endpoints, folder: Path) -> bytes:
    """Check that there is one voice, done, shown once, and that it is the character's."""
    path = visitor.download(folder)
    result = path.read_bytes()
    address = f"{cloud.api}/api/v1/conversion/{visitor.voice_id()}"
    told: dict[str, Any] = httpx.get(address, timeout=60).json()["result"]
    # If the result was made again, the signed statement in the file says another time.
    stored = httpx.get(told["url"]).content
    assert hashlib.sha256(stored).hexdigest() == told["sha256"]
    assert np.array_equal(_sound(stored, folder), decode(path))
    assert median_pitch(decode(path)) > 200
    assert len(visitor.wishes()) == 1
    assert [each for each in visitor.seen() if each in ("busy", "problem")] == ["busy"]
    return result
