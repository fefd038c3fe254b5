"""The tables of faults, what must come of each, and the tests that let it happen.

`nox -s soak -- --faults` writes them from faults.toml into the page; a fault names its tests as
FILE or FILE::FUNCTION.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from tools.benchmarks.report import marks, with_part

FOLDER: Final = Path(__file__).parents[1] / "faults"
PAGE: Final = FOLDER / "README.md"
OWN: Final = "tests/robustness/faults/"


def read_sections() -> list[dict[str, Any]]:
    sections: list[dict[str, Any]] = tomllib.loads((FOLDER / "faults.toml").read_text())["section"]
    return sections


def with_faults(page: str) -> str:
    """Return the text of the page with the tables as faults.toml has them."""
    parts = []
    for section in read_sections():
        lines = [f"## {section['title']}\n", "| fault | what happens | shown by |", "|---|---|---|"]
        for fault in section["faults"]:
            files = dict.fromkeys(test.partition("::")[0] for test in fault["tests"])
            shown = ", ".join(f"`{file.removeprefix(OWN)}`" for file in files)
            lines.append(f"| {fault['fault']} | {fault['end']} | {shown} |")
        parts.append("\n".join(lines))
    return with_part(page, "\n\n".join(parts), *marks("faults", "written"))
