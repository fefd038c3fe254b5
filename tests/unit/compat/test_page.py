"""docs/compatible-apis.md tells every route of each dialect, and which of them answer 501."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from functions.compat import elevenlabs, openai
from functions.compat.voicevox import app as voicevox
from functions.compat.voicevox.speakers import VoicevoxSpeakers
from functions.compat.voicevox.user_data import UserData
from tests.support.compat import client_of, synthesis_of

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.routing import Route

PAGE = (Path(__file__).parents[3] / "docs" / "compatible-apis.md").read_text()


def told(dialect: str) -> dict[str, str]:
    """What the table of a dialect says of each path; a parameter at the end is left out."""
    (section,) = (part for part in PAGE.split("\n## ") if part.startswith(f"{dialect}\n"))
    table = section[section.index("| route | state |") :].partition("\n\n")[0]
    said: dict[str, str] = {}
    for row in table.splitlines()[2:]:
        routes, state = row.strip("| ").split(" | ")
        for name in re.findall(r"`(?:[A-Z]+ )?(/[^`]*)`", routes):
            path = f"{[*said][-1]}{name}" if name == "/stream" else name
            said[without_parameter(path)] = state
    return said


def without_parameter(path: str) -> str:
    return re.sub(r"/\{\w+\}", "", path)


def served(dialect: str) -> Starlette:
    nobody, synthesis = cast("Any", None), synthesis_of()
    if dialect == "OpenAI":
        return openai.build(nobody, synthesis)
    if dialect == "ElevenLabs":
        return elevenlabs.build({}, nobody, nobody, synthesis)
    services = voicevox.VoicevoxServices(VoicevoxSpeakers([]), UserData.open(), synthesis)
    return voicevox.build(services)


@pytest.mark.parametrize("dialect", ["OpenAI", "ElevenLabs", "VOICEVOX"])
async def test_the_page_tells_every_route_and_which_of_them_are_left_out(dialect: str) -> None:
    app, rows = served(dialect), told(dialect)
    paths = {without_parameter(cast("Route", route).path) for route in app.routes}
    for path in list(rows):
        if path.endswith("*"):
            meant = {each for each in paths if each.startswith(path[:-1])}
            assert meant
            rows |= dict.fromkeys(meant, rows.pop(path))

    assert rows.keys() == paths
    async with client_of(app) as client:
        left_out = {path for path in paths if (await client.post(path)).status_code == 501}
    assert left_out == {path for path, state in rows.items() if state == "501"}
