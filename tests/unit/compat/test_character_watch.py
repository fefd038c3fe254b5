"""Bundles that come into the folder of characters are offered by every dialect, and leave it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, cast

import pytest

from functions.compat.character_watch import CharacterWatch
from functions.compat.composition import Compat, SpeechResources, compose
from functions.compat.settings import DialectSettings
from functions.compat.voicevox.user_data import UserData
from shared.characters.bundle_files import BundleError
from shared.container.admission import Admission
from tests.support.compat import client_of
from tests.support.speakers import Sentences, a_speaker

if TYPE_CHECKING:
    from pathlib import Path

    from shared.conversion.characters import LoadedCharacter
    from shared.speech.decoding.decoder import Decoder


def load(folder: Path) -> LoadedCharacter:
    """Stands for the loading of a bundle, which has tests of its own."""
    if (folder / "character.json").read_text() == "broken":
        raise BundleError("character.json: expected JSON.")
    return a_speaker(folder.name, Sentences())


def put(characters: Path, name: str, content: str) -> None:
    (characters / name).mkdir(exist_ok=True)
    (characters / name / "character.json").write_text(content)


@pytest.fixture
def compat(tmp_path: Path) -> Compat:
    resources = SpeechResources(
        {"mei": a_speaker("mei", Sentences())},
        UserData.open(),
        cast("Decoder", None),
        Admission(running=1, waiting=4),
        tmp_path,
    )
    return compose(DialectSettings(), resources, ("*",))


async def offered(compat: Compat) -> list[set[str]]:
    """The characters that clients of OpenAI, ElevenLabs and VOICEVOX are offered."""
    async with client_of(compat.app) as client:
        openai = (await client.get("/v1/audio/voices")).json()["voices"]
        elevenlabs = (await client.get("/v1/voices")).json()["voices"]
        speakers = (await client.get("/speakers")).json()
    assert len(speakers) == len(openai)
    return [{each["id"] for each in openai}, {each["voice_id"] for each in elevenlabs}]


async def test_a_complete_folder_is_offered_by_all_and_its_revision_stays_if_the_next_is_broken(
    compat: Compat, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = CharacterWatch(tmp_path, load)
    put(tmp_path, "ada", "{}")
    await watch.look(compat.offered)
    assert await offered(compat) == [{"mei"}] * 2
    await watch.look(compat.offered)
    assert await offered(compat) == [{"mei", "ada"}] * 2

    put(tmp_path, "ada", "broken")
    put(tmp_path, "bob", "broken")
    with caplog.at_level("INFO"):
        await watch.look(compat.offered)
        await watch.look(compat.offered)
    assert await offered(compat) == [{"mei", "ada"}] * 2
    refused = [each.getMessage() for each in caplog.records if "expected JSON" in each.getMessage()]
    assert [each.split()[1] for each in refused] == ["ada", "bob"]

    shutil.rmtree(tmp_path / "ada")
    await watch.look(compat.offered)
    assert await offered(compat) == [{"mei"}] * 2


async def test_what_was_there_but_is_not_offered_is_taken_too(
    compat: Compat, tmp_path: Path
) -> None:
    put(tmp_path, "ada", "{}")
    put(tmp_path, "bob", "{}")
    watch = CharacterWatch(tmp_path, load, {"mei", "bob"})

    await watch.look(compat.offered)

    assert await offered(compat) == [{"mei", "ada"}] * 2


async def test_the_last_character_that_takes_text_stays(compat: Compat, tmp_path: Path) -> None:
    put(tmp_path, "mei", "{}")
    watch = CharacterWatch(tmp_path, load)
    shutil.rmtree(tmp_path / "mei")

    await watch.look(compat.offered)

    assert await offered(compat) == [{"mei"}] * 2
