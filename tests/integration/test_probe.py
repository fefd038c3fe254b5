"""The probe from outside, against a local cloud."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.integration.served import ROOT, environment, served_cloud

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def endpoints(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with served_cloud(tmp_path_factory.mktemp("cloud"), "--embedded") as served:
        yield served


def probed(*arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "infra.probe", *arguments]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    return ended.returncode, json.loads(ended.stdout) if ended.stdout else {"said": ended.stderr}


def test_a_service_that_works_is_found_to_work_and_keeps_nothing(endpoints: dict[str, Any]) -> None:
    status, found = probed(endpoints["api"], "--within", "60")

    assert (status, found["event"], found["ok"], found["said"]) == (0, "probe", True, "")
    assert 0 < found["seconds"] < 60
    gone = httpx.get(f"{endpoints['api']}/api/v1/conversion/{found['voice_id']}")
    assert gone.status_code == 404


def test_a_result_that_comes_late_is_a_failure_that_says_how_late(
    endpoints: dict[str, Any],
) -> None:
    status, found = probed(endpoints["api"], "--within", "0.001")

    assert (status, found["ok"]) == (1, False)
    assert found["said"] == f"the result came after {found['seconds']} s, not within 0.001"


def test_a_recording_that_cannot_be_converted_is_a_failure(
    endpoints: dict[str, Any], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.webm"
    broken.write_bytes(b"no recording")
    status, found = probed(endpoints["api"], "--recording", str(broken))

    assert (status, found["ok"], found["seconds"]) == (1, False, None)
    assert "the conversion was answered with 422" in found["said"]


def test_a_service_that_is_not_there_is_a_failure_and_a_wrong_command_another() -> None:
    status, found = probed("http://127.0.0.1:9")
    assert (status, found["ok"], found["voice_id"]) == (1, False, None)
    assert "ConnectError" in found["said"]

    status, found = probed("http://127.0.0.1:9", "--recording", "words.txt")
    assert status == 2
    assert "--recording: expected a file in .webm, .wav, .mp3, found words.txt" in found["said"]
