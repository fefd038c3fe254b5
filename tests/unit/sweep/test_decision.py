from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from functions.sweep.decision import Patience, Remedy, decide
from shared.voices.voice import LEASE
from tests.support.voices import (
    NOW,
    SECOND,
    a_converting,
    a_done,
    a_failed,
    a_queued,
    a_waiting,
    an_upload,
)

if TYPE_CHECKING:
    from shared.voices.voice import Voice

PATIENCE = Patience.of(unchanged_seconds=300, upload_url_seconds=600)
UNCHANGED = timedelta(seconds=300)
UPLOAD_ENDS = timedelta(seconds=1200)


def test_patience_is_set_in_seconds() -> None:
    patience = Patience.of(unchanged_seconds=300, upload_url_seconds=600)

    assert patience == Patience(timedelta(minutes=5), timedelta(minutes=10))


def test_a_waiting_voice_whose_event_was_lost_is_put_back() -> None:
    voice = a_waiting()
    upload = an_upload(voice.voice_id)

    assert decide(voice, upload, now=NOW + UNCHANGED, patience=PATIENCE) is Remedy.PUT_BACK


def test_a_voice_that_changed_lately_is_left_alone() -> None:
    voice = a_waiting()
    upload = an_upload(voice.voice_id)

    now = NOW + UNCHANGED - SECOND
    assert decide(voice, upload, now=now, patience=PATIENCE) is Remedy.NONE
    assert decide(a_queued(), upload, now=now, patience=PATIENCE) is Remedy.NONE


def test_a_recording_may_arrive_as_long_as_the_api_waits_for_it() -> None:
    assert decide(a_waiting(), None, now=NOW + UPLOAD_ENDS, patience=PATIENCE) is Remedy.NONE


def test_a_voice_that_was_never_uploaded_expires() -> None:
    now = NOW + UPLOAD_ENDS + SECOND
    assert decide(a_waiting(), None, now=now, patience=PATIENCE) is Remedy.EXPIRE


def test_a_late_recording_still_counts() -> None:
    voice = a_waiting()
    now = NOW + 10 * UPLOAD_ENDS
    remedy = decide(voice, an_upload(voice.voice_id), now=now, patience=PATIENCE)
    assert remedy is Remedy.PUT_BACK


def test_a_queued_voice_whose_message_was_lost_is_put_back() -> None:
    voice = a_queued()
    assert decide(voice, voice.input, now=NOW + UNCHANGED, patience=PATIENCE) is Remedy.PUT_BACK


def test_a_converting_voice_is_put_back_only_long_after_its_lease_ended() -> None:
    voice = a_converting()
    lost = NOW + LEASE + UNCHANGED

    assert decide(voice, voice.input, now=lost - SECOND, patience=PATIENCE) is Remedy.NONE
    assert decide(voice, voice.input, now=lost, patience=PATIENCE) is Remedy.PUT_BACK


def test_a_voice_with_a_live_lease_is_left_alone_however_old_it_is() -> None:
    voice = replace(a_converting(), lease_expires_at=NOW + timedelta(hours=2))
    now = NOW + timedelta(hours=1)
    assert decide(voice, voice.input, now=now, patience=PATIENCE) is Remedy.NONE


@pytest.mark.parametrize("voice", [a_done(), a_failed()], ids=["done", "failed"])
def test_a_finished_voice_is_never_changed(voice: Voice) -> None:
    now = NOW + timedelta(days=1)
    assert decide(voice, voice.input, now=now, patience=PATIENCE) is Remedy.NONE
