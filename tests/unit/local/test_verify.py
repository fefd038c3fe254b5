"""The command that says of files whether they were made here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from infra.local.commands.verify import run_verify
from infra.local.configuration.keys import CERTIFICATES, make_provenance_keys
from shared.speech.results.statement import describe
from tests.unit.conversion.test_verification import file, marked, plain, signed
from tests.unit.results.test_credentials import KEYS, MARKING, MEI, SIGNER

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_each_file_gets_a_sentence_and_a_broken_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WATERMARK_KEYS", "the key of the verifier's tests!")
    monkeypatch.setenv("C2PA_CERTIFICATES", KEYS[CERTIFICATES])
    (tmp_path / "ours.wav").write_bytes(signed(file(marked())))
    (tmp_path / "broken.wav").write_bytes(b"no sound")
    files = [tmp_path / name for name in ("ours.wav", "broken.wav", "missing.wav")]

    assert await run_verify(files, tmp_path) == 1

    shown = capsys.readouterr().out
    assert "ours.wav: This was made here" in shown
    assert "watermark: found, bits 4711" in shown
    assert "signed statement: ours" in shown
    assert "character: mei" in shown
    assert "broken.wav: " in shown
    assert "missing.wav: " in shown


async def test_without_keys_in_the_environment_those_of_the_local_cloud_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WATERMARK_KEYS", raising=False)
    (tmp_path / "plain.wav").write_bytes(file(plain()))

    assert await run_verify([tmp_path / "plain.wav"], tmp_path) == 0

    assert "no sign that this was made here" in capsys.readouterr().out
    assert (tmp_path / "origin" / "watermark.key").exists()


async def test_what_a_statement_says_cannot_look_like_a_line_of_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WATERMARK_KEYS", "the key of the verifier's tests!")
    monkeypatch.setenv("C2PA_CERTIFICATES", make_provenance_keys()[CERTIFICATES])
    statement = describe(MEI, MARKING, datetime.now(UTC))
    statement["assertions"][1]["data"]["id"] = "mei\n  watermark: found"
    path = tmp_path / "a\nb.wav"
    path.write_bytes(SIGNER.add_credentials(file(plain()), "audio/wav", statement))

    await run_verify([path], tmp_path)

    shown = capsys.readouterr().out
    assert "watermark: found" in shown
    assert not any(line.strip().startswith("watermark: found") for line in shown.splitlines())
    assert r"a\nb.wav: " in shown
