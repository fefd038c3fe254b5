"""The Python examples of README.md and docs run exactly as they are printed."""

from __future__ import annotations

import wave
from typing import TYPE_CHECKING

import pytest

from tests.integration.served import ROOT, served_cloud
from tests.support.examples import python_examples, run

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 120


def printed(page: str) -> list[str]:
    return python_examples((ROOT / page).read_text("utf-8"))


@pytest.mark.parametrize(
    "mode", ["--embedded", pytest.param("--emulators", marks=pytest.mark.emulators)]
)
def test_the_examples_run_beside_serve(mode: str, tmp_path: Path) -> None:
    # The root as the examples see it, so that they leave nothing in the real one.
    (tmp_path / "infra").symlink_to(ROOT / "infra")
    (recording,), (text,) = printed("README.md"), printed("docs/api.md")
    (live,) = printed("docs/live.md")
    result = tmp_path / "hina.wav"
    with served_cloud(tmp_path / ".local", mode):
        # The example of docs/api.md uses the names of the one of README.md.
        said = run(f"{recording}\n{text}\nassert done['status'] == 'done', done", tmp_path, SECONDS)
        # It stops listening when the voice is done, perhaps before it has heard of that.
        assert ("waiting" in said) == (mode == "--emulators")
        with wave.open(str(result)) as file:
            assert file.getnframes() > file.getframerate()
        result.unlink()

        assert "'type': 'done'" in run(live, tmp_path, SECONDS)
        with wave.open(str(result)) as file:
            assert file.getnframes() > file.getframerate()
