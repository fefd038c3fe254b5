"""An owner who reads aloud: the voice of Open JTalk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infra.local.configuration.options import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.speech.signal.sound import Samples

RATE = 48_000
"""Of all that the owner says, in Hz."""

_SENTENCES = ROOT / "tools" / "training" / "sources" / "texts" / "hina_ja.txt"
_ENOUGH = 56
_IN_A_FILE = 5


def spoken(text: str) -> Samples:
    """Return a text as the owner says it, half a second after silence began and two before it ends.

    Silence is a quiet room's: where there is none at all, nobody would believe the recording.
    """
    # Only the tests that train need it, and their environment has it.
    import pyopenjtalk  # noqa: PLC0415

    samples, rate = pyopenjtalk.tts(text)
    assert rate == RATE
    room = np.random.default_rng(1).standard_normal(5 * RATE // 2).astype(np.float32) * 1e-4
    said = np.asarray(samples / 32_768, np.float32)
    return np.concatenate([room[: RATE // 2], said, room[RATE // 2 :]])


def minutes_of_reading() -> Iterator[Samples]:
    """Yield recordings of more than two minutes of speech, as the page lets its visitors read."""
    lines = _SENTENCES.read_text("utf-8").splitlines()
    for index in range(0, _ENOUGH, _IN_A_FILE):
        yield np.concatenate([spoken(line) for line in lines[index : index + _IN_A_FILE]])
