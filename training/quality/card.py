"""The generated part of the model card."""

from pathlib import Path

BEGIN = "<!-- measured: begin (written by `python -m training quality`) -->"
END = "<!-- measured: end -->"


def write_tables(card: Path, tables: str) -> None:
    """Puts the tables between the card's markers; a card without markers is begun.

    Raises:
        ValueError: the card has only one of the markers.
    """
    text = (
        card.read_text(encoding="utf-8") if card.exists() else f"# Model card\n\n{BEGIN}\n{END}\n"
    )
    if (BEGIN in text) != (END in text):
        raise ValueError(f"{card}: expected both markers of the measured part, found one")
    if BEGIN not in text:
        text += f"\n{BEGIN}\n{END}\n"
    before, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    card.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}", encoding="utf-8")
