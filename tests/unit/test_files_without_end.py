"""Files of others that say they have a terabyte, and pipes: refused at once, wherever they lie."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pydantic import TypeAdapter

from functions.api.catalogue import Catalogue
from functions.compat.service.shared_files import LockedJsonFile
from functions.compat.voicevox.user_data import UserData
from functions.train.artifacts import MAX_KEPT_BYTES, STAMP, Checkpoints
from infra.local.commands.verify import run_verify
from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MANIFEST
from shared.characters.own.recordings import progress_prefix
from shared.runtime.settings import SettingsError
from shared.speech.graphs.bundle_folders import seal_manifest
from tests.support.buckets import MemoryBucket
from tests.support.characters import a_manifest
from tests.unit.bundles.test_trial import MEI
from tests.unit.graphs.bundles import write_bundle
from tools.bundles.consent import QUESTIONS, ask_consent
from tools.bundles.encoder_store import EncoderStore
from tools.bundles.files import VoiceFileError
from tools.bundles.sample import write_sample
from tools.importing import character_list
from tools.importing.encoders import read_tokens

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TERABYTE = 1 << 40


def huge(path: Path) -> Path:
    """Let a file end after a terabyte; what it has before stays, and the disk holds no more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, TERABYTE)
    return path


def endless(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


BAD = pytest.mark.parametrize("make", [huge, endless])


def test_a_manifest_that_is_changed_by_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bundle(tmp_path, id="ada").rename(tmp_path / "ada")
    huge(tmp_path / "ada" / MANIFEST)

    arguments = ["set", "ada", "--name", "Eve", "--into", str(tmp_path)]
    assert character_list.main(arguments, lambda question: question) == 1

    assert "expected at most" in capsys.readouterr().err


def test_a_manifest_that_is_sealed(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path, id="ada")
    huge(bundle / MANIFEST)
    with pytest.raises(BundleError, match="expected at most"):
        seal_manifest(bundle, 1 << 20)


@BAD
async def test_a_portrait_that_the_api_shows(make: Callable[[Path], Path], tmp_path: Path) -> None:
    make(tmp_path / "ada.svg")
    catalogue = Catalogue({"ada": a_manifest("ada", tmp_path, "ada.svg")})
    async with asyncio.timeout(5):
        assert await catalogue.portrait("ada") is None


@BAD
def test_what_clients_of_compat_have_left(make: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"words\.json: expected"):
        LockedJsonFile(make(tmp_path / "words.json")).read_new(TypeAdapter(dict[str, int]))


@pytest.mark.parametrize("content", ["", "{", "3", '{"a": "b"}', "[" * 100_000])
@pytest.mark.parametrize("name", ["words.json", "presets.json"])
def test_what_no_client_of_compat_has_left(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(SettingsError, match=rf"DATA_DIR: .*{name}: .*; move the file away"):
        UserData.open(tmp_path).presets.all()


def test_what_is_known_of_an_encoder(tmp_path: Path) -> None:
    huge(tmp_path / "encoders" / "abc.json").with_suffix(".onnx").touch()
    with pytest.raises(VoiceFileError, match="expected at most"):
        EncoderStore(tmp_path).choose(256, None)


def test_the_draft_of_a_consent(tmp_path: Path) -> None:
    asked: list[str] = []

    def stop(question: str) -> str:
        asked.append(question)
        raise EOFError

    for content in ("", "[]", "[" * 100_000):
        draft = tmp_path / "draft.json"
        draft.write_text(content)
        if not content:
            huge(draft)
        with pytest.raises(EOFError):
            ask_consent(stop, draft)
    assert len(asked) == 3
    assert asked[0] == next(iter(QUESTIONS.values()))


@BAD
def test_a_vocabulary(make: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(VoiceFileError, match=r"vocab\.txt: .*expected"):
        read_tokens(make(tmp_path / "vocab.txt"))


@BAD
def test_the_recording_of_a_sample(make: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(OSError, match="expected"):
        write_sample(MEI, make(tmp_path / "recording.wav"), tmp_path)


@BAD
async def test_a_file_that_is_verified(
    make: Callable[[Path], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WATERMARK_KEYS", "the key of the verifier's tests!")
    assert await run_verify([make(tmp_path / "a.wav")], tmp_path) == 1
    assert "a.wav: expected" in capsys.readouterr().out


async def test_a_checkpoint_of_a_training(tmp_path: Path) -> None:
    bucket, stamp = MemoryBucket("recordings"), "a" * 64
    prefix = f"{progress_prefix('own-a')}{stamp}/000001-00000"
    bucket.put(f"{prefix}1-lessons.pickle", b"small")
    bucket.put(f"{prefix}2-others.pickle", b"large")
    listed = bucket.list

    async def list_a_large_one(name: str = "") -> object:
        return [
            replace(each, bytes=MAX_KEPT_BYTES + 1) if "others" in each.name else each
            for each in await listed(name)
        ]

    bucket.list = list_a_large_one  # type: ignore[method-assign, assignment]
    kept = Checkpoints(bucket, "own-a", 2, tmp_path)
    await kept.restore()
    assert (tmp_path / STAMP).exists()
    assert (tmp_path / "lessons.pickle").exists()
    assert not (tmp_path / "others.pickle").exists()

    # What would not be restored is not kept.
    huge(tmp_path / "others.pickle")
    await kept.save()
    assert len(bucket.objects) == 2
