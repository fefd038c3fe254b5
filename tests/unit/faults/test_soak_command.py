from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.measuring.report import Report, Table
from tests.faults import soak

if TYPE_CHECKING:
    from pathlib import Path

MARKS = "<!-- measured folders: begin -->\n\nold\n\n<!-- measured folders: end -->\n"


@pytest.mark.parametrize(
    ("complaints", "code", "says"), [([], 0, ""), (["a voice was lost"], 1, "a voice was lost")]
)
def test_figures_are_written_whatever_the_verdict_and_say_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    complaints: list[str],
    code: int,
    says: str,
) -> None:
    page = tmp_path / "README.md"
    page.write_text(MARKS)
    report = Report("folders", (Table("Folders", ("what", "figure"), (("folders", 7),)),))
    monkeypatch.setattr(soak, "README", page)
    monkeypatch.setattr(soak, "convert_folders", lambda _times: (report, complaints))

    assert soak.main(["--folders", "7", "--write"]) == code

    assert "| folders | 7 |" in page.read_text()
    assert ("NOT WELL" in page.read_text()) == bool(complaints)
    assert says in page.read_text()
