"""CONTRIBUTING.md adds an engine; this test runs the code of that page unchanged."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest
from av.audio.stream import AudioStream

from tests.integration.served import ROOT, SAMPLE
from tests.unit.graphs.small_graphs import content, gain_graph

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "CONTRIBUTING.md"


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """Write the page's engine and its script to a folder outside the repository."""
    section = PAGE.read_text("utf-8").split("## Add an engine\n")[1].split("\n## ")[0]
    module, script = re.findall(r"^   ```python\n(.*?)^   ```$", section, re.MULTILINE | re.DOTALL)
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "tremolo.py").write_text(textwrap.dedent(module), "utf-8")
    (folder / "try_tremolo.py").write_text(textwrap.dedent(script), "utf-8")
    return folder


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Make the bundle from Mei's manifest, with the fields changed that the page names."""
    folder = tmp_path / "trembler"
    folder.mkdir()
    (folder / "tremolo.onnx").write_bytes(content(gain_graph(0.5)))
    manifest = json.loads((ROOT / "characters" / "mei" / "character.json").read_text("utf-8"))
    manifest |= {
        "id": "trembler",
        "engine": "tremolo",
        "sample_rate": 24_000,
        "pitch": None,
        "graphs": {"tremolo": {"file": "tremolo.onnx", "sha256": "", "bytes": 0}},
    }
    manifest["preview"]["portrait"] = None
    (folder / "character.json").write_text(json.dumps(manifest), "utf-8")
    return folder


def read(path: Path) -> tuple[np.ndarray[Any, np.dtype[np.float32]], int]:
    """Return the first channel of an audio file, float32 [N], and its sample rate in Hz."""
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        assert isinstance(stream, AudioStream)
        resampler = av.AudioResampler("fltp", "mono", stream.rate)
        frames = [part for frame in container.decode(stream) for part in resampler.resample(frame)]
        samples = np.concatenate([frame.to_ndarray()[0] for frame in frames])
        return samples.astype(np.float32), stream.rate


def test_the_engine_of_the_page_checks_its_bundle_and_converts_a_recording(
    engine: Path, bundle: Path, tmp_path: Path
) -> None:
    result = tmp_path / "tremolo.wav"

    finished = subprocess.run(
        [sys.executable, engine / "try_tremolo.py", bundle, SAMPLE, result],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )

    assert finished.returncode == 0, finished.stderr
    assert "works with the engine tremolo" in finished.stdout
    recorded, recorded_rate = read(SAMPLE)
    converted, rate = read(result)
    assert rate == 24_000
    assert len(converted) / rate == pytest.approx(len(recorded) / recorded_rate, abs=0.05)
    assert np.abs(converted).max() > 0.03
