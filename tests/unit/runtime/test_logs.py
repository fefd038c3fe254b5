from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import hpack
import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from infra.local.cloud.memory import MemoryVoices
from shared.characters.bucket import new_character_id
from shared.runtime import logs
from shared.runtime.logs import (
    MOST_CHARACTERS,
    CloudLoggingFormatter,
    TraceMiddleware,
    about_trace,
    about_voice,
    pseudonym,
)
from shared.voices.store import UnknownVoiceError
from shared.voices.voice import new_voice_id
from tests.support.logs import log_book, logged_as
from tests.support.voices import NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

LOG = logging.getLogger("test")
KEY = "a key for tests"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def entry_of(**fields: Any) -> dict[str, Any]:
    record = logging.makeLogRecord(
        {"name": "n", "levelname": "INFO", "msg": "hi %s", "args": ("you",)} | fields
    )
    line = CloudLoggingFormatter("p", KEY).format(record)
    assert "\n" not in line
    parsed: dict[str, Any] = json.loads(line)
    return parsed


def test_an_entry_is_one_line_of_json_with_severity_and_message() -> None:
    entry = entry_of(levelname="WARNING", created=NOW.timestamp())

    assert entry == {
        "severity": "WARNING",
        "message": "hi you",
        "logger": "n",
        "time": NOW.isoformat(),
    }


def test_texts_that_are_too_long_lose_their_middle() -> None:
    """A process that ended with an error of its server had written 211 KB in one entry."""
    error = ValueError("y" * 100_000)
    exc_info = (ValueError, error, None)
    entry = entry_of(msg="begin" + "x" * 100_000 + "%s", exc_info=exc_info)

    for text in (entry["message"], entry["stack_trace"]):
        assert len(text) < MOST_CHARACTERS + 50
        assert "characters left out" in text
    assert entry["message"].startswith("begin")
    assert entry["message"].endswith("you")
    assert entry["stack_trace"].startswith("ValueError: y")


def test_half_a_character_out_of_a_message_can_still_be_written() -> None:
    record = logging.makeLogRecord({"msg": "stray", "object": "\ud800", "name_ja": "声"})
    line = CloudLoggingFormatter("p", KEY).format(record)

    assert "声".encode() in line.encode()
    assert json.loads(line)["object"] == "\ud800"


def test_extra_values_of_any_type_become_fields() -> None:
    entry = entry_of(event="conversion_done", attempt=2, stages={"f0": 1.5}, at=NOW, name_ja="声")

    assert (entry["event"], entry["attempt"], entry["stages"]) == (
        "conversion_done",
        2,
        {"f0": 1.5},
    )
    assert (entry["at"], entry["name_ja"]) == (str(NOW), "声")


def test_an_exception_is_shown_with_its_stack() -> None:
    try:
        json.loads("broken")
    except ValueError:
        entry = entry_of(exc_info=sys.exc_info())

    assert "JSONDecodeError: Expecting value" in entry["stack_trace"]
    assert "test_logs.py" in entry["stack_trace"]


def test_the_voice_is_named_in_everything_logged_about_it() -> None:
    with log_book() as book:
        LOG.info("before")
        with about_voice("v-1"):
            LOG.info("outer")
            with about_voice("v-2"):
                LOG.info("inner")
            LOG.info("outer again")
        LOG.info("after")

    first, second = logged_as("v-1"), logged_as("v-2")
    named = [entry.get("voice") for entry in book.entries]
    assert named == [None, first, second, first, None]


def test_a_pseudonym_depends_on_every_part_of_voice_id_and_key() -> None:
    # HMAC-SHA256 of the same text with the same key, by another program (openssl dgst -hmac).
    voice_id = "41d83e9f-f40d-443c-b5e3-8ddfbcbdf56e"

    assert pseudonym(voice_id, KEY) == "90bd0622f3768a97f33d3797b8971a09"
    others = {pseudonym(voice_id[:-1] + "f", KEY), pseudonym(voice_id, KEY + " ")}
    assert len(others | {pseudonym(voice_id, KEY)}) == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"msg": "voice %s is gone", "args": ("VOICE",)},
        {"msg": "x %s", "object": "VOICE/1.wav"},
        {"msg": "x %s", "stages": {"VOICE": ["gs://uploads/VOICE#1"]}},
        {"msg": "x %s", "address": "https://a.example/api/v1/conversion/VOICE?x=1"},
        {"msg": "x %s", "reason": LookupError("there is no voice VOICE")},
    ],
)
@pytest.mark.parametrize("written", [str.lower, str.upper])
@pytest.mark.parametrize("draw", [new_voice_id, new_character_id])
def test_no_entry_contains_the_id_of_a_voice_or_of_a_visitors_own_character(
    fields: dict[str, Any], written: Callable[[str], str], draw: Callable[[], str]
) -> None:
    voice_id = draw()

    def filled(value: Any) -> Any:
        if isinstance(value, Exception):
            return type(value)(filled(str(value)))
        if isinstance(value, dict):
            return {filled(key): filled(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(filled, value))
        return value.replace("VOICE", written(voice_id))

    text = json.dumps(entry_of(**filled(fields)))

    assert voice_id not in text.lower()
    assert pseudonym(voice_id, KEY) in text


async def test_no_stack_trace_contains_a_voice_id() -> None:
    voice_id = new_voice_id()
    try:
        await MemoryVoices().read(voice_id)
    except UnknownVoiceError:
        entry = entry_of(exc_info=sys.exc_info())

    assert voice_id not in json.dumps(entry)
    assert f"there is no voice {pseudonym(voice_id, KEY)}" in entry["stack_trace"]


def test_a_command_prints_what_the_logs_call_a_voice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    voice_id = new_voice_id()
    monkeypatch.delenv(logs.KEY_VARIABLE, raising=False)

    assert logs.main([voice_id]) == 0
    monkeypatch.setenv(logs.KEY_VARIABLE, KEY)
    assert logs.main([voice_id.upper()]) == 0
    assert logs.main([]) == 2

    printed = capsys.readouterr()
    assert printed.out.splitlines() == [logged_as(voice_id), pseudonym(voice_id, KEY)]
    assert "Which voice?" in printed.err


async def test_voices_handled_at_the_same_time_are_not_mixed_up() -> None:
    meet = asyncio.Barrier(2)

    async def work(voice_id: str) -> None:
        with about_voice(voice_id):
            await meet.wait()
            LOG.info(voice_id)

    with log_book() as book:
        await asyncio.gather(work("v-1"), work("v-2"))

    assert all(entry["voice"] == logged_as(entry["message"]) for entry in book.entries)
    assert len(book.entries) == 2


async def logged_during(headers: dict[str, str]) -> dict[str, Any]:
    async def answer(_request: Request) -> Response:
        LOG.info("working")
        return Response()

    app = TraceMiddleware(Starlette(routes=[Route("/", answer)]))
    with log_book() as book:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://trace.test"
        ) as client:
            await client.get("/", headers=headers)
    return next(entry for entry in book.entries if entry["message"] == "working")


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"},
        {"X-Cloud-Trace-Context": f"{TRACE}/1234;o=1"},
        {"X-Cloud-Trace-Context": TRACE},
        {"traceparent": "garbage", "X-Cloud-Trace-Context": TRACE},
    ],
)
async def test_entries_link_to_the_requests_trace(headers: dict[str, str]) -> None:
    entry = await logged_during(headers)

    assert entry["logging.googleapis.com/trace"] == f"projects/p/traces/{TRACE}"


def test_where_voices_have_traces_entries_about_a_voice_link_to_its_own() -> None:
    record = logging.makeLogRecord({"msg": "working"})
    formatter = CloudLoggingFormatter("p", KEY, has_traces=True)

    voice_id = new_voice_id()
    with about_trace(TRACE), about_voice(voice_id):
        about = json.loads(formatter.format(record))
    with about_trace(TRACE):
        other = json.loads(formatter.format(record))

    trace = f"projects/p/traces/{pseudonym(voice_id, KEY)}"
    assert about["logging.googleapis.com/trace"] == trace
    assert other["logging.googleapis.com/trace"] == f"projects/p/traces/{TRACE}"


@pytest.mark.parametrize("headers", [{}, {"traceparent": "00-XYZ-1-01"}, {"traceparent": ""}])
async def test_without_a_trace_no_link_is_logged(headers: dict[str, str]) -> None:
    assert "logging.googleapis.com/trace" not in await logged_during(headers)


async def test_scopes_other_than_requests_pass_unchanged() -> None:
    seen: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["type"])

    async def receive() -> dict[str, Any]:
        return {}

    async def send(_message: Any) -> None:
        pass

    await TraceMiddleware(app)({"type": "lifespan"}, receive, send)
    assert seen == ["lifespan"]


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger, put back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:], root.level = handlers, level


def messages(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [json.loads(line)["message"] for line in capsys.readouterr().out.splitlines()]


def test_no_library_logs_a_token_at_any_level(
    root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("p", "DEBUG", KEY)

    # What an HTTP/2 server does with the headers of each request.
    sent = hpack.Encoder().encode([("authorization", "Bearer secret")], huffman=False)
    ((name, value),) = hpack.Decoder().decode(sent, raw=True)
    root_logger.debug("%r has been read", name)

    assert b"secret" in value
    output = capsys.readouterr().out
    assert "has been read" in output
    assert "secret" not in output


async def test_successful_requests_of_our_own_are_not_logged(
    root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("p", "INFO", KEY)

    transport = httpx.MockTransport(lambda _: httpx.Response(204))
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.get("http://convert.test/warmup")).is_success
    root_logger.info("warmed up")

    assert messages(capsys) == ["warmed up"]


def test_a_configured_process_logs_to_standard_output_from_its_level_on(
    root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("p", "WARNING", KEY)
    root_logger.info("too little")
    root_logger.warning("enough")

    assert messages(capsys) == ["enough"]
