"""What a server that was killed leaves to the next one."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import requests

from tests.integration.storage.serving import Clock, RecordingTopic, Server, connected, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest
    from cryptography.hazmat.primitives.asymmetric import rsa

REPOSITORY = Path(__file__).parents[3]


@contextmanager
def killed_at_the_end(root: Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "tests.integration.storage.killable", str(root)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            yield Server(f"http://127.0.0.1:{port}", root, Clock(), RecordingTopic())
        finally:
            process.kill()


def test_an_answered_upload_survives_a_killed_server_and_is_published(
    tmp_path: Path, key: rsa.RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        killed_at_the_end(tmp_path) as server,
        connected(server, monkeypatch) as client,
    ):
        bucket = client.create_bucket("uploads")
        bucket.notification(topic_name="t", payload_format="JSON_API_V1").create()
        blob = bucket.blob("a")
        blob.upload_from_string(b"sound")
        requests.post(
            f"{server.url}/upload/storage/v1/b/uploads/o",
            params={"uploadType": "resumable", "name": "b"},
            timeout=20,
        ).raise_for_status()

    topic = RecordingTopic()
    with served(tmp_path, key, topic) as server, connected(server, monkeypatch) as client:
        assert topic.next().attributes["objectGeneration"] == str(blob.generation)
        assert client.bucket("uploads").blob("a").download_as_bytes(checksum="md5") == b"sound"
        # The object and the open upload session: both contents are referred to.
        assert len(list((tmp_path / "contents").iterdir())) == 2
