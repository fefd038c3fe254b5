"""The routes of VOICEVOX, who may call them, and what several processes keep together."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import tempfile
import time
import uuid
import wave
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopenjtalk
import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from functions.compat.service.http_messages import PIECE_BYTES, SlowReadersMiddleware
from functions.compat.service.keys import Access, AccessMiddleware
from functions.compat.service.synthesis import (
    SpeechLimits,
    Synthesis,
)
from functions.compat.settings import CompatSettings
from functions.compat.voicevox import queries
from functions.compat.voicevox.app import VoicevoxServices, build
from functions.compat.voicevox.queries import Preset
from functions.compat.voicevox.requests import WavesError, refuse
from functions.compat.voicevox.speakers import (
    SpeakerStyle,
    VoicevoxSpeaker,
    VoicevoxSpeakers,
    aliases_of,
)
from functions.compat.voicevox.speech_routes import connect_waves
from functions.compat.voicevox.user_data import UserData, UserDictionary
from shared.characters.bundle_files import BundleError
from shared.container.admission import Admission
from shared.speech.engines.japanese import HtsVoice, JapaneseEngine
from shared.speech.results.audio_files import write_wav
from shared.speech.text.dictionary import DictionaryWord, make_word
from shared.speech.text.front_end import FrontEnd
from tests.support.compat import KEY, client_of, synthesis_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx
    from numpy.typing import NDArray

Query = dict[str, str | int]
STYLE = 456334080
SPEAKER: Query = {"speaker": STYLE}
UUID = "a0000000-0000-4000-8000-000000000000"
TEXT = "こんにちは、世界。"
SILENCE = queries.query_of([], "").model_dump(by_alias=True)


@pytest.fixture
def services() -> VoicevoxServices:
    user_data = UserData.open()
    dictionary = user_data.dictionary
    engine = JapaneseEngine(
        HtsVoice(Path(pyopenjtalk.DEFAULT_HTS_VOICE.decode())),
        FrontEnd(lambda: dictionary, dictionary.has, dictionary.put_into),
        sample_rate=24_000,
    )
    styles = (SpeakerStyle(STYLE, "ノーマル", engine, 0),)
    speaker = VoicevoxSpeaker(UUID, "メイ", "1.0.0", "CC BY 3.0", b"\x89PNG", styles)
    return VoicevoxServices(VoicevoxSpeakers([speaker]), user_data, synthesis_of(2, 8))


@pytest.fixture
async def client(services: VoicevoxServices) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(build(services, version="0.1.0")) as client:
        yield client


async def query(client: httpx.AsyncClient, text: str = TEXT) -> dict[str, Any]:
    answer = await client.post("/audio_query", params={"text": text, "speaker": STYLE})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    body: dict[str, Any] = answer.json()
    return body


async def spoken(client: httpx.AsyncClient, body: dict[str, Any]) -> tuple[Any, NDArray[np.int16]]:
    answer = await client.post("/synthesis", params=SPEAKER, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "audio/wav"
    with wave.open(io.BytesIO(answer.content)) as file:
        return file.getparams(), np.frombuffer(file.readframes(file.getnframes()), np.int16)


async def test_the_service_describes_itself(client: httpx.AsyncClient) -> None:
    assert (await client.get("/version")).json() == "0.1.0"
    assert (await client.get("/core_versions")).json() == ["0.1.0"]
    assert (await client.get("/supported_devices")).json() == {
        "cpu": True,
        "cuda": False,
        "dml": False,
    }
    assert (await client.get("/engine_manifest")).json()["default_sampling_rate"] == 24_000
    assert (await client.post("/initialize_speaker", params=SPEAKER)).status_code == 204
    assert (await client.get("/is_initialized_speaker", params=SPEAKER)).json() is True
    (speaker,) = (await client.get("/speakers")).json()
    info = (await client.get("/speaker_info", params={"speaker_uuid": UUID})).json()

    assert speaker["styles"] == [{"name": "ノーマル", "id": STYLE, "type": "talk"}]
    assert (info["policy"], info["portrait"]) == ("CC BY 3.0", "iVBORw==")
    assert info["style_infos"][0]["id"] == STYLE


async def test_a_bot_may_ask_by_the_number_of_another_engine(services: VoicevoxServices) -> None:
    voices = VoicevoxSpeakers(services.voices.speakers, {3: STYLE})
    async with client_of(build(replace(services, voices=voices))) as client:
        known = await client.post("/audio_query", params={"text": TEXT, "speaker": 3})
        unknown = await client.post("/audio_query", params={"text": TEXT, "speaker": 4})

    assert (known.status_code, unknown.status_code) == (200, 404)


def test_a_number_for_no_character_is_refused() -> None:
    for entry in ("three=mei", "3", "3=nobody"):
        with pytest.raises(BundleError, match="expected NUMBER=CHARACTER"):
            aliases_of([entry], {})


async def test_the_wave_is_as_the_query_asks(client: httpx.AsyncClient) -> None:
    body = await query(client, "はい。")
    usual, first = await spoken(client, body)
    asked = body | {"outputStereo": True, "outputSamplingRate": 48_000, "speedScale": 2.0}

    parameters, samples = await spoken(client, asked)

    assert (usual.nchannels, usual.framerate, usual.sampwidth) == (1, 24_000, 2)
    assert np.abs(first.astype(int)).max() > 5_000
    assert (parameters.nchannels, parameters.framerate) == (2, 48_000)
    assert parameters.nframes / 48_000 < 0.7 * usual.nframes / 24_000
    np.testing.assert_array_equal(samples[::2], samples[1::2])


async def test_accent_phrases_come_from_text_and_from_kana(client: httpx.AsyncClient) -> None:
    parameters: Query = {"speaker": STYLE, "text": "ハ'シ", "is_kana": "true"}

    (phrase,) = (await client.post("/accent_phrases", params=parameters)).json()
    returned = await client.post("/mora_data", params=SPEAKER, json=[phrase])

    assert [mora["text"] for mora in phrase["moras"]] == ["ハ", "シ"]
    assert phrase["accent"] == 1
    assert returned.json() == [phrase]


async def test_kana_that_cannot_be_read_are_named(client: httpx.AsyncClient) -> None:
    answer = await client.post("/validate_kana", params={"text": "ハシ"})

    assert answer.status_code == 400
    assert answer.json()["detail"]["error_name"] == "ACCENT_NOTFOUND"
    assert answer.json()["detail"]["error_args"] == {"text": "ハシ"}
    assert (await client.post("/validate_kana", params={"text": "ハ'シ"})).json() is True


async def a_preset(client: httpx.AsyncClient) -> dict[str, Any]:
    body = await query(client)
    scales = {name: value for name, value in body.items() if "Scale" in name or "Length" in name}
    return {"id": 1, "name": "速い", "speaker_uuid": UUID, "style_id": STYLE} | scales


async def test_presets_are_kept_changed_and_forgotten(client: httpx.AsyncClient) -> None:
    preset = await a_preset(client)

    assert (await client.post("/add_preset", json=preset | {"speedScale": 1.5})).json() == 1
    assert (await client.post("/update_preset", json=preset | {"speedScale": 1.8})).json() == 1
    asked = await client.post("/audio_query_from_preset", params={"text": TEXT, "preset_id": 1})
    assert asked.json()["speedScale"] == 1.8
    assert [each["name"] for each in (await client.get("/presets")).json()] == ["速い"]
    assert (await client.post("/delete_preset", params={"id": 1})).status_code == 204
    missing = await client.post("/audio_query_from_preset", params={"text": TEXT, "preset_id": 1})
    assert missing.status_code == 422
    assert missing.json() == {"detail": "該当するプリセットIDが見つかりません"}


async def test_no_preset_keeps_others_from_being_listed(client: httpx.AsyncClient) -> None:
    preset = await a_preset(client)

    # Python writes no number of more than 4300 digits.
    digits = json.dumps(preset | {"id": 0}).replace('"id": 0', f'"id": {"9" * 4_300}')
    refused = await client.post("/add_preset", content=digits)
    numbers = [
        (await client.post("/add_preset", json=preset | {"id": (1 << 31) - 1})).json()
        for _ in range(2)
    ]

    assert (refused.status_code, "less_than" in refused.text) == (422, True)
    assert numbers == [(1 << 31) - 1, 1]
    assert len((await client.get("/presets")).json()) == 2


WORD = {
    "surface": "卍丸",
    "pronunciation": "マンジマル",
    "accent_type": 1,
    "part_of_speech": "名詞",
    "part_of_speech_detail_1": "固有名詞",
    "part_of_speech_detail_2": "一般",
    "part_of_speech_detail_3": "*",
    "yomi": "マンジマル",
}


def a_dictionary(number: str, **changed: str) -> bytes:
    return json.dumps({number: WORD | changed}, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/import_user_dict", a_dictionary("x" * 6_000_000)),
        ("/import_user_dict", a_dictionary(UUID, pronunciation="\ufdfa" * 2_000_000)),
        (
            "/import_user_dict",
            json.dumps({str(uuid.UUID(int=n)): 0 for n in range(9_999)}).encode(),
        ),
        ("/multi_synthesis", b"[" + b"0," * 2_000_000 + b"0]"),
        ("/mora_data", b'[{"accent":1,"moras":[' + b"0," * 499 + b"0]}]"),
        ("/mora_data", b"[" + b'{"accent":1,"moras":[{}]},' * 999 + b"0]"),
    ],
    ids=range(6),
)
async def test_a_body_of_megabytes_or_of_errors_is_refused_soon_and_in_few_words(
    client: httpx.AsyncClient, path: str, body: bytes
) -> None:
    begin = time.process_time()

    answer = await client.post(path, params=SPEAKER, content=body)

    assert answer.status_code == 422
    assert len(answer.content) < 10_000
    assert time.process_time() - begin < 1
    assert (await client.get("/user_dict")).json() == {}


async def test_words_wait_in_line_as_what_is_spoken_does(services: VoicevoxServices) -> None:
    admission = Admission(running=1, waiting=0)
    full = replace(services, synthesis=Synthesis(admission, SpeechLimits()))
    async with client_of(build(full)) as client:
        with admission.admit():
            word: Query = {"surface": "卍丸", "pronunciation": "マンジ", "accent_type": 1}
            answers = [
                await client.post("/user_dict_word", params=word),
                await client.put(f"/user_dict_word/{UUID}", params=word),
                await client.delete(f"/user_dict_word/{UUID}"),
                await client.post("/import_user_dict", json={UUID: WORD}),
                # Ten thousand words are written in a quarter of a second.
                await client.get("/user_dict"),
            ]
    assert [each.status_code for each in answers] == [503] * 5


async def test_a_word_of_the_dictionary_is_read_from_then_on(client: httpx.AsyncClient) -> None:
    word: Query = {
        "surface": "推し活ん",
        "pronunciation": "オシカツン",
        "accent_type": 0,
        "priority": 9,
    }

    number = (await client.post("/user_dict_word", params=word)).json()
    assert kana_of(await query(client, "推し活ん")) == "オシカツン"
    changed: Query = word | {"pronunciation": "オシゴト"}
    assert (await client.put(f"/user_dict_word/{number}", params=changed)).status_code == 204
    assert kana_of(await query(client, "推し活ん")) == "オシゴト"
    known = (await client.get("/user_dict")).json()
    assert known[number]["pronunciation"] == "オシゴト"
    assert (await client.delete(f"/user_dict_word/{number}")).status_code == 204
    assert (await client.get("/user_dict")).json() == {}
    assert (await client.post("/import_user_dict", json=known)).status_code == 204
    assert kana_of(await query(client, "推し活ん")) == "オシゴト"


@pytest.mark.parametrize("surface", ["😀", "a,b", "神﨑", "안녕"])
async def test_a_word_that_no_voice_reads_otherwise_is_read_as_the_user_defined_it(
    client: httpx.AsyncClient, surface: str
) -> None:
    word: Query = {"surface": surface, "pronunciation": "テストワード", "accent_type": 1}
    await client.post("/user_dict_word", params=word)

    asked = SPEAKER | {"text": f"今日は{surface}です"}
    answer = await client.post("/audio_query", params=asked)

    assert kana_of(answer.json()) == "キョオワテストワアドデス"
    assert "x-unread-text" not in answer.headers


async def test_a_query_names_what_is_left_out_and_one_of_nothing_readable_is_refused(
    client: httpx.AsyncClient,
) -> None:
    mixed = await client.post("/audio_query", params=SPEAKER | {"text": "はい。안녕。"})
    unread = await client.post("/audio_query", params=SPEAKER | {"text": "안녕。"})
    empty = await client.post("/audio_query", params=SPEAKER | {"text": ""})

    assert (kana_of(mixed.json()).strip("."), mixed.headers["x-unread-text"]) == ("ハイ", "Korean")
    assert (unread.status_code, "Korean" in unread.text) == (422, True)
    assert empty.status_code == 200


def kana_of(body: dict[str, Any]) -> str:
    return "".join(mora["text"] for phrase in body["accent_phrases"] for mora in phrase["moras"])


@pytest.mark.parametrize(
    ("route", "parameters", "body", "status", "sentence"),
    [
        ("POST /audio_query", {"text": "あ", "speaker": 7}, None, 404, "スタイル 7 は"),
        ("POST /audio_query", {"speaker": STYLE}, None, 422, "Field required"),
        ("POST /audio_query", {"text": "あ", "speaker": "x"}, None, 422, "int_parsing"),
        ("POST /audio_query", {"text": "あ" * 2001, "speaker": STYLE}, None, 422, "2001"),
        ("POST /synthesis", {"speaker": STYLE}, {}, 422, "accent_phrases"),
        ("POST /streaming_synthesis", SPEAKER | {"segment_length": "0"}, SILENCE, 422, "segment"),
        ("POST /streaming_synthesis", SPEAKER | {"start_offset": "nan"}, SILENCE, 422, "start"),
        ("POST /multi_synthesis", {"speaker": STYLE}, [], 422, "1から32個"),
        ("POST /user_dict_word", {"surface": "x"}, None, 422, "pronunciation"),
        ("POST /user_dict_word", {"surface": ["東", "京"]}, None, 422, "join the parts"),
        ("DELETE /user_dict_word/none", {}, None, 422, "該当する単語"),
        ("POST /delete_preset", {"id": 5}, None, 422, "プリセットID"),
        ("GET /speaker_info", {"speaker_uuid": "none"}, None, 404, "話者"),
        ("GET /singers", {}, None, 501, "does not offer"),
        ("POST /cancellable_synthesis", {}, None, 501, "does not offer"),
    ],
)
async def test_an_unsupported_request_is_refused_with_a_reason(
    client: httpx.AsyncClient,
    route: str,
    *,
    parameters: dict[str, Any],
    body: Any,
    status: int,
    sentence: str,
) -> None:
    answer = await client.request(*route.split(), params=parameters, json=body)

    assert answer.status_code == status
    assert sentence in answer.text


async def test_speech_is_streamed_as_voicevox_does_it(services: VoicevoxServices) -> None:
    served = replace(services, synthesis=synthesis_of(1, 0))
    async with client_of(build(served)) as client:
        body = await query(client, "はい。いいえ。")
        too_long = body | {"accent_phrases": body["accent_phrases"] * 1000}
        refused = await client.post("/streaming_synthesis", params=SPEAKER, json=too_long)
        _, whole = await spoken(client, body)
        parts = []
        for route in (
            f"/synthesis?speaker={STYLE}&stream=true",
            f"/streaming_synthesis?speaker={STYLE}",
            f"/streaming_synthesis?speaker={STYLE}&start_offset=0.5&segment_length=1",
            f"/streaming_synthesis?speaker={STYLE}&start_offset=1e308",
        ):
            answer = await client.post(route, json=body)
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"] == "audio/wav"
            assert "content-length" not in answer.headers
            parts.append(samples_in(answer.content))

    assert refused.status_code == 422
    np.testing.assert_array_equal(parts[0], whole)
    np.testing.assert_array_equal(parts[1], whole)
    np.testing.assert_array_equal(parts[2], whole[12_000:])
    assert len(parts[3]) == 0


def samples_in(content: bytes) -> NDArray[np.int16]:
    """The samples of a WAV file of unknown length."""
    return np.frombuffer(content[content.index(b"data") + 8 :], np.int16)


@pytest.mark.parametrize(
    "asked",
    [
        {"speedScale": 0.01, "postPhonemeLength": 20.0},
        {"speedScale": 0.01, "prePhonemeLength": 100.0, "accent_phrases": []},
        {"pauseLength": 100.0, "pauseLengthScale": 100.0},
        {"outputSamplingRate": 192_000, "outputStereo": True, "postPhonemeLength": 90.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("route", ["/synthesis", "/synthesis?stream=true", "/multi_synthesis"])
async def test_no_query_gets_more_speech_than_the_limit(
    services: VoicevoxServices, route: str, asked: dict[str, Any]
) -> None:
    async with client_of(build(services)) as client:
        body = await query(client, "はい、いいえ。") | asked
        sent = [body] if route == "/multi_synthesis" else body
        answer = await client.post(route, params=SPEAKER, json=sent)

    assert answer.status_code == 422
    assert "Send it in parts" in answer.text


async def test_queries_of_one_request_share_the_limit(services: VoicevoxServices) -> None:
    async with client_of(build(services)) as client:
        body = await query(client, "はい。") | {"postPhonemeLength": 90.0}
        sent = [body] * 4
        answer = await client.post("/multi_synthesis", params=SPEAKER, json=sent)

    assert answer.status_code == 422


async def test_one_of_several_instances_keeps_nothing(services: VoicevoxServices) -> None:
    changes = ("POST /add_preset", "POST /delete_preset", "POST /import_user_dict")
    more = ("POST /update_preset", "POST /user_dict_word", "PUT /user_dict_word/x")
    async with client_of(build(services, is_alone=False)) as client:
        answers = [await client.request(*route.split()) for route in (*changes, *more)]
        presets, words = await client.get("/presets"), await client.get("/user_dict")

    assert {answer.status_code for answer in answers} == {501}
    assert (presets.json(), words.json()) == ([], {})


async def test_an_answer_that_nobody_reads_ends() -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(100_000)})

    sent = []

    async def send(message: Any) -> None:
        sent.append(len(message.get("body", b"")))
        if len(sent) > 2:
            await asyncio.Event().wait()

    served = SlowReadersMiddleware(app, unread_seconds=0.05)
    async with asyncio.timeout(10):
        await served({"type": "http"}, asyncio.Event().wait, send)  # type: ignore[arg-type]

    assert sent == [0, PIECE_BYTES, PIECE_BYTES]


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


def a_saved_preset() -> Preset:
    scales = ("speedScale", "pitchScale", "intonationScale", "volumeScale")
    lengths = ("prePhonemeLength", "postPhonemeLength")
    body = {"id": -1, "name": "fast", "speaker_uuid": "u", "style_id": 1}
    return Preset.model_validate(body | dict.fromkeys((*scales, *lengths), 1))


def test_what_one_process_keeps_another_finds(tmp_path: Path) -> None:
    one, other = UserData.open(tmp_path), UserData.open(tmp_path)

    number = one.presets.add(a_saved_preset())
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


def encoded_wave(value: float, rate: int = 8000) -> str:
    return base64.b64encode(write_wav(np.full(10, value, np.float32), rate)).decode()


def damaged(wave: str) -> bytes:
    """A file whose first chunk says that it is longer than the file."""
    content = base64.b64decode(wave)
    return content[:16] + (1 << 20).to_bytes(4, "little") + content[20:]


def test_waves_are_joined_one_after_the_other() -> None:
    with wave.open(io.BytesIO(connect_waves([encoded_wave(0.5), encoded_wave(-0.5)])[0])) as joined:
        samples = np.frombuffer(joined.readframes(20), "<i2")

    assert [samples[0], samples[10], len(samples)] == [16384, -16384, 20]


@pytest.mark.parametrize(
    "waves",
    [
        [],
        ["é"],
        ["YWJj"],
        [base64.b64encode(damaged(encoded_wave(0.1))).decode()],
        [encoded_wave(0.1), encoded_wave(0.1, 16_000)],
    ],
    ids=range(5),
)
def test_what_cannot_be_joined_is_refused(waves: list[str]) -> None:
    with pytest.raises(WavesError):
        connect_waves(waves)
