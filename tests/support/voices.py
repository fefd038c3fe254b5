"""Builders of voices in every state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from shared.voices import voice as voices_of
from shared.voices.objects import result_name, upload_name
from shared.voices.voice import ErrorCode, Input, Options, Result, Speaking, Voice, VoiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.voices.store import Snapshot, VoiceStore

NOW = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)
SECOND = timedelta(seconds=1)
CLIENT = "0123456789abcdef"
ERROR = VoiceError(ErrorCode.SILENT, "There is no voice in the recording.")


def an_upload(voice_id: str, **changes: Any) -> Input:
    fields: dict[str, Any] = {
        "bucket": "uploads",
        "object": upload_name(voice_id),
        "generation": 1_700_000_000_000_001,
        "content_type": "audio/webm;codecs=opus",
        "bytes": 4321,
    }
    return Input(**(fields | changes))


def a_result(voice_id: str, attempt: int = 1, **changes: Any) -> Result:
    name = result_name(voice_id, attempt, "wav")
    fields: dict[str, Any] = {
        "bucket": "results",
        "object": name,
        "url": f"https://storage.example/results/{name}",
        "url_expires_at": NOW + timedelta(hours=1),
        "content_type": "audio/wav",
        "bytes": 1234,
        "seconds": 2.5,
        "sha256": "ab" * 32,
        "synthetic": {"comment": "Synthetic speech", "character": "mei"},
    }
    return Result(**(fields | changes))


def a_waiting(owner: str | None = None, now: datetime = NOW, **options: Any) -> Voice:
    return voices_of.create(
        voices_of.new_voice_id(),
        "mei",
        Options(**options),
        now=now,
        owner=owner,
        client=CLIENT,
    )


def a_text() -> Voice:
    return a_waiting(speaking=Speaking(speed=1.5, style=7))


def a_queued() -> Voice:
    voice = a_waiting()
    return voices_of.queue(voice, NOW, an_upload(voice.voice_id))


def a_converting(now: datetime = NOW) -> Voice:
    voice = a_queued()
    return voices_of.lease(voice, now, an_upload(voice.voice_id))


def a_done() -> Voice:
    voice = a_converting()
    return voices_of.finish(
        voice,
        NOW,
        voice.attempt,
        a_result(voice.voice_id),
        seconds=2.5,
        timings={"decode": 1.5, "network": 20.0},
    )


def a_failed(error: VoiceError = ERROR) -> Voice:
    voice = a_converting()
    return voices_of.fail_attempt(voice, NOW, voice.attempt, error)


EVERY_STATE: dict[str, Callable[[], Voice]] = {
    "waiting": a_waiting,
    "queued": a_queued,
    "converting": a_converting,
    "done": a_done,
    "failed": a_failed,
}


async def stored(store: VoiceStore, voice: Voice) -> Snapshot:
    await store.create(voice)
    return await store.read(voice.voice_id)


def is_sentence(text: str) -> bool:
    """Return whether a text can be shown to a visitor as it is."""
    return text[:1].isupper() and not text.isupper() and text.endswith(".")
