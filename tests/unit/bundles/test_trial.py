from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shared.voices.voice import VoiceError
from tests.unit.graphs.bundles import write_bundle
from tools.bundles.files import VoiceFileError
from tools.bundles.sample import write_sample
from tools.bundles.trial import measure


def test_the_memory_of_a_bundle_is_not_hidden_by_what_the_import_has_used(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path)
    used = bytearray(b"x") * (400 << 20)

    report = measure(bundle, 1)

    assert len(used) == 400 << 20
    assert report.real_time_factor > 0
    assert report.peak_megabytes is not None
    assert report.peak_megabytes > 1


def test_why_a_bundle_does_not_work_is_passed_on(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path, engine="unknown")

    with pytest.raises(VoiceFileError, match="field 'engine': expected one of"):
        measure(bundle, 1)


ROOT = Path(__file__).parents[3]
MEI = ROOT / "characters/mei"
HELLO = ROOT / "infra/local/samples/hello.webm"


def test_a_recording_is_converted_and_shown_before_and_after(tmp_path: Path) -> None:
    write_sample(MEI, HELLO, tmp_path / "new")

    with wave.open(str(tmp_path / "new/mei.wav")) as sound:
        seconds = sound.getnframes() / sound.getframerate()
    with Image.open(tmp_path / "new/mei.png") as picture:
        assert picture.format == "PNG"
        assert picture.width == pytest.approx(200 * seconds, abs=2)
        pixels = np.asarray(picture)
    upper, lower = np.array_split(pixels, 2)
    assert 0.02 < np.mean(upper < 128) < 0.6
    assert 0.02 < np.mean(lower < 128) < 0.6
    assert not np.array_equal(upper, lower)


def test_a_recording_that_cannot_be_decoded_leaves_no_sample(tmp_path: Path) -> None:
    broken = tmp_path / "broken.webm"
    broken.write_bytes(HELLO.read_bytes()[:50])

    with pytest.raises(VoiceError, match="damaged"):
        write_sample(MEI, broken, tmp_path)
    assert not list(tmp_path.glob("mei.*"))
