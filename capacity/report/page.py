"""Writing figures into a page between marks, so that none of them is typed by hand."""

from __future__ import annotations

import re

from capacity.model.errors import PlanningError


def with_part(text: str, name: str, part: str) -> str:
    """Return a page's text with a part between its marks.

    Raises:
        PlanningError: the marks are not there, in this order, once.
    """
    begin, end = f"<!-- planned {name}: begin -->", f"<!-- planned {name}: end -->"
    marked = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    if len(marked.findall(text)) != 1:
        raise PlanningError(f"The page needs the lines {begin!r} and {end!r} once, in this order.")
    return marked.sub(lambda _: f"{begin}\n\n{part}\n\n{end}", text)
