"""Folders of recordings, spoken by flite."""

import shutil
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

RATE = 16_000
SPEECH_SECONDS = 150
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

collect_ignore_glob = [] if find_spec("torch") and find_spec("av") else ["test_*.py"]

Floats = NDArray[np.float32]
WriteWav = Callable[[Path, Floats, int], None]


def write(path: Path, samples: Floats, rate: int = RATE) -> None:
    from shared.speech.results.audio_files import write_wav  # noqa: PLC0415 - not everywhere installed

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(write_wav(samples, rate))


def speak(voice: str, folder: Path) -> Floats:
    """About 30 s of one of flite's voices, repeated until it is enough."""
    import soundfile  # noqa: PLC0415 - not everywhere installed

    file = folder / f"{voice}.wav"
    program = shutil.which("flite")
    if program is None:
        pytest.skip("needs flite")
    subprocess.run([program, "-voice", voice, "-t", _TEXT, "-o", str(file)], check=True)
    samples, rate = soundfile.read(file, dtype="float32")
    assert rate == RATE
    return np.resize(samples, SPEECH_SECONDS * RATE)


@pytest.fixture(scope="session")
def woman(tmp_path_factory: pytest.TempPathFactory) -> Floats:
    return speak("slt", tmp_path_factory.mktemp("woman"))


@pytest.fixture(scope="session")
def man(tmp_path_factory: pytest.TempPathFactory) -> Floats:
    return speak("rms", tmp_path_factory.mktemp("man"))


@pytest.fixture
def write_wav() -> WriteWav:
    return write
