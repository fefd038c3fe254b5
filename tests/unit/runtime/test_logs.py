from __future__ import annotations

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

LOG = logging.getLogger("test")
KEY = "a key for tests"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def entry_of(**fields: Any) -> dict[str, Any]:
    record = logging.makeLogRecord(
        {"name": "n", "levelname": "INFO", "msg": "hi %s", "args": ("you",)} | fields
    )
    line = CloudLoggingFormatter("p", KEY).format(record)
    assert b"\n" not in line.encode()
    parsed: dict[str, Any] = json.loads(line)
    return parsed


def test_an_entry_is_one_line_of_json_with_extra_values_of_any_type_as_fields() -> None:
    fields = {"event": "done", "stages": {"f0": 1.5}, "name_ja": "声", "object": "\ud800"}
    entry = entry_of(levelname="WARNING", created=NOW.timestamp(), at=NOW, **fields)

    written = {"severity": "WARNING", "message": "hi you", "logger": "n", "time": NOW.isoformat()}
    assert entry == written | fields | {"at": str(NOW)}


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
        {"msg": "x %s", "stages": {"VOICE": ["gs://uploads/VOICE#1"]}},
        {"msg": "x %s", "reason": LookupError("there is no voice VOICE")},
    ],
)
@pytest.mark.parametrize(
    ("written", "draw"), [(str.lower, new_voice_id), (str.upper, new_character_id)]
)
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


async def test_a_stack_trace_has_no_voice_id() -> None:
    voice_id = new_voice_id()
    try:
        await MemoryVoices().read(voice_id)
    except UnknownVoiceError:
        entry = entry_of(exc_info=sys.exc_info())

    assert voice_id not in json.dumps(entry)
    assert f"there is no voice {pseudonym(voice_id, KEY)}" in entry["stack_trace"]
    assert "test_logs.py" in entry["stack_trace"]


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
    ("headers", "trace"),
    [
        ({"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}, f"projects/p/traces/{TRACE}"),
        ({"X-Cloud-Trace-Context": f"{TRACE}/1234;o=1"}, f"projects/p/traces/{TRACE}"),
        (
            {"traceparent": "garbage", "X-Cloud-Trace-Context": TRACE},
            f"projects/p/traces/{TRACE}",
        ),
        ({}, None),
        ({"traceparent": "00-XYZ-1-01"}, None),
    ],
)
async def test_entries_link_to_the_requests_trace_if_there_is_one(
    headers: dict[str, str], trace: str | None
) -> None:
    entry = await logged_during(headers)

    assert entry.get("logging.googleapis.com/trace") == trace


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


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger, put back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:], root.level = handlers, level


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


async def test_a_configured_process_logs_from_its_level_on_and_no_successful_requests_of_its_own(
    root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("p", "INFO", KEY)

    transport = httpx.MockTransport(lambda _: httpx.Response(204))
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.get("http://convert.test/warmup")).is_success
    root_logger.debug("too little")
    root_logger.info("enough")

    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["message"] for line in lines] == ["enough"]
