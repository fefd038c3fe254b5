"""Full-context labels for accent phrases that nobody wrote as text."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from speech.text.phones.accents import AccentPhrase, Mora
from speech.text.reading import speakable

_DEVOICED = "’"
_NOTHING = "*"
_PAUSE = "、"


def labels_of(phrases: Sequence[AccentPhrase]) -> tuple[str, ...]:
    """Make full-context labels: silence at both ends, and a pause wherever signs stand."""
    # See speech.text.reading for why not at the top.
    import pyopenjtalk  # noqa: PLC0415

    features = [feature for phrase in phrases for feature in _features(phrase)]
    if not any(phrase.sounding for phrase in phrases):
        return ()
    return tuple(pyopenjtalk.make_label(speakable(features)))


def _features(phrase: AccentPhrase) -> Iterator[dict[str, Any]]:
    accent = phrase.accent
    for is_sound, run in groupby(phrase.morae, key=lambda mora: mora.sound is not None):
        if is_sound:
            morae = list(run)
            yield _word(morae, accent)
            accent -= len(morae)
        else:
            is_question = any(mora.kana == "?" for mora in run)
            yield _feature("？" if is_question else _PAUSE) | {"pos": "記号"}


def _word(morae: Iterable[Mora], accent: int) -> dict[str, Any]:
    morae = list(morae)
    kana = "".join(mora.kana for mora in morae)
    spoken = "".join(mora.kana + _DEVOICED * mora.is_devoiced for mora in morae)
    # Open JTalk writes an accent on the last mora as none at all.
    accented = accent if 1 <= accent < len(morae) else 0
    return _feature(kana) | {"pron": spoken, "acc": accented, "mora_size": len(morae)}


def _feature(text: str) -> dict[str, Any]:
    """Describe a word as Open JTalk does."""
    return {
        "string": text,
        "pos": "名詞",
        "pos_group1": "一般",
        "pos_group2": _NOTHING,
        "pos_group3": _NOTHING,
        "ctype": _NOTHING,
        "cform": _NOTHING,
        "orig": text,
        "read": text,
        "pron": text,
        "acc": 0,
        "mora_size": 0,
        "chain_rule": _NOTHING,
        "chain_flag": 0,
    }
