"""A recording goes through the whole pipeline, sent by an independent program."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import threading
import wave
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
import requests
from google.cloud import firestore, storage

from tests.integration.served import ROOT, SAMPLE, environment, served_cloud

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = 60


@pytest.fixture(
    scope="module",
    params=["--embedded", pytest.param("--emulators", marks=pytest.mark.emulators)],
    ids=["embedded", "emulators"],
)
def endpoints(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    with served_cloud(tmp_path_factory.mktemp("cloud"), request.param) as served:
        yield served


WITH_EMULATORS = pytest.mark.parametrize(
    "endpoints",
    [pytest.param("--emulators", marks=pytest.mark.emulators)],
    ids=["emulators"],
    indirect=True,
)


def create(endpoints: dict[str, Any], **wish: Any) -> dict[str, Any]:
    wish.setdefault("content_type", "audio/webm")
    response = requests.post(f"{endpoints['api']}/api/v1/voices", json=wish, timeout=SECONDS)
    assert response.status_code == 201, response.text
    created: dict[str, Any] = response.json()
    return created


def upload(created: dict[str, Any], recording: bytes) -> requests.Response:
    signed = created["upload"]
    return requests.put(signed["url"], headers=signed["headers"], data=recording, timeout=SECONDS)


def wait(endpoints: dict[str, Any], voice_id: str) -> requests.Response:
    return requests.get(f"{endpoints['api']}/api/v1/conversion/{voice_id}", timeout=SECONDS)


def read_wav(content: bytes) -> tuple[np.ndarray[Any, np.dtype[Any]], int]:
    with wave.open(io.BytesIO(content)) as reader:
        samples = np.frombuffer(reader.readframes(reader.getnframes()), "<i2") / 32768
        return samples, reader.getframerate()


def test_a_recording_comes_back_as_the_character_to_everybody_who_waits(
    endpoints: dict[str, Any],
) -> None:
    created = create(endpoints)
    upload(created, SAMPLE.read_bytes())

    response = wait(endpoints, created["voice_id"])

    assert response.status_code == 200, response.text
    assert wait(endpoints, created["voice_id"]).json() == response.json()
    result = response.json()["result"]
    content = requests.get(result["url"], timeout=SECONDS)
    samples, rate = read_wav(content.content)
    assert rate == 24_000
    assert len(samples) / rate == pytest.approx(result["seconds"], abs=0.001)
    assert np.sqrt(np.mean(samples**2)) > 0.01
    assert np.abs(samples).max() < 1.0
    assert result["synthetic"]["digital_source_type"].endswith("trainedAlgorithmicMedia")


def test_a_client_without_signed_uploads_gets_its_voice_in_its_format(
    endpoints: dict[str, Any],
) -> None:
    created = create(endpoints, output_format="m4a")

    form = {"voice_id": created["voice_id"]}
    files = {"file": ("hello.webm", SAMPLE.read_bytes(), "audio/webm")}
    response = requests.put(
        f"{endpoints['api']}/api/v1/voices", data=form, files=files, timeout=SECONDS
    )

    assert response.status_code == 202, response.text
    result = wait(endpoints, created["voice_id"]).json()["result"]
    content = requests.get(result["url"], timeout=SECONDS).content
    assert (content[4:8], len(content)) == (b"ftyp", result["bytes"])


def test_a_bad_recording_fails_with_its_code(endpoints: dict[str, Any]) -> None:
    created = create(endpoints)
    assert upload(created, b"\x1aE\xdf\xa3" + SAMPLE.read_bytes()[4:60]).ok

    response = wait(endpoints, created["voice_id"])

    assert (response.status_code, response.json()["code"]) == (422, "corrupt")
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"]


def test_pages_of_any_site_on_this_machine_may_convert_and_pages_of_others_may_not(
    endpoints: dict[str, Any],
) -> None:
    signed = create(endpoints)["upload"]
    asked = {"POST": f"{endpoints['api']}/api/v1/voices", signed["method"]: signed["url"]}
    for method, url in asked.items():
        told = {
            origin: requests.options(
                url,
                headers={"Origin": origin, "Access-Control-Request-Method": method},
                timeout=SECONDS,
            ).headers.get("access-control-allow-origin")
            for origin in ("http://localhost:5173", "https://stranger.example")
        }
        assert told["http://localhost:5173"] in ("http://localhost:5173", "*")
        # Whoever has a signed address may use it.
        assert told["https://stranger.example"] in ((None,) if method == "POST" else (None, "*"))


@pytest.mark.parametrize("character", ["mei", "ned"])
def test_a_text_goes_the_whole_way_and_is_erased_with_its_voice(
    endpoints: dict[str, Any], character: str
) -> None:
    wish = {"text": "今日は、いい天気ですね。", "character": character, "speed": 1.25}
    api = f"{endpoints['api']}/api/v1"
    response = requests.post(f"{api}/voices", json=wish, timeout=SECONDS)
    assert response.status_code == 201, response.text
    voice_id = response.json()["voice_id"]

    answer = wait(endpoints, voice_id)

    assert answer.status_code == 200, answer.text
    result = answer.json()["result"]
    samples, rate = read_wav(requests.get(result["url"], timeout=SECONDS).content)
    assert rate == 24_000
    assert 1.0 < len(samples) / rate < 4.0
    assert np.abs(samples).max() > 0.1
    assert "spoken from text" in result["synthetic"]["comment"]
    if character == "mei":
        # Other voices may know no phones.
        assert re.match(r"ky:1\d\d o:\d+ o:\d+ w:\d+ a:\d+ ", result["phones"])
    assert requests.delete(f"{api}/voices/{voice_id}", timeout=SECONDS).status_code == 204
    assert requests.get(result["url"], timeout=SECONDS).status_code == 404
    assert wait(endpoints, voice_id).json()["code"] == "unknown_voice"


def probed(*arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "infra.probe", *arguments]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    return ended.returncode, json.loads(ended.stdout) if ended.stdout else {"said": ended.stderr}


def test_a_probe_finds_a_service_that_works_and_keeps_nothing(endpoints: dict[str, Any]) -> None:
    status, found = probed(endpoints["api"], "--within", "60")
    assert (status, found["event"], found["ok"], found["said"]) == (0, "probe", True, "")
    assert 0 < found["seconds"] < 60
    assert wait(endpoints, found["voice_id"]).status_code == 404

    status, late = probed(endpoints["api"], "--within", "0.001")
    assert (status, late["ok"]) == (1, False)
    assert late["said"] == f"the result came after {late['seconds']} s, not within 0.001"


def test_a_probe_that_hears_nothing_is_a_failure_and_a_wrong_command_another(
    endpoints: dict[str, Any], tmp_path: Path
) -> None:
    (broken := tmp_path / "broken.webm").write_bytes(b"no recording")
    for arguments, expected, said in (
        ((endpoints["api"], "--recording", str(broken)), 1, "the conversion was answered with 422"),
        (("http://127.0.0.1:9",), 1, "ConnectError"),
        (("http://127.0.0.1:9", "--recording", "words.txt"), 2, "expected a file in .webm, .wav"),
    ):
        status, found = probed(*arguments)
        assert (status, found.get("seconds")) == (expected, None)
        assert said in found["said"]


@WITH_EMULATORS
def test_a_foreign_program_needs_only_endpoints_json_and_googles_libraries(
    endpoints: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", endpoints["firestore"])
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoints["storage"])
    created = create(endpoints)
    states: list[dict[str, Any]] = []
    begun, final = threading.Event(), threading.Event()

    def see(snapshots: Any, _changes: Any, _read_time: Any) -> None:
        states.append(snapshots[0].to_dict())
        begun.set()
        if states[-1]["status"] in {"done", "failed"}:
            final.set()

    client = firestore.Client(project=endpoints["project_id"])
    watch = client.document(created["document"]).on_snapshot(see)
    assert begun.wait(SECONDS)
    upload(created, SAMPLE.read_bytes())
    assert final.wait(SECONDS)
    watch.unsubscribe()
    client.close()
    order = ["waiting", "queued", "converting", "done"]
    seen = [state["status"] for state in states]
    assert seen == sorted(seen, key=order.index)
    assert (seen[0], seen[-1]) == ("waiting", "done")
    result = states[-1]["result"]
    bucket = storage.Client(project=endpoints["project_id"]).bucket(result["bucket"])
    content = bucket.blob(result["object"]).download_as_bytes()
    assert read_wav(content)[1] == 24_000


def listening_ports(pid: int) -> set[int]:
    """Return the ports of 127.0.0.1 at which a process and its children listen."""
    program = psutil.Process(pid)
    places = [
        each.laddr
        for process in (program, *program.children(recursive=True))
        for each in process.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    ]
    hidden = "127."  # beside 127.0.0.1, one of the addresses that no page can try
    names = ((place.ip.removeprefix("::ffff:"), place.port) for place in places)
    return {port for ip, port in names if ip == "127.0.0.1" or not ip.startswith(hidden)}


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has one address of its own alone")
@WITH_EMULATORS
def test_no_web_site_reads_or_writes_by_trying_the_ports_of_this_machine(
    endpoints: dict[str, Any],
) -> None:
    voice = f"/v1/projects/{endpoints['project_id']}/databases/(default)/documents"
    voice += f"/{create(endpoints)['document']}"
    evil = {"Origin": "https://evil.example", "Authorization": "Bearer owner"}
    allowed = []
    for port in listening_ports(endpoints["pid"]):
        for method, path in (("GET", voice), ("PUT", "/v1/projects/p/topics/t"), ("DELETE", voice)):
            with suppress(requests.RequestException):
                url = f"http://127.0.0.1:{port}{path}"
                answer = requests.request(method, url, headers=evil, json={}, timeout=5)
                if answer.ok or "access-control-allow-origin" in answer.headers:
                    allowed.append(url)
    assert allowed == []


@WITH_EMULATORS
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Authorization": "Bearer owner"}, 403),
        ({"Host": "evil.example"}, 403),
    ],
)
def test_only_allowed_pages_listen_and_never_as_the_owner(
    endpoints: dict[str, Any], changes: dict[str, str], status: int
) -> None:
    database = f"projects/{endpoints['project_id']}/databases/(default)"
    channel = "google.firestore.v1.Firestore/Listen/channel"
    headers = {"Origin": "http://localhost:5173", **changes}
    query = {"VER": "8", "database": database, "RID": "1", "CVER": "22", "t": "1"}

    answer = requests.post(
        f"http://{endpoints['page_firestore']}/{channel}",
        params=query,
        data={"count": "0"},
        headers=headers,
        timeout=SECONDS,
    )

    assert answer.status_code == status
    told = answer.headers.get("access-control-allow-origin")
    assert told == (headers["Origin"] if status == 200 else None)
