from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

import pytest

from shared.voices import voice as voices_of
from shared.voices.voice import (
    CONVERTED_WITHIN,
    LEASE,
    MOST_ATTEMPTS,
    TRANSITIONS,
    AttemptsExhaustedError,
    ErrorCode,
    ForbiddenTransitionError,
    InvalidVoiceIdError,
    LeaseHeldError,
    LeaseLostError,
    Options,
    OutputFormat,
    PassingError,
    Status,
    Voice,
    new_voice_id,
    parse_voice_id,
)
from tests.support.voices import (
    ERROR,
    EVERY_STATE,
    NOW,
    SECOND,
    a_converting,
    a_done,
    a_queued,
    a_result,
    a_text,
    a_waiting,
    an_upload,
    is_sentence,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

LATER = NOW + 3 * SECOND
AFTER_THE_LEASE = NOW + LEASE + SECOND


def queue(voice: Voice, now: datetime = LATER) -> Voice:
    return voices_of.queue(voice, now, an_upload(voice.voice_id))


def lease(voice: Voice, now: datetime = AFTER_THE_LEASE) -> Voice:
    return voices_of.lease(voice, now, an_upload(voice.voice_id))


def queue_again(voice: Voice, now: datetime = AFTER_THE_LEASE) -> Voice:
    return voices_of.queue_again(voice, now, an_upload(voice.voice_id))


def finish(voice: Voice, missing_seconds: float | None = None) -> Voice:
    return voices_of.finish(
        voice,
        LATER,
        voice.attempt,
        a_result(voice.voice_id),
        seconds=2.5,
        timings={"decode": 1.0},
        missing_seconds=missing_seconds,
    )


def fail_attempt(voice: Voice) -> Voice:
    return voices_of.fail_attempt(voice, LATER, voice.attempt, ERROR)


def renew(voice: Voice) -> Voice:
    return voices_of.renew(voice, LATER, voice.attempt, stage="converting")


def release(voice: Voice) -> Voice:
    return voices_of.release(voice, LATER, voice.attempt, counts=False)


def at(moment: datetime, act: Callable[..., Voice], *arguments: object) -> Callable[[Voice], Voice]:
    return update_wrapper(lambda voice: act(voice, moment, *arguments), act)


fail = at(LATER, voices_of.fail, ERROR)
refuse = at(LATER, voices_of.refuse, ERROR)
expire = at(LATER, voices_of.expire)
give_up = at(NOW + CONVERTED_WITHIN, voices_of.give_up)


ALLOWED: dict[Callable[[Voice], Voice], dict[str, str]] = {
    queue: {"waiting": "queued"},
    lease: {"waiting": "converting", "queued": "converting", "converting": "converting"},
    queue_again: {"waiting": "queued", "queued": "queued", "converting": "converting"},
    finish: {"converting": "done"},
    fail_attempt: {"converting": "failed"},
    fail: {"waiting": "failed", "queued": "failed", "converting": "failed"},
    refuse: {"waiting": "failed"},
    expire: {"waiting": "failed"},
    give_up: {"waiting": "failed", "queued": "failed", "converting": "failed"},
    renew: {"converting": "converting"},
    release: {"converting": "converting"},
}


@pytest.mark.parametrize("state", EVERY_STATE)
@pytest.mark.parametrize("act", ALLOWED, ids=lambda act: act.__name__)
def test_every_act_leads_from_every_state_where_it_should_or_is_refused(
    act: Callable[[Voice], Voice], state: str
) -> None:
    voice = EVERY_STATE[state]()

    if state in ALLOWED[act]:
        assert act(voice).status == ALLOWED[act][state]
    else:
        with pytest.raises((ForbiddenTransitionError, LeaseLostError), match=voice.voice_id):
            act(voice)


def test_the_transitions_lead_forward_to_done_or_failed() -> None:
    order = list(Status)
    for present, leads in TRANSITIONS.items():
        assert all(order.index(wanted) >= order.index(present) for wanted in leads)
        assert present.is_final is (not leads) is (present in {Status.DONE, Status.FAILED})


def test_a_refused_transition_says_from_where_to_where() -> None:
    voice = a_done()
    with pytest.raises(ForbiddenTransitionError) as caught:
        queue(voice)

    assert str(caught.value) == f"voice {voice.voice_id} is done and cannot become queued"
    assert (caught.value.voice, caught.value.wanted) == (voice, Status.QUEUED)


def test_a_new_voice_waits_and_is_kept_for_a_day() -> None:
    options = Options(pitch_shift=-2.0, output_format=OutputFormat.OGG, content_type="audio/mp4")
    voice_id = new_voice_id()

    voice = voices_of.create(voice_id, "mei", options, now=NOW, owner="uid", client="network")

    assert voice == Voice(
        voice_id=voice_id,
        character="mei",
        created_at=NOW,
        updated_at=NOW,
        expire_at=NOW + timedelta(days=1),
        status=Status.WAITING,
        options=options,
        owner="uid",
        client="network",
    )
    with pytest.raises(InvalidVoiceIdError):
        voices_of.create("1", "mei", Options(), now=NOW)


def test_a_recording_may_come_for_twice_as_long_as_the_address_of_a_waiting_voice_works() -> None:
    ends = NOW + 20 * SECOND

    assert not voices_of.upload_has_expired(a_waiting(), ends, 10 * SECOND)
    assert voices_of.upload_has_expired(a_waiting(), ends + SECOND, 10 * SECOND)
    for state in EVERY_STATE.keys() - {"waiting"}:
        assert not voices_of.upload_has_expired(EVERY_STATE[state](), NOW + 99 * SECOND, SECOND)


@pytest.mark.parametrize("act", [queue, lease, queue_again])
def test_a_waiting_voice_gets_its_recording_from_whoever_tells_of_it_first(
    act: Callable[[Voice, datetime], Voice],
) -> None:
    moved = act(voice := a_waiting(), LATER)

    assert (moved.input, moved.updated_at) == (an_upload(voice.voice_id), LATER)


def test_the_first_lease_is_attempt_one_and_lasts_four_seconds() -> None:
    voice = a_queued()

    leased = lease(voice, LATER)

    assert (leased.attempt, leased.stage, leased.updated_at) == (1, "reading", LATER)
    assert leased.lease_expires_at == LATER + timedelta(seconds=4)


def test_a_lease_is_taken_over_from_its_very_end_as_the_next_attempt() -> None:
    voice = a_converting()

    with pytest.raises(LeaseHeldError, match=f"{voice.voice_id} is leased by attempt 1") as caught:
        lease(voice, NOW + LEASE - timedelta(microseconds=1))
    taken = lease(voice, NOW + LEASE)

    assert (caught.value.voice, caught.value.remaining) == (voice, timedelta(microseconds=1))
    assert (taken.attempt, taken.lease_expires_at) == (2, NOW + 2 * LEASE)


def test_a_renewed_lease_lasts_longer_and_records_the_stage() -> None:
    renewed = renew(a_converting())

    assert (renewed.lease_expires_at, renewed.stage) == (LATER + LEASE, "converting")
    assert (renewed.updated_at, renewed.attempt) == (LATER, 1)


def test_a_released_voice_can_be_leased_at_once() -> None:
    released = release(a_converting())

    assert (released.stage, released.lease_remaining(LATER)) == (None, timedelta(0))
    assert released.lease_expires_at == released.updated_at == LATER
    assert lease(released, LATER).attempt == 2


def test_a_finished_voice_has_its_result_and_no_lease() -> None:
    voice = a_converting()

    done = finish(voice)

    assert done.result == a_result(voice.voice_id)
    assert done.input == replace(an_upload(voice.voice_id), seconds=2.5)
    assert (done.lease_expires_at, done.stage, done.error) == (None, None, None)
    assert (done.timings, done.updated_at) == ({"decode": 1.0}, LATER)
    damaged = finish(voice, missing_seconds=0.5).input
    assert damaged is not None
    assert (damaged.damaged, damaged.missing_seconds) == (True, 0.5)


@pytest.mark.parametrize("act", [finish, fail])
def test_a_final_voice_does_not_tell_where_it_came_from(act: Callable[[Voice], Voice]) -> None:
    assert act(replace(a_converting(), client="network")).client is None


def test_requesting_a_conversion_again_changes_only_the_time() -> None:
    for voice in (a_queued(), a_converting()):
        assert queue_again(voice) == replace(voice, updated_at=AFTER_THE_LEASE)


@pytest.mark.parametrize("act", [queue_again, voices_of.give_up])
def test_a_voice_that_a_worker_has_is_neither_requested_again_nor_given_up(
    act: Callable[[Voice, datetime], Voice],
) -> None:
    with pytest.raises(LeaseHeldError) as caught:
        act(a_converting(), LATER)

    assert caught.value.remaining == LEASE - 3 * SECOND


@pytest.mark.parametrize(
    ("act", "voice", "code", "message"),
    [
        (fail_attempt, a_converting(), ErrorCode.SILENT, ERROR.message),
        (fail, a_converting(), ErrorCode.SILENT, ERROR.message),
        (refuse, a_waiting(), ErrorCode.SILENT, ERROR.message),
        (give_up, a_converting(), ErrorCode.ATTEMPTS_EXHAUSTED, "please record again."),
        (give_up, a_waiting(), ErrorCode.ATTEMPTS_EXHAUSTED, "please record again."),
        (expire, a_waiting(), ErrorCode.UPLOAD_EXPIRED, "please record again."),
        (expire, a_text(), ErrorCode.UPLOAD_EXPIRED, "please send it again."),
    ],
)
def test_a_failed_voice_says_when_and_why_and_has_no_lease(
    *, act: Callable[[Voice], Voice], voice: Voice, code: ErrorCode, message: str
) -> None:
    failed = act(voice)

    assert failed.error is not None
    assert (failed.error.code, failed.status) == (code, Status.FAILED)
    assert failed.error.message.endswith(message)
    assert is_sentence(failed.error.message)
    assert failed.updated_at == (NOW + CONVERTED_WITHIN if act is give_up else LATER)
    assert (failed.lease_expires_at, failed.stage, failed.result) == (None, None, None)


def test_a_voice_is_not_given_up_while_it_is_young_and_has_an_attempt_left() -> None:
    voice = replace(a_converting(), attempt=MOST_ATTEMPTS, handed_back=1)

    with pytest.raises(PassingError, match="was handed back"):
        voices_of.give_up(voice, AFTER_THE_LEASE)

    assert voices_of.give_up(replace(voice, handed_back=0), AFTER_THE_LEASE).error is not None


def test_after_the_last_counted_attempt_a_voice_is_not_leased_again() -> None:
    voice = replace(a_converting(), attempt=MOST_ATTEMPTS - 1)
    last = lease(voice)

    assert last.attempt == last.counted_attempts == MOST_ATTEMPTS
    with pytest.raises(AttemptsExhaustedError, match="5 attempts were made"):
        lease(last, NOW + 3 * LEASE)


def test_attempts_that_were_handed_back_do_not_count() -> None:
    voice = a_converting()
    for _ in range(10 * MOST_ATTEMPTS):
        voice = lease(voices_of.release(voice, LATER, voice.attempt, counts=False), LATER)
    assert (voice.attempt, voice.counted_attempts) == (51, 1)

    for _ in range(MOST_ATTEMPTS - 1):
        voice = lease(voices_of.release(voice, LATER, voice.attempt, counts=True), LATER)
    assert (voice.counted_attempts, voice.has_attempts_left) == (MOST_ATTEMPTS, False)


@pytest.mark.parametrize(
    "act",
    [
        lambda voice, attempt: voices_of.renew(voice, LATER, attempt, stage="x"),
        lambda voice, attempt: voices_of.release(voice, LATER, attempt, counts=True),
        lambda voice, attempt: voices_of.fail_attempt(voice, LATER, attempt, ERROR),
        lambda voice, attempt: voices_of.finish(
            voice, LATER, attempt, a_result(voice.voice_id), seconds=1.0, timings={}
        ),
    ],
    ids=["renew", "release", "fail_attempt", "finish"],
)
def test_an_attempt_that_lost_its_lease_can_do_nothing(
    act: Callable[[Voice, int], Voice],
) -> None:
    taken_over = lease(a_converting())

    for attempt in (0, 1, 3):
        with pytest.raises(LeaseLostError, match=f"attempt {attempt} no longer owns voice"):
            act(taken_over, attempt)
    with pytest.raises(LeaseLostError):
        act(replace(taken_over, input=None), 2)
    assert act(taken_over, 2).attempt == 2


def test_only_a_converting_voice_has_a_lease() -> None:
    for state, make in EVERY_STATE.items():
        remaining = make().lease_remaining(NOW + SECOND)
        assert remaining == (LEASE - SECOND if state == "converting" else timedelta(0))
    assert replace(a_converting(), lease_expires_at=None).lease_remaining(NOW) == timedelta(0)


def test_an_upload_is_the_same_by_bucket_object_and_generation() -> None:
    upload = an_upload(new_voice_id())

    assert upload.is_same_upload(replace(upload, bytes=1, content_type="x", seconds=1.0))
    others: list[dict[str, Any]] = [{"bucket": "x"}, {"object": "x"}, {"generation": 2}]
    for changes in others:
        assert not upload.is_same_upload(replace(upload, **changes))


VALID = "3f0b6c1e-8a4d-4c1f-9f3e-2b7d5a6c8e90"


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "x" * 10_000, f"../{VALID}", f"{VALID}\n", f"urn:uuid:{VALID}"),
        *(VALID.upper(), VALID.replace("-", ""), "{" + VALID + "}"),
        *(VALID.replace("-4c1f-", "-1c1f-"), VALID.replace("-9f3e-", "-cf3e-")),
    ],
)
def test_an_invalid_voice_id_is_refused_and_shortened_in_the_message(text: str) -> None:
    with pytest.raises(InvalidVoiceIdError) as caught:
        parse_voice_id(text)
    assert str(caught.value) == (
        f"{text[:64]!r} is not a voice_id; it is a version 4 UUID in lower case, "
        "as POST /api/v1/voices returns it"
    )


def test_the_codes_are_those_of_the_api_for_ever() -> None:
    assert " ".join(sorted(ErrorCode)) == (
        "attempts_exhausted content_type_mismatch corrupt deadline_exceeded internal no_audio"
        " nothing_to_say silent source_missing speech_not_taken text_not_taken text_too_long"
        " text_unreadable too_complex too_large too_long too_short unknown_character unknown_style"
        " unsupported_format upload_expired"
    )
