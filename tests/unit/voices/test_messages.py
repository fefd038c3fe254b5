from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.voices.messages import (
    ConversionMessage,
    MalformedMessageError,
    PushMessage,
    parse_conversion_message,
    parse_push,
    parse_upload_event,
)
from tests.support.messages import envelope, upload_notification
from tests.support.voices import an_upload

VOICE_ID = "3c7d1f2a-94be-4c0d-8f11-5a6b7c8d9e0f"
UPLOAD = an_upload(VOICE_ID)


def test_a_push_is_read_with_everything_in_it() -> None:
    body = json.dumps(envelope(b"content", {"a": "1"})).encode()

    assert parse_push(body) == PushMessage(
        b"content", {"a": "1"}, "1", "projects/p/subscriptions/s", "2026-03-04T05:06:07Z"
    )


@pytest.mark.parametrize("message", [{}, {"data": "", "attributes": None}, {"data": None}])
def test_a_push_without_content_is_empty(message: dict[str, Any]) -> None:
    assert parse_push(json.dumps({"message": message}).encode()) == PushMessage(b"")


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "body is not JSON"),
        (b"[" * 100_000, "body is not JSON"),
        (b"[]", "body is not a JSON object"),
        (b"{}", "no object `message`"),
        (b'{"message": []}', "no object `message`"),
        (b'{"message": {"data": "%%%%"}}', "`message.data` is not base64"),
        (b'{"message": {"data": 5}}', "`message.data` is not base64"),
        (b'{"message": {"data": "\xc3\xa4"}}', "`message.data` is not base64"),
        (b'{"message": {"attributes": [1]}}', "`message.attributes` is not an object"),
    ],
)
def test_a_malformed_push_is_refused_with_the_reason(body: bytes, complaint: str) -> None:
    with pytest.raises(MalformedMessageError, match=complaint):
        parse_push(body)


@given(st.binary(max_size=200))
def test_no_body_whatever_breaks_the_reader(body: bytes) -> None:
    with suppress(MalformedMessageError):
        parse_push(body)


def test_a_notification_contains_bucket_object_generation_and_size() -> None:
    event = parse_upload_event(upload_notification(UPLOAD))

    assert (event.event_type, event.name, event.upload) == ("OBJECT_FINALIZE", VOICE_ID, UPLOAD)
    assert event.happened_at == "2026-03-04T05:06:07.123456Z"


def without(name: str) -> PushMessage:
    message = upload_notification(UPLOAD)
    left = {key: value for key, value in message.attributes.items() if key != name}
    return PushMessage(message.data, left)


@pytest.mark.parametrize(
    "message",
    [
        *(
            PushMessage(data, upload_notification(UPLOAD).attributes)
            for data in (b"x", b"{}", b'{"size": "many"}', b'{"size": null}', b'{"size": 1e999}')
        ),
        upload_notification(UPLOAD, objectGeneration="latest"),
        *map(without, ("eventType", "bucketId", "objectId", "objectGeneration")),
    ],
)
def test_a_malformed_notification_is_refused(message: PushMessage) -> None:
    with pytest.raises(MalformedMessageError):
        parse_upload_event(message)


def test_a_notification_without_a_type_or_a_time_is_read_all_the_same() -> None:
    message = without("eventTime")
    fields = json.loads(message.data)
    del fields["contentType"]

    event = parse_upload_event(PushMessage(json.dumps(fields).encode(), message.attributes))

    assert (event.happened_at, event.upload.content_type) == ("", "application/octet-stream")


def test_a_conversion_message_survives_the_way_and_names_the_client_if_it_is_known() -> None:
    named = ConversionMessage(VOICE_ID, UPLOAD, "0123")

    assert parse_conversion_message(PushMessage(named.encode())) == named
    for strange in (None, 7, ["0123"]):
        assert parse_conversion_message(PushMessage(wish(client=strange))).client is None


def wish(**changes: Any) -> bytes:
    fields = json.loads(ConversionMessage(VOICE_ID, UPLOAD).encode())
    return json.dumps(fields | changes).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        wish(upload=None),
        wish(upload={}),
        wish(upload=json.loads(wish())["upload"] | {"generation": "x"}),
        wish(upload=json.loads(wish())["upload"] | {"bytes": float("inf")}),
        wish(voice_id="1"),
        wish(voice_id=None),
    ],
)
def test_a_malformed_conversion_message_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        parse_conversion_message(PushMessage(data))
