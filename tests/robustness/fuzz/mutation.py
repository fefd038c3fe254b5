"""Changes files as damage, mistakes and attackers do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Lengths and counts that parsers stumble over, in the widths that formats use.
TELLING = tuple(
    number.to_bytes(width, order)
    for width in (1, 2, 4, 8)
    for number in (0, 1, 2 ** (8 * width - 1) - 1, 2 ** (8 * width - 1), 2 ** (8 * width) - 1)
    for order in ("big", "little")
)

# Damage does most in the beginning, where headers are.
_PLACES = st.one_of(st.floats(0, 1), st.floats(0, 0.05), st.floats(0, 0.005))

# A file with the wrong magic is refused before anything else is tried.
_KEPT = st.sampled_from((0, 4, 12, 16, 64))

Change = tuple[str, float, bytes, float]

_CHANGES: st.SearchStrategy[Change] = st.tuples(
    st.sampled_from(("flip", "overwrite", "insert", "cut", "repeat")),
    _PLACES,
    st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from(TELLING)),
    _PLACES,
)


def mutated(seeds: Mapping[str, bytes], *, most: int = 8) -> st.SearchStrategy[bytes]:
    """Files made from the seeds by a few changes, some of two seeds joined somewhere."""
    files = st.sampled_from(sorted(seeds)).map(lambda name: seeds[name])
    mixed = st.one_of(files, files, st.builds(_joined, files, _PLACES, files, _PLACES))
    return st.builds(changed, mixed, st.lists(_CHANGES, max_size=most), _KEPT)


def _joined(first: bytes, end: float, second: bytes, begin: float) -> bytes:
    return first[: int(end * len(first))] + second[int(begin * len(second)) :]


def changed(data: bytes, changes: Sequence[Change], kept: int) -> bytes:
    """Return a file after some changes, which leave its first `kept` bytes alone."""
    head, data = data[:kept], data[kept:]
    for kind, place, content, other in changes:
        data = _apply(data, kind, int(place * len(data)), content, int(other * len(data)))
    return head + data


def _apply(data: bytes, kind: str, at: int, content: bytes, other: int) -> bytes:
    end = at + len(content)
    match kind:
        case "flip":
            flipped = bytes(a ^ b for a, b in zip(data[at:end], content, strict=False))
            return data[:at] + flipped + data[end:]
        case "overwrite":
            return data[:at] + content + data[end:]
        case "insert":
            return data[:at] + content + data[at:]
        case "cut":
            return data[:at] + data[at + other :]
        case _:
            piece = data[at : at + max(1, other)]
            return data[:at] + piece * (1 + content[0] % 4) + data[at:]


_NUMBERS = st.sampled_from(
    (0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 1e-320, 1e308, True, False, None)
)
_TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        (
            *("", " ", "\0", "\x1f", "\U0010ffff", "e\u0301", "\u202e", "١٢"),
            *("../../etc/passwd", "/etc/passwd", "NaN", "1e999", "0x10", "-1", "null", "%s%n"),
        )
    ),
)
_LONG_TEXTS = st.sampled_from((5_000, 70_000)).map(lambda count: "9" * count)

# Python's own parser takes these, other writers send them.
_LITERALS = {
    "not a number": "NaN",
    "infinite": "Infinity",
    "infinite by size": "-1e999",
    "many digits": "9" * 5_000,
    "exponent": "1E+2",
    "half a character": '"\\ud800"',
    "deep": "[" * 5_000,
}
_MARK = "\ue000"
LEFT_OUT = object()


def _leaves() -> st.SearchStrategy[Any]:
    literals = st.sampled_from(sorted(_LITERALS)).map(_marked)
    return st.one_of(_NUMBERS, _TEXTS, st.floats(), literals, literals)


def _values() -> st.SearchStrategy[Any]:
    """Any JSON value, usually a short one."""
    inner = st.one_of(_leaves(), st.lists(_leaves(), max_size=3), st.just({}))
    nested = st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=3))
    leaves = _leaves()
    return st.one_of(leaves, leaves, leaves, leaves, nested, st.just(LEFT_OUT), _LONG_TEXTS)


def _marked(name: str) -> str:
    return f"{_MARK}{name}{_MARK}"


def documents(example: Any) -> st.SearchStrategy[bytes]:
    """JSON like `example`, with some values replaced, left out, doubled or added."""
    change = st.tuples(st.integers(0, 10**6), _values())
    # An input with one error gets further than one with three.
    few = st.lists(change, min_size=1, max_size=1)
    changed = st.one_of(few, few, few, st.lists(change, max_size=3))
    return st.builds(
        _encoded,
        st.builds(_replaced, st.just(example), changed),
        st.sampled_from((*["utf-8"] * 20, "utf-8-sig", "utf-16", "utf-32", "latin-1")),
        st.sampled_from((*[""] * 20, "x", " ", "\0")),
    )


def _replaced(example: Any, changes: Sequence[tuple[int, Any]]) -> Any:
    document = json.loads(json.dumps(example))
    for number, value in changes:
        places = list(_places(document))
        if not places:
            break
        container, key = places[number % len(places)]
        if value is LEFT_OUT:
            del container[key]
        else:
            container[key] = value
    return document


def _places(value: Any) -> Any:
    """Every value inside of a document, as its container and its key there."""
    if isinstance(value, dict):
        for key in list(value):
            yield value, key
            yield from _places(value[key])
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield value, index
            yield from _places(inner)


def _encoded(document: Any, encoding: str, prefix: str) -> bytes:
    text = json.dumps(document, ensure_ascii=False)
    for name, literal in _LITERALS.items():
        text = text.replace(json.dumps(_marked(name), ensure_ascii=False), literal)
    return (prefix + text).encode(
        encoding, errors="surrogatepass" if "utf" in encoding else "replace"
    )
