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


def test_as_much_audio_may_be_hidden_as_may_be_heard() -> None:
    spent = effort()
    assert steps_until_refused(lambda: spent.count_frame(48_000, 48_000)) == 20


@pytest.mark.parametrize("sample_rate", [0, -1, 2**31 - 1])
def test_an_impossible_sample_rate_does_not_make_audio_cheaper(sample_rate: int) -> None:
    spent = effort()
    assert steps_until_refused(lambda: spent.count_frame(192_000, sample_rate)) <= 20


def test_every_byte_may_be_decoded_twice() -> None:
    spent = effort()
    assert steps_until_refused(lambda: spent.count_packet(100_000)) == 20


def test_a_file_that_came_while_it_was_decoded_is_judged_by_its_own_size() -> None:
    spent = effort(file_bytes=8_000_000)
    spent.count_packet(265_536)
    spent.count_file(100_000)

    assert steps_until_refused(lambda: spent.count_packet(1)) == 0
    with pytest.raises(VoiceError):
        spent.count_file(99_999)


def test_a_small_file_may_have_padding() -> None:
    effort(file_bytes=100).count_packet(4_096)


def test_packets_without_content_are_limited() -> None:
    spent = effort()
    assert steps_until_refused(lambda: spent.count_packet(0)) == 21_000


def test_packets_from_which_nothing_comes_count_as_audio() -> None:
    spent = effort()
    assert steps_until_refused(spent.count_fruitless_packet) in {999, 1000}


def test_the_smallest_packets_of_every_codec_fit() -> None:
    spent = effort()
    for _ in range(10 * 1000):
        spent.count_packet(20)
        spent.count_frame(192, 192_000)
