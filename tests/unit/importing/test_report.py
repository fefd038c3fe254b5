"""What an import prints of a file that a stranger has made."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from rich.console import Console

from tests.unit.importing.test_aivmx_files import CONTENT
from tools.importing.aivmx_files import parse_aivmx
from tools.importing.report import TrialResult, text_voice_table

if TYPE_CHECKING:
    from tools.bundles.encoder_store import StoredEncoder
    from tools.bundles.sample import Sample
    from tools.importing.aivmx_files import ImportedTextVoice

EVIL = "[/b][link=https://evil.example]\x1b]0;x\x07\u202e"


def printed(*, name: str, licence: str) -> str:
    voice = parse_aivmx(CONTENT)
    facts = replace(voice.facts, name=name, creators=(name,), licence=licence)
    text_voice = SimpleNamespace(read=replace(voice, facts=facts), portrait=None)
    sample = cast("Sample", SimpleNamespace(sound="a.wav", picture="a.png"))
    encoder = cast("StoredEncoder", SimpleNamespace(sha256="0" * 64, origin=EVIL))
    table = text_voice_table(
        cast("ImportedTextVoice", text_voice), encoder, TrialResult({}, sample)
    )
    console = Console(file=io.StringIO(), force_terminal=True, width=200, no_color=True)
    console.print(table)
    return cast("io.StringIO", console.file).getvalue()


def test_names_out_of_a_file_are_shown_as_they_are_and_steer_no_terminal() -> None:
    said = printed(name=EVIL, licence=EVIL)

    assert "[/b][link=https://evil.example]" in said
    assert not {"\x1b]", "\x07", "\u202e"} & {
        said[at : at + size] for size in (1, 2) for at in range(len(said))
    }


@pytest.mark.parametrize("licence", ["", "\n"])
def test_a_licence_of_nothing_is_no_licence(licence: str) -> None:
    assert "not for publication" in printed(name="Ada", licence=licence)
