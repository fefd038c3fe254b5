"""Who may call the VOICEVOX routes, and what several processes keep together."""

from __future__ import annotations

import base64
import io
import tempfile
import wave
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from functions.compat.service.keys import Access, AccessMiddleware
from functions.compat.settings import CompatSettings
from functions.compat.voicevox.queries import Preset
from functions.compat.voicevox.requests import WavesError, refuse
from functions.compat.voicevox.speech_routes import connect_waves
from functions.compat.voicevox.user_data import UserData, UserDictionary
from shared.speech.results.audio_files import write_wav
from shared.speech.text.dictionary import DictionaryWord, make_word
from tests.support.compat import KEY, client_of

if TYPE_CHECKING:
    from pathlib import Path

import numpy as np

BASIC = base64.b64encode(f"bot:{KEY}".encode()).decode()


async def status(
    headers: dict[str, str], key: str | None = KEY, hosts: tuple[str, ...] = ("*",)
) -> int:
    async def answer(_: object) -> PlainTextResponse:
        return PlainTextResponse("in")

    sites = ("https://site.example",)
    access = Access({} if key is None else {"bot": key}, sites, hosts)
    app = AccessMiddleware(Starlette(routes=[Route("/", answer)]), access, refuse)
    async with client_of(app) as client:
        return (await client.get("http://voice.test/", headers=headers)).status_code


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 401),
        ({"X-API-Key": "another"}, 401),
        ({"Authorization": "Basic %%%"}, 401),
        ({"X-API-Key": KEY}, 200),
        ({"Authorization": f"Bearer {KEY}"}, 200),
        ({"Authorization": f"Basic {BASIC}"}, 200),
        ({"X-API-Key": KEY, "Origin": "https://site.example"}, 200),
        ({"X-API-Key": KEY, "Origin": "http://voice.test"}, 200),
        ({"X-API-Key": KEY, "Origin": "https://other.example"}, 403),
        ({"X-API-Key": KEY, "Origin": "http://["}, 403),
    ],
)
async def test_requests_need_the_key_and_pages_an_allowed_site(
    headers: dict[str, str], expected: int
) -> None:
    assert await status(headers) == expected


async def test_without_a_key_everybody_may_call_but_pages_of_other_sites() -> None:
    assert await status({}, key=None) == 200
    assert await status({"Origin": "https://other.example"}, key=None) == 403


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:50021", 200),
        ("[::1]:50021", 200),
        ("localhost:50021", 200),
        ("engine:50021", 200),
        ("attacker.example:50021", 421),
        ("", 421),
        ("localhost.attacker.example", 421),
        ("[::1", 421),
    ],
)
async def test_a_page_cannot_call_under_a_name_of_its_own(host: str, expected: int) -> None:
    assert await status({"Host": host}, key=None, hosts=("engine",)) == expected
    assert await status({"Host": host, "X-API-Key": KEY}, hosts=("engine",)) == 200


def test_others_reach_the_service_by_default_only_if_they_need_a_key() -> None:
    assert CompatSettings().host == "127.0.0.1"
    assert CompatSettings(voicevox_key=SecretStr(KEY)).host == "0.0.0.0"  # noqa: S104
    assert CompatSettings(host="10.0.0.1").host == "10.0.0.1"


def a_preset() -> Preset:
    scales = ("speedScale", "pitchScale", "intonationScale", "volumeScale")
    lengths = ("prePhonemeLength", "postPhonemeLength")
    body = {"id": -1, "name": "fast", "speaker_uuid": "u", "style_id": 1}
    return Preset.model_validate(body | dict.fromkeys((*scales, *lengths), 1))


def test_what_one_process_keeps_another_finds(tmp_path: Path) -> None:
    one, other = UserData.open(tmp_path), UserData.open(tmp_path)

    number = one.presets.add(a_preset())
    word = one.dictionary.add(make_word("卍丸", "マンジマル", 1))
    other.dictionary.refresh()

    assert other.presets.find(number) == one.presets.find(number)
    assert other.dictionary.words() == one.dictionary.words()
    assert other.dictionary.has("卍丸")
    assert other.presets.delete(number)
    assert one.presets.all() == []
    assert other.dictionary.delete(word)
    one.dictionary.refresh()
    assert not one.dictionary.words()


def test_words_of_clients_leave_no_folder_behind_while_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dictionary = UserDictionary()
    for surface in ("声優", "配信"):
        dictionary.add(DictionaryWord(surface, "テスト", 1, priority=10))

    read = dictionary.read("声優の配信")

    assert [word.reading for word in read.words][::2] == ["テスト", "テスト"]
    assert list(tmp_path.iterdir()) == []


def encoded(value: float, rate: int = 8000) -> str:
    return base64.b64encode(write_wav(np.full(10, value, np.float32), rate)).decode()


def damaged(wave: str) -> bytes:
    """A file whose first chunk says that it is longer than the file."""
    content = base64.b64decode(wave)
    return content[:16] + (1 << 20).to_bytes(4, "little") + content[20:]


def test_waves_are_joined_one_after_the_other() -> None:
    with wave.open(io.BytesIO(connect_waves([encoded(0.5), encoded(-0.5)])[0])) as joined:
        samples = np.frombuffer(joined.readframes(20), "<i2")

    assert [samples[0], samples[10], len(samples)] == [16384, -16384, 20]


@pytest.mark.parametrize(
    "waves",
    [
        [],
        ["é"],
        ["YWJj"],
        [base64.b64encode(damaged(encoded(0.1))).decode()],
        [encoded(0.1), encoded(0.1, 16_000)],
    ],
    ids=range(5),
)
def test_what_cannot_be_joined_is_refused(waves: list[str]) -> None:
    with pytest.raises(WavesError):
        connect_waves(waves)
