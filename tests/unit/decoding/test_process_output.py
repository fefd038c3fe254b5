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
        ("s32", np.int32, 0, 2**31 - 129),
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
        {"samples": 0},
        {"channels": 0},
        {"channels": 2, "weights": (1.0, 1.0)},
        {"weights": ()},
        {"weights": (0.0,)},
        {"weights": (math.inf,)},
        {"weights": (math.nan,)},
        {"sample_type": "s16"},
        {"sample_type": "dbl"},
        {"sample_type": "text"},
        {"channels": 200},
        {"sample_rate": 0},
        {"sample_rate": 4_000_000},
    ],
)
def test_a_false_answer_of_a_process_is_refused(lie: dict[str, Any]) -> None:
    answer = Answer(BODY, replace(VERDICT, **lie), CLEAN)
    assert error_of(answer).code == ErrorCode.CORRUPT


def test_a_process_cannot_name_an_error_that_does_not_exist() -> None:
    answer = Answer(BODY, DecodingVerdict(code="all_is_well", message="x"), CLEAN)
    assert error_of(answer).code == ErrorCode.CORRUPT


def test_the_error_a_process_names_is_passed_on_with_its_sentence() -> None:
    verdict = DecodingVerdict(code=ErrorCode.NO_AUDIO, message="The recording holds no audio.")
    error = error_of(Answer(memoryview(b""), verdict, CLEAN))
    assert error.code == ErrorCode.NO_AUDIO
    assert error.message == "The recording holds no audio."


def test_too_long_names_the_limit() -> None:
    verdict = DecodingVerdict(code=ErrorCode.TOO_LONG, message="The recording is too long.")
    assert "10 s" in error_of(Answer(BODY, verdict, CLEAN)).message


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE])
def test_a_crash_means_corrupt_even_after_a_good_verdict(number: signal.Signals) -> None:
    assert error_of(Answer(BODY, VERDICT, ProcessExit(-number, 0.1))).code == ErrorCode.CORRUPT


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


@pytest.mark.parametrize("ending", [None, ProcessExit(-signal.SIGKILL, 0.1)])
def test_being_killed_by_somebody_is_recognised(ending: ProcessExit | None) -> None:
    assert Answer(BODY, None, ending).was_killed(LIMITS)


def test_a_clean_exit_does_not_count_as_killed() -> None:
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


def test_an_answer_is_split_into_samples_and_verdict() -> None:
    answer = Answer.read(memoryview(bytes(BODY) + VERDICT.pack()), CLEAN)
    assert answer.body == BODY
    assert answer.verdict == VERDICT


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"x",
        bytes(LENGTH.size),
        bytes(1000),
        b"\xff" * 1000,
        VERDICT.pack()[:-1],
        VERDICT.pack()[1:],
        b"{}" + LENGTH.pack(3),
        b"{}" + LENGTH.pack(LONGEST_MESSAGE + 1),
        b" " * LONGEST_MESSAGE + b"[]" + LENGTH.pack(LONGEST_MESSAGE + 2),
        b"[" * 2000 + LENGTH.pack(2000),
        b'{"channels": "2"}' + LENGTH.pack(17),
        b'{"samples": true}' + LENGTH.pack(17),
        b'{"samples": 1.25}' + LENGTH.pack(17),
        b'{"message": null}' + LENGTH.pack(17),
        b'{"weights": "ab"}' + LENGTH.pack(17),
    ],
)
def test_an_invalid_verdict_is_refused(written: bytes) -> None:
    assert Answer.read(memoryview(written), CLEAN).verdict is None


def test_half_an_exit_is_none() -> None:
    assert read_exit(ProcessExit(0, 1.0).pack()[LENGTH.size : -1]) is None


def test_a_sentence_too_long_for_the_wire_is_cut() -> None:
    cut = read_verdict(DecodingVerdict(code="corrupt", message="x" * 1000).pack()[: -LENGTH.size])
    assert cut is not None
    assert cut.message == "x" * 160


def test_the_longest_verdict_fits_into_its_limit() -> None:
    longest = replace(VERDICT, message="\u00fc" * 1000, weights=(1 / 3,) * 8, samples=2**63)
    assert len(longest.pack()) <= MAX_VERDICT_BYTES
