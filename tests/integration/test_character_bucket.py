"""Characters come into a running service, are replaced while they are used, and go again."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import threading
import time
import wave
from typing import TYPE_CHECKING, Any

import pytest
import requests
from wyoming.client import AsyncTcpClient
from wyoming.info import Describe, Info
from wyoming.tts import Synthesize, SynthesizeVoice

from infra.local.configuration.names import CHARACTERS_BUCKET, Ports
from tests.integration.served import ROOT, SAMPLE, served_cloud, served_process
from tests.unit.graphs.bundles import write_waveform_bundle
from tests.unit.graphs.small_graphs import gain_graph
from tools.importing import publication as characters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECONDS = 60
REFRESH_SECONDS = 0.5
OLD_RATE, NEW_RATE = 16_000, 32_000
MOST_CONVERTED_STILL = 20


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("CHARACTERS_REFRESH_SECONDS", str(REFRESH_SECONDS))
    with served_cloud(tmp_path / "cloud", "--embedded") as endpoints:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoints["storage"])
        yield f"{endpoints['api']}/api/v1"


def put(folder: Path, rate: int) -> None:
    folder.mkdir()
    settings = {"input": "audio", "output": "converted", "input_sample_rate": rate}
    graph = gain_graph(1000 / rate)
    bundle = write_waveform_bundle(folder, graph, sample_rate=rate, settings=settings)
    assert characters.main(["put", str(bundle), "--bucket", CHARACTERS_BUCKET]) == 0


def remove() -> None:
    assert characters.main(["remove", "tester", "--bucket", CHARACTERS_BUCKET]) == 0


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(REFRESH_SECONDS / 5)


def listed(api: str) -> list[str]:
    answer = requests.get(f"{api}/characters", timeout=SECONDS).json()
    return [character["id"] for character in answer["characters"]]


def offered(address: str) -> list[str]:
    """What clients of OpenAI are offered."""
    answer = requests.get(f"{address}/v1/audio/voices", timeout=SECONDS).json()
    return [voice["id"] for voice in answer["voices"]]


async def offered_over_wyoming(address: str) -> list[str]:
    """What Home Assistant is offered."""
    host, _, port = address.partition(":")
    async with AsyncTcpClient(host, int(port)) as client:
        await client.write_event(Describe().event())
        event = await client.read_event()
    assert event is not None
    (program,) = Info.from_event(event).tts
    return [voice.name for voice in program.voices]


async def spoken_over_wyoming(address: str, text: str, name: str) -> bytes:
    host, _, port = address.partition(":")
    sound = b""
    async with AsyncTcpClient(host, int(port)) as client:
        await client.write_event(Synthesize(text, SynthesizeVoice(name=name)).event())
        while (event := await client.read_event()) is not None and event.type != "audio-stop":
            assert event.type in {"audio-start", "audio-chunk"}
            sound += event.payload or b""
    return sound


def create(api: str) -> requests.Response:
    wish = {"content_type": "audio/webm", "character": "tester"}
    return requests.post(f"{api}/voices", json=wish, timeout=SECONDS)


def finish(api: str, created: Any) -> Any:
    """Upload the sample to a voice that was created, and return the api's last word about it."""
    upload = created["upload"]
    sample = SAMPLE.read_bytes()
    requests.put(upload["url"], headers=upload["headers"], data=sample, timeout=SECONDS)
    return requests.get(f"{api}/conversion/{created['voice_id']}", timeout=SECONDS).json()


def convert(api: str) -> int:
    """Convert the sample and return the result's sample rate, by which the bundles differ."""
    done = finish(api, create(api).json())
    assert done.get("status") == "done", done
    content = requests.get(done["result"]["url"], timeout=SECONDS).content
    with wave.open(io.BytesIO(content)) as file:
        return int(file.getframerate())


def test_a_character_is_added_used_replaced_under_load_and_removed(
    api: str, tmp_path: Path
) -> None:
    assert create(api).json()["code"] == "unknown_character"

    put(tmp_path / "old", OLD_RATE)
    until(lambda: "tester" in listed(api))
    assert convert(api) == OLD_RATE

    rates: list[int] = []

    def use() -> None:
        while NEW_RATE not in rates:
            rates.append(convert(api))

    visitors = [threading.Thread(target=use) for _ in range(3)]
    for visitor in visitors:
        visitor.start()
    put(tmp_path / "new", NEW_RATE)
    for visitor in visitors:
        visitor.join(SECONDS)
    assert set(rates) <= {OLD_RATE, NEW_RATE}
    assert rates.index(NEW_RATE) >= 1
    assert convert(api) == NEW_RATE

    waiting = [create(api).json() for _ in range(MOST_CONVERTED_STILL + 1)]
    remove()
    until(lambda: "tester" not in listed(api))
    assert create(api).json()["code"] == "unknown_character"
    # The converter uses the character that it has loaded until it asks the bucket again.
    until(lambda: finish(api, waiting.pop()).get("code") == "unknown_character")


def test_serve_notices_folders_of_characters_that_come_and_go_and_names_a_broken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    characters = tmp_path / "characters"
    characters.mkdir()
    for name in ("mei", "encoders"):
        (characters / name).symlink_to(ROOT / "characters" / name)
    early = write_waveform_bundle(tmp_path, gain_graph(1.0), id="early")
    shutil.move(early, characters / "early")
    monkeypatch.setenv("CHARACTERS_DIR", str(characters))
    with Ports() as ports:
        (port,) = ports.free(1)
    arguments = ("--embedded", "--wyoming", str(port))
    with served_process(tmp_path / "cloud", *arguments) as process:
        assert process.stdout is not None
        endpoints = json.loads((tmp_path / "cloud" / "endpoints.json").read_text())
        api, doors = endpoints["api"] + "/api/v1", endpoints["voicevox"]
        assert listed(api) == ["mei", "early"]
        wyoming = endpoints["wyoming"]
        assert wyoming == f"127.0.0.1:{port}"
        assert offered(doors) == asyncio.run(offered_over_wyoming(wyoming)) == ["mei", "early"]

        write_waveform_bundle(characters, gain_graph(1.0))
        assert process.stdout.readline().startswith("tester is offered now")
        until(lambda: listed(api) == ["mei", "early", "tester"])
        assert convert(api) == 24_000
        until(lambda: offered(doors) == ["mei", "early", "tester"])
        said = {"model": "tts-1", "voice": "tester", "input": "はい。", "response_format": "wav"}
        spoken = requests.post(f"{doors}/v1/audio/speech", json=said, timeout=SECONDS)
        assert (spoken.status_code, len(spoken.content) > 10_000) == (200, True)
        assert len(asyncio.run(spoken_over_wyoming(wyoming, "はい。", "tester"))) > 10_000

        (characters / "wrong").mkdir()
        (characters / "wrong" / "character.json").write_text("{}")
        sentence = process.stdout.readline()
        assert sentence.startswith("wrong is not offered: character.json: field ")
        assert listed(api) == ["mei", "early", "tester"]

        shutil.rmtree(characters / "early")
        shutil.rmtree(characters / "tester")
        gone = sorted(process.stdout.readline() for _ in range(2))
        assert [line.split()[:3] for line in gone] == [
            ["early", "is", "gone"],
            ["tester", "is", "gone"],
        ]
        until(lambda: listed(api) == ["mei"])
        assert create(api).json()["code"] == "unknown_character"
        until(lambda: offered(doors) == asyncio.run(offered_over_wyoming(wyoming)) == ["mei"])
