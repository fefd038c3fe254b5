"""Draws a stranger's sentence, what Mei made of it once, and what Hina makes of it now.

python -m training.judges.picture docs/images/before-and-now.png
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from training.judges.recordings import english
from training.quality.converter import Converter
from training.quality.pictures import spectrograms
from training.sound.features import RATE

_ROOT = Path(__file__).resolve().parents[2]
_ONCE = "c2253ae"
"""The last commit before a character heard with Whisper's encoder."""
_READER = "367"
_SECONDS = 5


def draw(file: Path) -> None:
    """Draw the three spectrograms.

    Raises:
        CalledProcessError: the history of the repository is not there.
    """
    (stranger,) = (
        recording.wave[: _SECONDS * RATE]
        for recording in english(_ROOT / "training" / "people" / "strangers")
        if recording.name == _READER
    )
    with tempfile.TemporaryDirectory() as folder:
        archive = ["git", "archive", "--format=tar", _ONCE, "characters/mei"]
        packed = subprocess.run(archive, cwd=_ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as bundle:
            bundle.extractall(folder, filter="data")
        before = Converter.of(Path(folder) / "characters" / "mei")(stranger)
    now = Converter.of(_ROOT / "characters" / "hina")(stranger)
    spectrograms(file, {"a stranger": stranger, "Mei before": before, "Hina now": now})


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
