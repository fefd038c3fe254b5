"""Speech of flite. The folder needs the packages of tools/training/requirements.txt."""

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

RATE = 16_000
SPEECH_SECONDS = 150
CHARACTERS = Path(__file__).parents[3] / "characters"
CONSENT = {
    "owner": "Ada Example",
    "consent": "Ada agreed in writing.",
    "licence": "CC-BY-4.0",
    "terms_url": "https://example.org/terms",
    "credit": "Voice: Ada Example",
    "source": "recorded by Ada herself",
    "contact": "mailto:ada@example.org",
    "commercial": True,
    "redistribution": False,
    "adult": False,
    "politics": False,
    "no_public_figure_no_minor": True,
}
_TEXT = (
    "The north wind and the sun were arguing which of them was stronger. A traveller came along"
    " wrapped in a warm cloak. They agreed that whoever first made him take it off was the"
    " stronger one. Then the wind blew as hard as it could, but the more it blew, the closer did"
    " the traveller fold his cloak around him. At last the wind gave up. Then the sun shone out"
    " warmly, and at once he took it off. Please call Stella and ask her to bring six spoons of"
    " fresh snow peas, five thick slabs of blue cheese, and maybe a snack for her brother Bob."
)

# Threads that wait for each other cost more than they compute in such small trainings.
os.environ.setdefault("OMP_NUM_THREADS", "1")
collect_ignore_glob = [] if find_spec("torch") else ["*"]

Floats = NDArray[np.float32]


def write_speech(path: Path, samples: Floats, rate: int = RATE) -> Path:
    import soundfile  # noqa: PLC0415 - not everywhere installed

    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate)
    return path


def speak(voice: str, text: str, file: Path) -> Path:
    program = shutil.which("flite")
    if program is None:
        pytest.skip("needs flite")
    file.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([program, "-voice", voice, "-t", text, "-o", str(file)], check=True)
    return file


def copy_bundle(name: str, folder: Path) -> Path:
    """Copy a character of the repository, and link the encoders that it shares."""
    shutil.copytree(CHARACTERS / name, folder / name)
    (folder / "encoders").symlink_to(CHARACTERS / "encoders")
    return folder / name


def reading_of(voice: str, folder: Path) -> Floats:
    """About 30 s of one of flite's voices, repeated until it is enough."""
    import soundfile  # noqa: PLC0415 - not everywhere installed

    samples, _ = soundfile.read(speak(voice, _TEXT, folder / "said.wav"), dtype="float32")
    return np.resize(samples, SPEECH_SECONDS * RATE)


@pytest.fixture(scope="session")
def woman(tmp_path_factory: pytest.TempPathFactory) -> Floats:
    return reading_of("slt", tmp_path_factory.mktemp("woman"))


@pytest.fixture(scope="session")
def man(tmp_path_factory: pytest.TempPathFactory) -> Floats:
    return reading_of("rms", tmp_path_factory.mktemp("man"))
