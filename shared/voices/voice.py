"""The states of a voice and the transitions between them.

This module is pure. A transition takes the stored voice and the store's time, and returns the next
state. It raises `ForbiddenTransitionError` if the voice can't get there from its status. One that
takes an `attempt` raises `LeaseLostError` if that attempt no longer owns the voice.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class PassingError(Exception):
    """An error that may go away by itself: the same may work later."""


class PublishError(PassingError):
    pass


# The shortest lease, so that another worker soon takes over the voice of one that was killed; and
# the longest, of a worker that has worked for long or whose store answers slowly.
LEASE: Final = timedelta(seconds=4)
LONGEST_LEASE: Final = timedelta(seconds=20)
MOST_ATTEMPTS: Final = 5  # that may fail; attempts that were handed back do not count
# The age up to which a voice is converted if no message has reached a worker before.
CONVERTED_WITHIN: Final = timedelta(hours=1)
RETENTION: Final = timedelta(days=1)  # of a voice's document, and of its objects in the buckets


class Status(StrEnum):
    WAITING = "waiting"
    QUEUED = "queued"
    CONVERTING = "converting"
    DONE = "done"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self in {Status.DONE, Status.FAILED}


TRANSITIONS: Final[Mapping[Status, frozenset[Status]]] = {
    # on_upload publishes before it records `queued`, so a conversion can begin before the record.
    Status.WAITING: frozenset({Status.QUEUED, Status.CONVERTING, Status.FAILED}),
    Status.QUEUED: frozenset({Status.CONVERTING, Status.FAILED}),
    # From converting to converting: a takeover, with the next attempt.
    Status.CONVERTING: frozenset({Status.CONVERTING, Status.DONE, Status.FAILED}),
    Status.DONE: frozenset(),
    Status.FAILED: frozenset(),
}


class ErrorCode(StrEnum):
    """The reason for which a voice failed. Codes are part of the API and keep their meaning."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    CONTENT_TYPE_MISMATCH = "content_type_mismatch"
    CORRUPT = "corrupt"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    INTERNAL = "internal"
    NO_AUDIO = "no_audio"
    NOTHING_TO_SAY = "nothing_to_say"
    SILENT = "silent"
    SOURCE_MISSING = "source_missing"
    SPEECH_NOT_TAKEN = "speech_not_taken"
    TEXT_NOT_TAKEN = "text_not_taken"
    TEXT_TOO_LONG = "text_too_long"
    TEXT_UNREADABLE = "text_unreadable"
    TOO_COMPLEX = "too_complex"
    TOO_LARGE = "too_large"
    TOO_LONG = "too_long"
    TOO_SHORT = "too_short"
    UNKNOWN_CHARACTER = "unknown_character"
    UNKNOWN_STYLE = "unknown_style"
    UNSUPPORTED_FORMAT = "unsupported_format"
    UPLOAD_EXPIRED = "upload_expired"


# The failures of recordings that no recorder makes; silence is a visitor's mistake.
SUSPICIOUS: Final = frozenset(
    {
        ErrorCode.ATTEMPTS_EXHAUSTED,
        ErrorCode.CONTENT_TYPE_MISMATCH,
        ErrorCode.CORRUPT,
        ErrorCode.DEADLINE_EXCEEDED,
        ErrorCode.NO_AUDIO,
        ErrorCode.TOO_COMPLEX,
        ErrorCode.TOO_LARGE,
        ErrorCode.UNSUPPORTED_FORMAT,
    }
)


class OutputFormat(StrEnum):
    WAV = "wav"
    MP3 = "mp3"
    M4A = "m4a"
    OGG = "ogg"


class EnglishWords(StrEnum):
    """Speech of English words in a Japanese sentence."""

    KATAKANA = "katakana"
    ENGLISH = "english"


class VoiceError(Exception):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class InvalidVoiceIdError(ValueError):
    pass


class ForbiddenTransitionError(Exception):
    def __init__(self, voice: Voice, wanted: Status) -> None:
        super().__init__(f"voice {voice.voice_id} is {voice.status} and cannot become {wanted}")
        self.voice = voice
        self.wanted = wanted


class LeaseHeldError(PassingError):
    def __init__(self, voice: Voice, remaining: timedelta) -> None:
        super().__init__(f"voice {voice.voice_id} is leased by attempt {voice.attempt}")
        self.voice = voice
        self.remaining = remaining


class AttemptsExhaustedError(Exception):
    pass


class LeaseLostError(PassingError):
    """The worker's attempt no longer owns the voice, so it must commit nothing."""


def new_voice_id() -> str:
    return str(uuid.uuid4())


def parse_voice_id(text: str) -> str:
    """Return `text` if it is a canonical version 4 UUID; raise `InvalidVoiceIdError` if not."""
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        parsed = None
    if parsed is None or parsed.version != 4 or str(parsed) != text:  # noqa: PLR2004 - RFC 4122
        raise InvalidVoiceIdError(
            f"{text[:64]!r} is not a voice_id; it is a version 4 UUID in lower case, "
            "as POST /api/v1/voices returns it"
        )
    return text


@dataclass(frozen=True, slots=True)
class Speaking:
    speed: float = 1.0  # 2 is twice as fast as the character's own speed
    pitch: float = 0.0  # semitones by which the voice is higher
    intonation: float = 1.0  # 1 is the character's own liveliness, 0 is flat
    volume: float = 1.0  # factor of loudness
    pauses: float = 1.0  # factor of the pauses' length
    style: int = 0  # id of one of the character's styles; 0 is its usual one
    language: str | None = None  # of the text, such as en; None to detect that of each sentence
    english_words: EnglishWords = EnglishWords.KATAKANA


@dataclass(frozen=True, slots=True)
class Options:
    pitch_shift: float | None = None  # semitones; None moves the median to the character's
    output_format: OutputFormat = OutputFormat.WAV
    content_type: str = "audio/webm"
    speaking: Speaking | None = None  # None if the voice is made from a recording


@dataclass(frozen=True, slots=True)
class Input:
    """The recording or the text in the uploads bucket."""

    bucket: str
    object: str
    generation: int
    content_type: str
    bytes: int
    seconds: float | None = None  # None for a text, and until a recording was decoded
    damaged: bool = False  # a part of the recording could not be read, and was left out
    missing_seconds: float = 0.0  # the length of that part, as far as the file tells

    def is_same_upload(self, other: Input) -> bool:
        mine = (self.bucket, self.object, self.generation)
        return mine == (other.bucket, other.object, other.generation)


@dataclass(frozen=True, slots=True)
class Result:
    bucket: str
    object: str  # unique per voice and attempt
    url: str  # signed; readable without further permission until `url_expires_at`
    url_expires_at: datetime
    content_type: str
    bytes: int
    seconds: float
    sha256: str  # hexadecimal
    synthetic: Mapping[str, str] = field(default_factory=dict)
    # For lips, if known: each phone of a text as Open JTalk names it, with the millisecond at which
    # it begins ("o:120 h:205 a:260").
    phones: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason for a failure: a code for programs and a sentence for people."""

    code: ErrorCode
    message: str


@dataclass(frozen=True, slots=True)
class Voice:
    """One recording or text and its conversion.

    A text is a visitor's content as a recording is: it appears in no document or message.
    """

    voice_id: str
    character: str
    created_at: datetime
    updated_at: datetime
    expire_at: datetime
    status: Status = Status.WAITING
    options: Options = field(default_factory=Options)
    owner: str | None = None  # Firebase uid of the signed-in visitor
    owns_character: bool = False  # the visitor may use the character also while it is private
    # Pseudonym of the network that created the voice, so that converters can share their capacity
    # fairly; None if unknown, and once the voice is final.
    client: str | None = None
    input: Input | None = None
    attempt: int = 0  # number of the current attempt, 0 before the first: the fencing token
    handed_back: int = 0
    lease_expires_at: datetime | None = None
    stage: str | None = None
    result: Result | None = None
    error: Failure | None = None
    timings: Mapping[str, float] = field(default_factory=dict)  # milliseconds per stage

    @property
    def is_text(self) -> bool:
        return self.options.speaking is not None

    def lease_remaining(self, now: datetime) -> timedelta:
        """Return how long the current attempt still owns the voice; zero if none does."""
        if self.status is not Status.CONVERTING or self.lease_expires_at is None:
            return timedelta(0)
        return max(self.lease_expires_at - now, timedelta(0))

    @property
    def counted_attempts(self) -> int:
        return self.attempt - self.handed_back

    @property
    def has_attempts_left(self) -> bool:
        return self.counted_attempts < MOST_ATTEMPTS

    def may_be_tried(self, now: datetime) -> bool:
        return self.has_attempts_left and now < self.created_at + CONVERTED_WITHIN


def create(
    voice_id: str,
    character: str,
    options: Options,
    *,
    now: datetime,
    owner: str | None = None,
    owns_character: bool = False,
    client: str | None = None,
) -> Voice:
    return Voice(
        voice_id=parse_voice_id(voice_id),
        character=character,
        options=options,
        owner=owner,
        owns_character=owns_character,
        client=client,
        created_at=now,
        updated_at=now,
        expire_at=now + RETENTION,
    )


def upload_has_expired(voice: Voice, now: datetime, lifetime: timedelta) -> bool:
    """Return whether a voice waits for a recording that can no longer arrive."""
    return voice.status is Status.WAITING and now > voice.created_at + 2 * lifetime


def queue(voice: Voice, now: datetime, upload: Input) -> Voice:
    return replace(_move(voice, Status.QUEUED, now), input=upload)


def queue_again(voice: Voice, now: datetime, upload: Input) -> Voice:
    """Record that the conversion of a voice that no worker holds was requested once more."""
    _require_unleased(voice, now)
    if voice.status is Status.WAITING:
        return queue(voice, now, upload)
    if voice.status.is_final:
        raise ForbiddenTransitionError(voice, Status.QUEUED)
    # The status stays as it is, because it only moves forward.
    return replace(voice, updated_at=now)


def lease(voice: Voice, now: datetime, upload: Input, length: timedelta = LEASE) -> Voice:
    """Give the voice to a worker, as the next attempt; `AttemptsExhaustedError` if none is left."""
    _require_unleased(voice, now)
    leased = _move(voice, Status.CONVERTING, now)
    if not voice.has_attempts_left:
        raise AttemptsExhaustedError(f"{voice.attempt} attempts were made")
    return replace(
        leased,
        input=upload,
        attempt=voice.attempt + 1,
        lease_expires_at=now + length,
        stage="reading",
    )


def renew(
    voice: Voice, now: datetime, attempt: int, stage: str | None, length: timedelta = LEASE
) -> Voice:
    _require_attempt(voice, attempt)
    return replace(voice, updated_at=now, lease_expires_at=now + length, stage=stage)


def release(voice: Voice, now: datetime, attempt: int, *, counts: bool) -> Voice:
    """Give up the lease, so that another worker can take over at once."""
    _require_attempt(voice, attempt)
    return replace(
        voice,
        updated_at=now,
        lease_expires_at=now,
        stage=None,
        handed_back=voice.handed_back + (not counts),
    )


def finish(
    voice: Voice,
    now: datetime,
    attempt: int,
    result: Result,
    *,
    seconds: float | None,
    timings: Mapping[str, float],
    missing_seconds: float | None = None,
) -> Voice:
    """End the voice with its result.

    `seconds` is the length of the recording, None for a text, and `missing_seconds` the length of
    what could not be read of it, None if it is undamaged.
    """
    held = _require_attempt(voice, attempt)
    done = _end(voice, Status.DONE, now)
    heard = replace(
        held,
        seconds=seconds,
        damaged=missing_seconds is not None,
        missing_seconds=missing_seconds or 0.0,
    )
    return replace(done, input=heard, result=result, timings=timings)


def fail_attempt(voice: Voice, now: datetime, attempt: int, error: VoiceError) -> Voice:
    _require_attempt(voice, attempt)
    return fail(voice, now, error)


def fail(voice: Voice, now: datetime, error: VoiceError) -> Voice:
    return replace(_end(voice, Status.FAILED, now), error=Failure(error.code, error.message))


def refuse(voice: Voice, now: datetime, error: VoiceError) -> Voice:
    if voice.status is not Status.WAITING:
        raise ForbiddenTransitionError(voice, Status.FAILED)
    return fail(voice, now, error)


def expire(voice: Voice, now: datetime) -> Voice:
    message = (
        "The text did not arrive; please send it again."
        if voice.is_text
        else "No recording came in time; please record again."
    )
    return refuse(voice, now, VoiceError(ErrorCode.UPLOAD_EXPIRED, message))


def give_up(voice: Voice, now: datetime) -> Voice:
    """End a voice that may not be tried again; `PassingError` if a worker may still succeed."""
    _require_unleased(voice, now)
    if voice.may_be_tried(now) and not voice.status.is_final:
        raise PassingError(f"attempt {voice.attempt} at voice {voice.voice_id} was handed back")
    error = VoiceError(
        ErrorCode.ATTEMPTS_EXHAUSTED,
        "The conversion was tried several times and failed each time; please record again.",
    )
    return fail(voice, now, error)


def _move(voice: Voice, wanted: Status, now: datetime) -> Voice:
    if wanted not in TRANSITIONS[voice.status]:
        raise ForbiddenTransitionError(voice, wanted)
    return replace(voice, status=wanted, updated_at=now)


def _end(voice: Voice, wanted: Status, now: datetime) -> Voice:
    return replace(_move(voice, wanted, now), client=None, lease_expires_at=None, stage=None)


def _require_unleased(voice: Voice, now: datetime) -> None:
    remaining = voice.lease_remaining(now)
    if remaining > timedelta(0):
        raise LeaseHeldError(voice, remaining)


def _require_attempt(voice: Voice, attempt: int) -> Input:
    if voice.status is not Status.CONVERTING or voice.attempt != attempt or voice.input is None:
        raise LeaseLostError(
            f"attempt {attempt} no longer owns voice {voice.voice_id}, "
            f"which is {voice.status} with attempt {voice.attempt}"
        )
    return voice.input
