from __future__ import annotations

import math
import signal
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from shared.speech.decoding.process_output import (
    DecoderUnavailableError,
    read_exit,
    read_verdict,
)
from shared.speech.decoding.process_output import ProcessAnswer as Answer
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.decoding.wire import (
    LENGTH,
    LONGEST_MESSAGE,
    MAX_VERDICT_BYTES,
    DecodingJob,
    DecodingVerdict,
    ProcessExit,
)
from shared.voices.media import Container
from shared.voices.voice import ErrorCode, VoiceError
from tests.integration.audio.recordings import voice_like

LIMITS = DecodeLimits(max_seconds=10, cpu_seconds=4)
VERDICT = DecodingVerdict(
    codec="opus",
    sample_type="flt",
    sample_rate=16_000,
    channels=1,
    weights=(1.0,),
    samples=32_000,
)
BODY = memoryview(voice_like(2, 16_000).tobytes())
CLEAN = ProcessExit(0, 0.01)


def error_of(answer: Answer) -> VoiceError:
    with pytest.raises(VoiceError) as raised:
        answer.conclude(Container.WEBM, LIMITS)
    return raised.value


def test_samples_and_a_verdict_that_fit_together_are_a_recording() -> None:
    recording = Answer(BODY, VERDICT, CLEAN).conclude(Container.WEBM, LIMITS)
    np.testing.assert_array_equal(recording.samples, voice_like(2, 16_000))
    assert recording.seconds == 2.0
    assert recording.codec == "opus"


@pytest.mark.parametrize(
    ("sample_type", "dtype", "offset", "scale"),
    [
        ("u8", np.uint8, 128, 127),
        ("s16", np.int16, 0, 2**15 - 1),
        ("s64", np.int64, 0, 2**62),
        ("dbl", np.float64, 0, 1.0),
    ],
)
def test_samples_of_every_type_become_floats_of_full_scale_one(
    sample_type: str, dtype: type[np.generic], offset: int, scale: float
) -> None:
    samples = voice_like(2, 16_000)
    sent = (samples.astype(np.float64) * scale + offset).astype(dtype)
    verdict = replace(VERDICT, sample_type=sample_type)
    recording = Answer(memoryview(sent.tobytes()), verdict, CLEAN).conclude(Container.WEBM, LIMITS)
    full = 2.0 ** (8 * sent.itemsize - 1) if sent.dtype.kind in "iu" else 1.0
    np.testing.assert_allclose(recording.samples, samples * (scale / full), atol=1.01 / full)
    assert recording.samples.dtype == np.float32


def test_more_than_two_channels_are_mixed_by_their_weights() -> None:
    samples = voice_like(2, 16_000)
    sent = np.stack([samples, np.zeros_like(samples), samples / 2], axis=1)
    verdict = replace(VERDICT, channels=6, weights=(0.5, 1.0, 0.5))
    recording = Answer(memoryview(sent.tobytes()), verdict, CLEAN).conclude(Container.WEBM, LIMITS)
    np.testing.assert_allclose(recording.samples, samples * (0.75 / 2), atol=1e-6)
    assert recording.channels == 6


@pytest.mark.parametrize(
    "lie",
    [
        {"samples": 31_999},
        {"samples": 2**63},
        {"channels": 0},
        {"channels": 2, "weights": (1.0, 1.0)},
        {"channels": 200},
        {"weights": ()},
        {"weights": (0.0,)},
        {"weights": (math.inf,)},
        {"weights": (math.nan,)},
        {"sample_type": "s16"},
        {"sample_type": "text"},
        {"sample_rate": 0},
        {"sample_rate": 4_000_000},
        {"missing_seconds": -1.0},
        {"missing_seconds": math.inf},
        {"code": "all_is_well"},
    ],
)
def test_a_false_answer_of_a_process_is_refused(lie: dict[str, Any]) -> None:
    answer = Answer(BODY, replace(VERDICT, **lie), CLEAN)
    assert error_of(answer).code == ErrorCode.CORRUPT


@pytest.mark.parametrize(
    ("code", "said"),
    [(ErrorCode.NO_AUDIO, "It holds no audio."), (ErrorCode.TOO_LONG, "longer than 10 s")],
)
def test_the_error_a_process_names_is_passed_on_with_its_sentence_or_the_limit(
    code: ErrorCode, said: str
) -> None:
    verdict = DecodingVerdict(code=code, message="It holds no audio.")
    error = error_of(Answer(memoryview(b""), verdict, CLEAN))
    assert error.code == code
    assert said in error.message


def test_a_crash_means_corrupt_even_after_a_good_verdict() -> None:
    crash = ProcessExit(-signal.SIGSEGV, 0.1)
    assert error_of(Answer(BODY, VERDICT, crash)).code == ErrorCode.CORRUPT


@pytest.mark.parametrize(
    "ending",
    [ProcessExit(-signal.SIGXCPU, 4.0), ProcessExit(-signal.SIGKILL, 5.0), ProcessExit(70, 0.1)],
)
def test_running_into_a_limit_means_too_complex(ending: ProcessExit) -> None:
    answer = Answer(BODY, None, ending)
    assert not answer.was_killed(LIMITS)
    assert error_of(answer).code == ErrorCode.TOO_COMPLEX


def test_running_out_of_time_without_using_it_is_the_machines_fault() -> None:
    with pytest.raises(DecoderUnavailableError):
        Answer(BODY, None, ProcessExit(-signal.SIGALRM, 0.1)).conclude(Container.WEBM, LIMITS)


def test_being_killed_by_somebody_is_recognised() -> None:
    assert Answer(BODY, None, None).was_killed(LIMITS)
    assert Answer(BODY, None, ProcessExit(-signal.SIGKILL, 0.1)).was_killed(LIMITS)
    assert not Answer(BODY, VERDICT, CLEAN).was_killed(LIMITS)


def test_packing_and_unpacking_returns_the_same_values() -> None:
    job = DecodingJob(Container.MATROSKA, 10.5, 4, 1 << 28, 15.0, 1 << 24)
    verdict = replace(
        VERDICT,
        code="corrupt",
        message="Grüße.",
        channels=6,
        weights=(0.7, 0.7, 1.0, 0.0, 0.5, 0.5),
        damaged=True,
        confined=True,
    )
    ending = ProcessExit(-9, 0.25)
    assert DecodingJob.unpack(job.pack()[LENGTH.size :]) == job
    assert read_verdict(verdict.pack()[: -LENGTH.size]) == verdict
    assert read_exit(ending.pack()[LENGTH.size :]) == ending
    assert read_exit(ending.pack()[LENGTH.size : -1]) is None

    answer = Answer.read(memoryview(bytes(BODY) + VERDICT.pack()), CLEAN)
    assert answer.body == BODY
    assert answer.verdict == VERDICT


@pytest.mark.parametrize(
    "written",
    [
        b"",
        bytes(LENGTH.size),
        b"\xff" * 1000,
        VERDICT.pack()[1:],
        b"{}" + LENGTH.pack(3),
        b" " * LONGEST_MESSAGE + b"[]" + LENGTH.pack(LONGEST_MESSAGE + 2),
        b"[" * 2000 + LENGTH.pack(2000),
        b'{"channels": "2"}' + LENGTH.pack(17),
        b'{"message": null}' + LENGTH.pack(17),
        b'{"weights": "ab"}' + LENGTH.pack(17),
    ],
)
def test_an_invalid_verdict_is_refused(written: bytes) -> None:
    assert Answer.read(memoryview(written), CLEAN).verdict is None


def test_the_longest_verdict_fits_into_its_limit_with_its_sentence_cut() -> None:
    longest = replace(VERDICT, message="\u00fc" * 1000, weights=(1 / 3,) * 8, samples=2**63)
    cut = read_verdict(longest.pack()[: -LENGTH.size])
    assert len(longest.pack()) <= MAX_VERDICT_BYTES
    assert cut is not None
    assert cut.message == "\u00fc" * 160
