"""Builds the real Dockerfiles, starts the images, and sends Cloud Run's requests."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from infra.local.configuration.names import Ports
from tests.image.engines import stopped_at_the_end

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.image.engines import Engine

READY_SECONDS = 60.0
STOP_SECONDS = 10.0
SETTINGS = {
    "LOG_KEY": "k" * 64,
    "PROJECT_ID": "no-project",
    "PUSH_AUDIENCE": "https://convert.invalid",
    "PUSH_SERVICE_ACCOUNT": "push@no-project.iam.gserviceaccount.com",
    "RESULTS_BUCKET": "no-results",
    "SIGNING_SERVICE_ACCOUNT": "convert@no-project.iam.gserviceaccount.com",
    "UPLOADS_BUCKET": "no-uploads",
}
LOOK_AROUND = """
import importlib.util, json, os, pathlib
app = pathlib.Path("/app")
ours = [path for top in ("functions", "shared") for path in (app / top).rglob("*.py")]
print(json.dumps({
    "user": os.getuid(),
    "installers": [name for name in ("pip", "setuptools") if importlib.util.find_spec(name)],
    "modules": len(ours),
    "without bytecode": [str(path) for path in ours
                         if not pathlib.Path(importlib.util.cache_from_source(path)).is_file()],
    "models": len(list(app.glob("characters/*/*.onnx"))),
    "writable": [path for path in ("/app", "/app/functions", "/usr") if os.access(path, os.W_OK)],
}))
"""


def wait_until_ready(process: subprocess.Popen[str], url: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            output, _ = process.communicate()
            pytest.fail(f"the container ended with {process.returncode}:\n{output}")
        try:
            if httpx.get(f"{url}/readyz", timeout=5).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    process.terminate()
    output, _ = process.communicate()
    pytest.fail(f"/readyz was not answered with success within {READY_SECONDS:g} s:\n{output}")


def speaks_http2_in_clear_text(port: int) -> bool:
    """Return whether a server answers HTTP/2 without TLS with its settings (RFC 9113, 3.4)."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    settings_frame = 4
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(preface)
        header = connection.recv(9, socket.MSG_WAITALL)
    return header[3] == settings_frame


def test_the_image_serves_what_cloud_run_asks_for_and_stops_when_told(
    image: Engine, credentials: Path
) -> None:
    with Ports() as ports:
        (port,) = ports.free(1)
        environment = SETTINGS | {
            "GOOGLE_APPLICATION_CREDENTIALS": str(credentials),
            "PORT": str(port),
        }
        started = image.run(environment=environment, credentials=credentials)
        with stopped_at_the_end(started) as process:
            url = f"http://127.0.0.1:{port}"
            wait_until_ready(process, url)

            assert httpx.get(f"{url}/healthz", timeout=5).is_success
            assert speaks_http2_in_clear_text(port)

            image.terminate(process)
            output, _ = process.communicate(timeout=STOP_SECONDS)
            assert process.returncode == 0, output


def test_the_image_is_compiled_and_has_no_installer_and_no_write_permission(
    image: Engine, credentials: Path
) -> None:
    process = image.run("python", "-c", LOOK_AROUND, environment={}, credentials=credentials)
    with stopped_at_the_end(process):
        output, _ = process.communicate(timeout=READY_SECONDS)

    assert process.returncode == 0, output
    seen = json.loads(output.splitlines()[-1])
    assert seen["modules"] > 0
    assert seen["models"] > 0
    assert seen["user"] == 65532
    assert (seen["without bytecode"], seen["installers"], seen["writable"]) == ([], [], [])


SECONDS = 120.0


def test_the_image_starts_the_job_which_asks_for_its_settings(
    trainer_image: Engine, credentials: Path
) -> None:
    process = trainer_image.run(environment={}, credentials=credentials)
    said, _ = process.communicate(timeout=SECONDS)
    assert "OWN_RECORDINGS_BUCKET is not set" in said
    assert process.returncode != 0


def test_the_image_starts_the_training_command_as_the_job_does(
    trainer_image: Engine, credentials: Path
) -> None:
    command = ("python", "-m", "tools.training", "--recordings", "/tmp/none", "--as", "ada")  # noqa: S108
    process = trainer_image.run(*command, environment={}, credentials=credentials)
    said, _ = process.communicate(timeout=SECONDS)
    assert "/tmp/none: expected a folder with recordings, found none." in said  # noqa: S108
    assert process.returncode == 1
