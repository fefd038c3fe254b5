from pathlib import Path

import pytest

from training.quality.card import BEGIN, END, write_tables


def test_the_tables_replace_the_text_between_the_markers(tmp_path: Path) -> None:
    card = tmp_path / "MODEL_CARD.md"
    card.write_text(f"# Mei\n\n{BEGIN}\nold\n{END}\n\n## Limits\n")
    write_tables(card, "| new |")
    text = card.read_text()
    assert "old" not in text
    assert "| new |" in text
    assert text.startswith("# Mei")
    assert text.endswith("## Limits\n")


def test_writing_twice_gives_the_same_card(tmp_path: Path) -> None:
    card = tmp_path / "MODEL_CARD.md"
    write_tables(card, "| a |")
    once = card.read_text()
    write_tables(card, "| a |")
    assert card.read_text() == once


def test_a_card_with_one_marker_is_refused(tmp_path: Path) -> None:
    card = tmp_path / "MODEL_CARD.md"
    card.write_text(BEGIN)
    with pytest.raises(ValueError, match="both markers"):
        write_tables(card, "x")
