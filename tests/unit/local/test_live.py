"""What a program records is sent to `live` while it comes; no microphone is needed for that."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest
from websockets.exceptions import ConnectionClosedError

from infra.local.commands import live
from infra.local.commands.batch import UsageError
from infra.local.commands.live import send_recorded

if TYPE_CHECKING:
    from infra.local.commands.live import LiveVisitor

SOUND = bytes(range(256)) * 40


@dataclass
class FakeVisitor:
    """Notes what is sent; closes the connection after as many messages as the test says."""

    most: int = 1000
    sent: list[bytes] = field(default_factory=list)
    is_finished: bool = False

    async def send(self, piece: bytes) -> None:
        if len(self.sent) == self.most:
            raise ConnectionClosedError(None, None)
        self.sent.append(piece)

    async def finish(self) -> None:
        self.is_finished = True


def record(visitor: FakeVisitor, program: str) -> None:
    """Send what a Python program writes."""
    command = (sys.executable, "-S", "-c", f"import os, sys, time\n{program}")
    asyncio.run(asyncio.wait_for(send_recorded(cast("LiveVisitor", visitor), command), 30))


def test_what_a_microphone_gives_in_tiny_pieces_is_sent_in_few_messages() -> None:
    visitor = FakeVisitor()
    record(
        visitor,
        "sound = bytes(range(256)) * 40\n"
        "for begin in range(0, len(sound), 64): os.write(1, sound[begin : begin + 64])",
    )

    assert b"".join(visitor.sent) == SOUND
    assert [len(piece) for piece in visitor.sent] == [4096, 4096, 2048]
    assert visitor.is_finished


def test_a_piece_is_sent_before_the_recording_has_ended() -> None:
    visitor = FakeVisitor(most=1)
    with pytest.raises(ConnectionClosedError):
        # It never ends by itself, and is ended with the connection.
        record(visitor, "while True: os.write(1, bytes(4096)); time.sleep(0.01)")

    assert visitor.sent == [bytes(4096)]
    assert not visitor.is_finished


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("sys.exit(1)", "could not record from the microphone"),
        ("time.sleep(60)", "gave no sound"),
        ("os.write(1, b'1'); os.close(1); time.sleep(60)", "does not end"),
    ],
)
def test_a_program_that_gives_nothing_or_does_not_end_is_given_up(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_RECORDER_SECONDS", 0.5)

    with pytest.raises(UsageError, match=said):
        record(FakeVisitor(), program)
