"""The tone of each phone, high or low, from full-context labels.

The rules are those of Kurihara et al., "Prosodic features control by symbols as input of
sequence-to-sequence acoustic modeling for neural TTS" (doi:10.1587/transinf.2020EDP7104), as ESPnet
and Style-Bert-VITS2 apply them: within an accent phrase, the tone rises after the first mora and
falls after the accent.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

LOW, HIGH = 0, 1

_LABEL = re.compile(
    r"-(?P<phone>[^+]+)\+.*?"
    r"/A:(?P<accent>xx|-?\d+)\+(?P<forward>xx|\d+)\+(?P<backward>xx|\d+)"
    r".*/F:(?P<morae>xx|\d+)_"
)
_NOWHERE = -50  # what no position in a phrase is
_SILENCES = frozenset({"sil", "pau"})
_CLOSURE = "cl"
ENDS_OF_MORAE = frozenset({*"aiueoAIUEONq", _CLOSURE})
"""The phones that end a mora: vowels, the moraic nasal and a closure."""

_DEVOICED = frozenset("AIUEO")


class ToneOfPhone(NamedTuple):
    """A phone, in the phones of Style-Bert-VITS2, and its tone."""

    phone: str
    tone: int


@dataclass(frozen=True)
class _Label:
    """One phone: how far its mora is from the accent, from both ends, and its phrase's length."""

    phone: str
    accent: int
    forward: int
    backward: int
    morae: int


def tones_of_phones(labels: Sequence[str]) -> list[ToneOfPhone]:
    """Find the tones of all phones of a text, without its pauses.

    Args:
        labels: full-context labels of the text.
    """
    return [
        ToneOfPhone(phone, tone)
        for phrase in _phrases([_parse(label) for label in labels])
        for phone, tone in _level(phrase)
    ]


def _parse(label: str) -> _Label:
    found = _LABEL.search(label)
    if found is None:
        raise ValueError(f"expected a full-context label, found {label!r}")
    accent, forward, backward, morae = (
        _NOWHERE if value == "xx" else int(value)
        for value in found.group("accent", "forward", "backward", "morae")
    )
    return _Label(found["phone"], accent, forward, backward, morae)


def _phrases(labels: Sequence[_Label]) -> Iterator[list[ToneOfPhone]]:
    """Yield the phones of each accent phrase, with tones that begin at 0 and go up and down."""
    phrase: list[ToneOfPhone] = []
    tone = 0
    for label, following in zip_longest(labels, labels[1:]):
        if label.phone in _SILENCES:
            yield phrase
            phrase, tone = [], 0
            continue
        phrase.append(ToneOfPhone(_plain(label.phone), tone))
        if following is None:
            break
        if label.backward == 1 and following.forward == 1 and label.phone in ENDS_OF_MORAE:
            yield phrase
            phrase, tone = [], 0
        else:
            tone += _step(label, following)
    yield phrase


def _plain(phone: str) -> str:
    if phone == _CLOSURE:
        return "q"
    return phone.lower() if phone in _DEVOICED else phone


def _step(label: _Label, following: _Label) -> int:
    """By how much the tone changes after a phone."""
    if (
        label.accent == 0
        and following.forward == label.forward + 1
        and label.forward != label.morae
    ):
        return -1
    return 1 if (label.forward, following.forward) == (1, 2) else 0


def _level(phrase: Iterable[ToneOfPhone]) -> list[ToneOfPhone]:
    """Bring the tones of a phrase to low and high."""
    tones = list(phrase)
    lowest = min((tone for _, tone in tones), default=0)
    return [ToneOfPhone(phone, min(max(tone - lowest, LOW), HIGH)) for phone, tone in tones]
