"""The voices of flite, which prints the end time of every phone."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import soundfile
from numpy.typing import NDArray


@dataclass(frozen=True)
class TimedSpeech:
    """Samples (float32), their rate, and (phone, end in seconds) in the speaker's phone set."""

    wave: NDArray[np.float32]
    rate: int
    phones: list[tuple[str, float]]


@dataclass(frozen=True)
class Register:
    """Mean and spread of the melody in Hz, in place of the voice's own."""

    mean_hz: float
    spread_hz: float

    def options(self) -> list[str]:
        """What flite is told."""
        mean = f"int_f0_target_mean={self.mean_hz:.1f}"
        return ["--setf", mean, "--setf", f"int_f0_target_stddev={self.spread_hz:.1f}"]


def speak(
    scratch: Path,
    voice: str,
    stretch: float,
    *,
    text: str = "",
    phones: str = "",
    register: Register | None = None,
) -> TimedSpeech:
    """Speaks a text, or phones of flite's own set where no text is given."""
    with TemporaryDirectory(dir=scratch) as folder:
        file = Path(folder) / "wav"
        command = ["flite", "-voice", voice, "--setf", f"duration_stretch={stretch:.3f}"]
        command += register.options() if register else []
        command += ["-o", str(file), "-psdur", *(["-t", text] if text else ["-p", phones])]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        wave, rate = soundfile.read(file, dtype="float32")
    timed = [entry.rsplit(":", 1) for entry in printed.split() if ":" in entry]
    return TimedSpeech(wave, rate, [(phone, float(end)) for phone, end in timed])
