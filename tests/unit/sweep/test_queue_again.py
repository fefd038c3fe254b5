from __future__ import annotations

from dataclasses import replace

import pytest

from shared.voices.voice import (
    LEASE,
    ForbiddenTransitionError,
    LeaseHeldError,
    Status,
    Voice,
    queue_again,
)
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


def test_a_waiting_voice_becomes_queued_with_its_recording() -> None:
    voice = a_waiting()
    upload = an_upload(voice.voice_id)

    again = queue_again(voice, NOW + SECOND, upload)

    assert again == replace(voice, status=Status.QUEUED, input=upload, updated_at=NOW + SECOND)


@pytest.mark.parametrize("voice", [a_queued(), a_converting()], ids=["queued", "converting"])
def test_a_voice_further_on_keeps_its_status_and_attempt(voice: Voice) -> None:
    now = NOW + LEASE
    again = queue_again(voice, now, an_upload(voice.voice_id))
    assert again == replace(voice, updated_at=now)


def test_a_voice_that_a_worker_has_is_not_taken_from_it() -> None:
    voice = a_converting()
    with pytest.raises(LeaseHeldError):
        queue_again(voice, NOW + LEASE - SECOND, an_upload(voice.voice_id))


@pytest.mark.parametrize("voice", [a_done(), a_failed()], ids=["done", "failed"])
def test_a_finished_voice_is_not_begun_again(voice: Voice) -> None:
    with pytest.raises(ForbiddenTransitionError):
        queue_again(voice, NOW, an_upload(voice.voice_id))
