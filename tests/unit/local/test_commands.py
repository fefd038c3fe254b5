from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.local.__main__ import main, make_parser
from infra.local.cloud.trainer import training_program
from infra.local.commands import batch, demo, live
from infra.local.processes.children import StartError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path


def parsed(*arguments: str) -> argparse.Namespace:
    return make_parser().parse_args(arguments)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("demo", "--embedded", "--emulators"), "not allowed with"),
        (("serve", "--origin", "http://localhost:5173/shop"), "write scheme, host and port"),
        (("serve", "--own-characters", "0"), "from 1 to 1000, found '0'"),
    ],
)
def test_contradictory_options_are_refused_with_the_reason(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed(*arguments)

    assert caught.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("convert", "gone.wav"), "gone.wav does not exist"),
        (("convert",), "name the recordings IN to convert, or give a text with --text"),
        (("convert", "a.wav", "--speed", "2"), "--speed goes with --text only: leave it out"),
        (
            ("convert", "--text", "a", "b.wav", "c.wav"),
            "a text has one result; name one file OUT, and no recordings",
        ),
        (
            ("convert", "--text", "a", "--pitch-shift", "2"),
            "--pitch-shift is for recordings; --pitch is for a text",
        ),
        (
            ("demo", "--embedded", "--scale-to-zero", "5"),
            "--scale-to-zero needs Google's emulators: leave --embedded out",
        ),
        (
            ("serve", "--own-characters", "3", "--scale-to-zero", "60"),
            "--own-characters needs a converter that stays: leave --scale-to-zero out",
        ),
        (("serve", "--public-characters"), "--public-characters needs --own-characters N"),
    ],
)
def test_a_usage_error_is_one_sentence_and_exit_code_2_before_the_start(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"error: {complaint}\n"


def test_serve_takes_several_origins_as_browsers_write_them() -> None:
    found = parsed("serve", "--origin", "http://LOCALHOST:5173/", "--origin", "https://a.example")

    assert found.origins == ["http://localhost:5173", "https://a.example"]


def test_without_the_packages_of_the_training_a_sentence_says_how_to_get_them(
    tmp_path: Path,
) -> None:
    with pytest.raises(StartError, match="found none; install them with: nox -s train"):
        training_program(tmp_path)
    program = tmp_path / ".nox" / "training" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.touch()
    assert training_program(tmp_path) == program


@pytest.mark.parametrize("command", [("demo",), ("convert", "--text", "Hello"), ("live",)])
def test_a_character_that_is_not_there_is_refused_before_anything_starts(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError

    for module in (batch, demo, live):
        monkeypatch.setattr(module, "local_cloud", started)

    assert main([*command, "--character", "nobody", "--embedded"]) == 2

    said = capsys.readouterr().err
    assert "there is no character 'nobody'; there are " in said
    assert "hina" in said
