"""Limits on what is decoded of one recording, whether it is heard or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared.speech.decoding.demuxing import DecodingBudget
from shared.voices.voice import ErrorCode, VoiceError

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 1_000_000


def steps_until_refused(step: Callable[[], None]) -> int:
    """Count the calls of `step` before it raises `too_complex`."""
    taken = 0

    def take_all() -> None:
        nonlocal taken
        for _ in range(MOST):
            step()
            taken += 1

    with pytest.raises(VoiceError) as raised:
        take_all()
    assert raised.value.code is ErrorCode.TOO_COMPLEX
    return taken


def effort(file_bytes: int = 1_000_000) -> DecodingBudget:
    return DecodingBudget(file_bytes, longest=10.0)


@pytest.mark.parametrize(
    ("step", "steps"),
    [
        (lambda spent: spent.count_frame(48_000, 48_000), 20),
        # An impossible sample rate does not make audio cheaper.
        (lambda spent: spent.count_frame(192_000, 0), 0),
        (lambda spent: spent.count_frame(192_000, 2**31 - 1), 20),
        (lambda spent: spent.count_packet(100_000), 20),
        (lambda spent: spent.count_packet(0), 21_000),
        (lambda spent: spent.count_fruitless_packet(), 999),
    ],
    ids=["audio", "no rate", "a huge rate", "bytes", "empty packets", "fruitless packets"],
)
def test_twice_the_audio_and_the_bytes_of_a_recording_and_so_many_packets_may_be_decoded(
    step: Callable[[DecodingBudget], None], steps: int
) -> None:
    spent = effort()
    assert steps_until_refused(lambda: step(spent)) == pytest.approx(steps, abs=1)


def test_a_file_that_came_while_it_was_decoded_is_judged_by_its_own_size() -> None:
    spent = effort(file_bytes=8_000_000)
    spent.count_packet(265_536)
    spent.count_file(100_000)

    assert steps_until_refused(lambda: spent.count_packet(1)) == 0
    with pytest.raises(VoiceError):
        spent.count_file(99_999)


def test_the_smallest_packets_of_every_codec_and_the_padding_of_a_small_file_fit() -> None:
    spent = effort()
    for _ in range(10 * 1000):
        spent.count_packet(20)
        spent.count_frame(192, 192_000)
    effort(file_bytes=100).count_packet(4_096)
