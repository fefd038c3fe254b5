"""The generated part of the model card."""

from pathlib import Path

BEGIN = "<!-- measured: begin (written by `python -m training quality`) -->"
END = "<!-- measured: end -->"


JUDGED_BEGIN = "<!-- judged: begin (written by `nox -s quality`) -->"
JUDGED_END = "<!-- judged: end -->"


def write_tables(card: Path, tables: str) -> None:
    """Puts the tables between the card's markers; a card without markers is begun.

    Raises:
        ValueError: the card has only one of the markers.
    """
    _write(card, tables, BEGIN, END)


def write_judged(card: Path, tables: str) -> None:
    """Puts what judges say between markers of their own; see write_tables."""
    _write(card, tables, JUDGED_BEGIN, JUDGED_END)


def _write(card: Path, tables: str, begin: str, end: str) -> None:
    text = (
        card.read_text(encoding="utf-8") if card.exists() else f"# Model card\n\n{begin}\n{end}\n"
    )
    if (begin in text) != (end in text):
        raise ValueError(f"{card}: expected both markers of the measured part, found one")
    if begin not in text:
        text += f"\n{begin}\n{end}\n"
    before, rest = text.split(begin, 1)
    _, after = rest.split(end, 1)
    card.write_text(f"{before}{begin}\n\n{tables}\n\n{end}{after}", encoding="utf-8")
