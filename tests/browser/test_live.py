"""Recordings that are sent while they are spoken, and what happens when that does not work."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

from tests.browser.sounds import decode, median_pitch
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


# Without slots: Playwright keeps its wrappers of a bound method in its object.
@dataclass
class Wire:
    """The bytes that went over a socket, without the control messages."""

    sent: bytes = b""
    received: bytes = b""

    def listen(self, socket: WebSocket) -> None:
        socket.on("framesent", self._note_sent)
        socket.on("framereceived", self._note_received)

    def _note_sent(self, message: str | bytes) -> None:
        self.sent += message if isinstance(message, bytes) else b""

    def _note_received(self, message: str | bytes) -> None:
        self.received += message if isinstance(message, bytes) else b""


def test_a_recording_that_is_sent_while_it_is_spoken_needs_no_upload_and_no_download(
    new_visitor: OpenPage, cloud: Endpoints, tmp_path: Path
) -> None:
    visitor = new_visitor()
    wire = Wire()
    visitor.page.on("websocket", wire.listen)
    visitor.open()
    visitor.speak(seconds=2)
    visitor.wait_for("done")

    assert wire.received == _the_right_voice(visitor, cloud, tmp_path)
    assert wire.sent
    assert visitor.sent("PUT", cloud.storage) == []
    assert visitor.sent("GET", f"{cloud.storage}/voice-avatar-results") == []


def _sound(content: bytes, folder: Path) -> Samples:
    path = folder / "another"
    path.write_bytes(content)
    return decode(path)


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


def _cut_in_the_middle(socket: WebSocketRoute, number: int) -> None:
    """Cut the first connection after a piece of the recording; leave the second one alone."""
    server = socket.connect_to_server()
    if number > 1:
        return

    def forward(message: str | bytes) -> None:
        server.send(message)
        if isinstance(message, bytes):
            server.close(code=RESTARTING)
            socket.close(code=RESTARTING)

    socket.on_message(forward)


@pytest.mark.parametrize(("fault", "uploads"), [(_refuse, 1), (_cut_in_the_middle, 0)])
def test_a_socket_that_fails_costs_the_visitor_nothing(
    new_visitor: OpenPage,
    cloud: Endpoints,
    tmp_path: Path,
    fault: Callable[[WebSocketRoute, int], None],
    uploads: int,
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
    assert len(visitor.sent("PUT", cloud.storage)) == uploads


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
