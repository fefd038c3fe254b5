from __future__ import annotations

import json

import pytest

from functions.live import protocol
from functions.live.protocol import (
    CancelRecording,
    EndRecording,
    MalformedError,
    StartRecording,
)
from shared.voices.media import UnsupportedContentTypeError

START = {"type": "start", "ticket": "t", "content_type": "audio/webm;codecs=opus"}
END = {"type": "end", "bytes": 3, "sha256": "0a" * 32}


def test_the_messages_of_a_client_are_read() -> None:
    assert protocol.parse(json.dumps(START)) == StartRecording(
        "t", "audio/webm;codecs=opus", hear=False
    )
    assert protocol.parse(json.dumps(START | {"hear": True})).hear  # type: ignore[union-attr]
    assert protocol.parse(json.dumps(END)) == EndRecording(3, "0a" * 32)
    assert protocol.parse('{"type": "cancel", "later": "fields"}') == CancelRecording()


@pytest.mark.parametrize(
    "message",
    [
        "",
        "[]",
        "[" * 2000,
        json.dumps({"type": "done"}),
        json.dumps({"type": ["start"]}),
        json.dumps({"type": "start"}),
        json.dumps(START | {"ticket": 1}),
        json.dumps(START | {"hear": 1}),
        json.dumps(START | {"padding": "x" * 2048}),
        json.dumps(END | {"bytes": -1}),
        json.dumps(END | {"bytes": True}),
        json.dumps(END | {"bytes": 1.0}),
        json.dumps(END | {"sha256": "0A" * 32}),
        json.dumps(END | {"sha256": "0a" * 32 + "\n"}),
        json.dumps(END | {"sha256": None}),
    ],
)
def test_what_is_no_message_of_the_protocol_is_refused(message: str) -> None:
    with pytest.raises(MalformedError):
        protocol.parse(message)


@pytest.mark.parametrize("content_type", ["text/html", "audio/webm\n", "audio/webm;" + "x" * 200])
def test_a_media_type_that_recordings_may_not_have_is_refused(content_type: str) -> None:
    with pytest.raises(UnsupportedContentTypeError):
        protocol.parse(json.dumps(START | {"content_type": content_type}))


def test_a_result_comes_in_pieces_that_every_client_takes() -> None:
    data = bytes(range(256)) * 2500
    description, *pieces = protocol.converted(data, "audio/wav")

    assert json.loads(description) == {
        "type": "converted",
        "content_type": "audio/wav",
        "bytes": len(data),
    }
    assert b"".join(map(bytes, pieces)) == data  # type: ignore[arg-type]
    assert max(map(len, pieces)) == protocol.LARGEST_PIECE
