from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.local.__main__ import _parser, main
from infra.local.cloud.trainer import training_program
from infra.local.commands import batch, demo, live
from infra.local.processes.children import StartError

if TYPE_CHECKING:
    import argparse

    from infra.local.configuration.options import CloudOptions


def parsed(*arguments: str) -> argparse.Namespace:
    return _parser().parse_args(arguments)


def test_convert_accepts_paths_and_options() -> None:
    found = parsed(
        "convert", "a.wav", "b", "--character", "taro", "--pitch-shift", "-2.5", "--format", "mp3"
    )

    assert found.paths == [Path("a.wav"), Path("b")]
    assert (found.character, found.pitch_shift, found.format) == ("taro", -2.5, "mp3")
    assert (found.embedded, found.overwrite, found.output) == (None, False, None)


@pytest.mark.parametrize("arguments", [(), ("--pitch-shift", "auto")])
def test_the_pitch_is_automatic_by_default(arguments: tuple[str, ...]) -> None:
    assert parsed("convert", "a.wav", *arguments).pitch_shift is None


@pytest.mark.parametrize(
    ("option", "embedded"), [("--embedded", True), ("--emulators", False), (None, None)]
)
@pytest.mark.parametrize("command", [("demo",), ("serve",), ("convert", "a.wav")])
def test_every_command_may_choose_between_emulators_and_memory(
    command: tuple[str, ...],
    option: str | None,
    embedded: bool | None,  # noqa: FBT001
) -> None:
    arguments = (*command, option) if option else command

    assert parsed(*arguments).embedded is embedded


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "COMMAND"),
        (("dance",), "dance"),
        (("convert", "a", "--format", "aiff"), "aiff"),
        (("convert", "a", "--pitch-shift", "high"), "high"),
        (("demo", "--embedded", "--emulators"), "not allowed with"),
        (("serve", "--port", "http"), "http"),
        (("serve", "--origin", "localhost:5173"), "write scheme, host and port"),
        (("serve", "--origin", "http://localhost:5173/shop"), "write scheme, host and port"),
        (("serve", "--scale-to-zero", "soon"), "soon"),
        (("serve", "--own-characters", "0"), "from 1 to 1000, found '0'"),
        (("serve", "--own-characters", "many"), "from 1 to 1000, found 'many'"),
        (("serve", "--scale-to-zero", "5", "--min-instances", "2"), "2"),
    ],
)
def test_contradictory_options_are_refused_with_the_reason(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed(*arguments)

    assert caught.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_usage_error_is_one_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(tmp_path / "gone.wav")]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'gone.wav'} does not exist\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "name the recordings IN to convert, or give a text with --text"),
        (("a.wav", "--speed", "2"), "--speed goes with --text only: leave it out"),
        (("--text", "a", "b.wav", "c.wav"), "a text has one result; name one file OUT"),
        (("--text", "a", "--pitch-shift", "2"), "--pitch-shift is for recordings"),
    ],
)
def test_a_text_or_recordings_are_converted_but_not_both(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", *arguments]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--min-instances", "1"), "--min-instances needs --scale-to-zero: add it"),
        (
            ("--embedded", "--scale-to-zero", "5"),
            "--scale-to-zero needs Google's emulators: leave --embedded out",
        ),
    ],
)
@pytest.mark.parametrize("command", ["demo", "serve"])
def test_unavailable_scaling_is_refused_in_one_sentence_before_the_start(
    command: str, arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, *arguments]) == 2
    assert capsys.readouterr().err == f"error: {complaint}\n"


def test_serve_takes_several_origins_as_browsers_write_them() -> None:
    found = parsed("serve", "--origin", "http://LOCALHOST:5173/", "--origin", "https://a.example")

    assert found.origins == ["http://localhost:5173", "https://a.example"]


def test_own_characters_are_refused_beside_a_converter_that_goes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--own-characters", "3", "--scale-to-zero", "60"]) == 2
    assert "leave --scale-to-zero out" in capsys.readouterr().err


def test_own_characters_are_made_with_the_emulators_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(options: CloudOptions, *, embedded: bool | None, **_more: object) -> None:
        assert options.own_characters is not None
        assert embedded is False
        raise StartError("everything would be started now")

    monkeypatch.setattr("infra.local.__main__.local_cloud", start)
    monkeypatch.setattr("infra.local.cloud.trainer.training_program", lambda: "python")

    assert main(["serve", "--own-characters", "3", "--emulators"]) == 2
    assert capsys.readouterr().err == "error: everything would be started now\n"


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
