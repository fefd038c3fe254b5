"""The verdict of `nox -s mutants`."""

from __future__ import annotations

import re

import pytest

from tests.mutants import PAGE, Change, Outcome, line_of, place_of, reasons_of

FIRST = "shared.conversion.leases.xǁLeaseǁ_renew__mutmut_1"
SECOND = "shared.conversion.leases.x_lease_length__mutmut_12"
CHANGE = Change("leases.lease_length", "return a | b")
TABLE = r"""
| function | changed to | why |
|---|---|---|
| `leases.lease_length` | `return a \| b`, `pass` | nobody `reads` it |

| another | table |
|---|---|
| `x` | `y` |
"""


def outcome(
    *states: str, reasons: frozenset[Change] = frozenset(), change: Change = CHANGE
) -> Outcome:
    named = {
        f"shared.voices.voice.x_f__mutmut_{number}": state for number, state in enumerate(states)
    }
    alive = {name: change for name, state in named.items() if state not in {"killed", "timeout"}}
    return Outcome(named, alive, reasons)


def test_a_mutant_is_told_by_its_function_and_its_line() -> None:
    difference = "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return a\n+    return a | b"

    assert (place_of(FIRST), place_of(SECOND)) == ("leases.Lease._renew", "leases.lease_length")
    assert line_of(difference) == "return a | b"
    assert line_of(difference.replace("+    return a | b", "+")) == "without return a"
    with pytest.raises(ValueError, match="no name of a mutant"):
        place_of("shared.conversion.leases.Lease")


def test_the_reasons_are_those_of_the_page() -> None:
    assert reasons_of(TABLE) == {CHANGE, Change("leases.lease_length", "pass")}
    assert reasons_of(PAGE.read_text())
    with pytest.raises(ValueError, match="no line of a mutant"):
        reasons_of(TABLE.replace("`pass`", "pass").replace(r"`return a \| b`", "return"))


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        (outcome(*["killed"] * 99, "survived"), "x_f__mutmut_99 is survived, .* return a | b"),
        (
            outcome(*["killed"] * 99, "no tests", reasons=frozenset({CHANGE})),
            "x_f__mutmut_99 is no tests",
        ),
        (outcome("killed", reasons=frozenset({CHANGE})), "explains .* does not survive"),
        (
            outcome(*["killed"] * 18, *["survived"] * 2, reasons=frozenset({CHANGE})),
            "only 90.0%",
        ),
    ],
)
def test_what_is_wrong_is_said(found: Outcome, complaint: str) -> None:
    (sentence,) = found.complaints()
    assert re.search(complaint, sentence)
