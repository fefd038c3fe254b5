"""Tries a character bundle: does it convert, how fast, and with how much memory."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime  # noqa: F401 - loaded here, so that it does not count as loading the bundle

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MAX_BUNDLE_BYTES
from shared.speech.engines.interface import ConversionOptions, Engine, EngineKind
from shared.speech.engines.registry import ENGINES, build_text_engine
from shared.speech.engines.text_interface import SpeechOptions, TextEngine
from shared.speech.graphs.bundle_folders import load_character
from shared.speech.graphs.sessions import SessionSettings
from tools.bundles.files import VoiceFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared.speech.signal.sound import Samples

SAMPLE_RATE = 48_000
SECONDS = 5.0
TEXT = "今日は、とてもいい天気ですね。明日も晴れるそうです。"
_ROUNDS, _FEWEST_ROUNDS = 7, 2
_ENOUGH_SECONDS = 15.0
_MEGABYTE = 1_000_000
_AUDIBLE = 1e-3


@dataclass(frozen=True)
class TrialReport:
    """Time and memory that a bundle needs.

    Attributes:
        real_time_factor: seconds of work per second of recording in the fastest of several
            conversions, because other work on the machine slows down the rest.
        peak_megabytes: memory that loading and converting added, or None where the system does not
            measure it (Windows).
    """

    name: str
    engine: str
    megabytes: float
    load_milliseconds: float
    real_time_factor: float
    peak_megabytes: float | None

    def __str__(self) -> str:
        return (
            f"{self.name} works with the engine {self.engine}: {self.megabytes:.1f} MB, loaded in"
            f" {self.load_milliseconds:.0f} ms, converts at a real-time factor of"
            f" {self.real_time_factor:.4f} ({self.real_time_factor * SECONDS * 1000:.0f} ms for"
            f" {SECONDS:g} s) and takes {self.memory}."
        )

    @property
    def memory(self) -> str:
        if self.peak_megabytes is None:
            return "an amount of memory that this system does not measure"
        return f"{self.peak_megabytes:.0f} MB of memory"


def try_bundle(
    folder: Path,
    engines: Mapping[str, EngineKind],
    settings: SessionSettings,
    max_bytes: int = MAX_BUNDLE_BYTES,
) -> TrialReport:
    """Load a bundle and convert a speech-like recording with it, or speak a text.

    Raises:
        BundleError: it does not load, or what it says is silence.
    """
    recording = speech_like(SECONDS, SAMPLE_RATE)
    forget_peak_memory()
    memory_before = peak_memory()
    begin = time.perf_counter()
    character = load_character(folder, engines, max_bytes)
    engine = engines[character.manifest.engine].build(character, settings)
    speaker = build_text_engine(character, engine, settings)
    loaded = time.perf_counter()
    if character.manifest.takes_speech or speaker is None:
        factor = min(measured(lambda: _convert(engine, recording)))
    else:
        factor = min(measured(lambda: _speak(speaker)))
    graphs = character.manifest.graphs.values()
    memory = peak_memory()
    if character.manifest.takes_speech:
        hear(engine, recording)
    return TrialReport(
        name=character.manifest.name.en,
        engine=character.manifest.engine,
        megabytes=sum(graph.bytes for graph in graphs) / _MEGABYTE,
        load_milliseconds=(loaded - begin) * 1000,
        real_time_factor=factor,
        peak_megabytes=None
        if memory is None or memory_before is None
        else (memory - memory_before) / _MEGABYTE,
    )


def speech_like(seconds: float, sample_rate: int) -> Samples:
    """Make a speech-like signal: syllables with gliding pitch and two formants, hiss and pauses."""
    random = np.random.default_rng(0)
    at = np.arange(round(seconds * sample_rate)) / sample_rate
    hertz = 140 + 30 * np.sin(2 * np.pi * 0.4 * at) + 8 * np.sin(2 * np.pi * 5 * at)
    phase = 2 * np.pi * np.cumsum(hertz) / sample_rate
    first, second = 550 + 200 * np.sin(2 * np.pi * 1.3 * at), 1500 + 500 * np.sin(7 * at)
    voice = np.zeros(len(at))
    for harmonic in range(1, 25):
        frequency = harmonic * hertz
        gain = 1 / (1 + ((frequency - first) / 120) ** 2) + 0.5 / (
            1 + ((frequency - second) / 200) ** 2
        )
        voice += gain * np.sin(harmonic * phase)
    syllables = np.clip(np.sin(2 * np.pi * 2 * at) * 2 + 0.6, 0, 1)
    phrase = np.clip(np.sin(2 * np.pi * 0.4 * at) * 9 + 8, 0, 1)
    hiss = random.standard_normal(len(at)) * np.clip(np.sin(2 * np.pi * 2 * at + 2.6) - 0.7, 0, 1)
    speech = (voice * syllables + 0.3 * hiss) * phrase
    scaled: Samples = (0.3 * speech / np.max(np.abs(speech))).astype(np.float32)
    return scaled


def measured(work: Callable[[], tuple[float, float]]) -> list[float]:
    """Do some work several times, but slow work only twice; return its real-time factors."""
    factors: list[float] = []
    total = 0.0
    while len(factors) < _ROUNDS and (len(factors) < _FEWEST_ROUNDS or total < _ENOUGH_SECONDS):
        elapsed, seconds = work()
        factors.append(elapsed / seconds)
        total += elapsed
    return factors


def _convert(engine: Engine, recording: Samples) -> tuple[float, float]:
    """Convert a recording; return how long that took, and how long the recording is."""
    begin = time.perf_counter()
    converted = engine.convert(recording, SAMPLE_RATE, ConversionOptions())
    elapsed = time.perf_counter() - begin
    require_sound(converted, "a recording")
    return elapsed, SECONDS


def hear(engine: Engine, recording: Samples) -> None:
    """Convert a recording while it goes on, if the engine can."""
    stream = engine.open_stream(SAMPLE_RATE, ConversionOptions())
    if stream is not None:
        heard = np.concatenate([stream.push(recording), stream.finish()])
        require_sound(heard, "a recording that goes on")


def _speak(engine: TextEngine) -> tuple[float, float]:
    """Speak a text; return how long that took, and how long the speech is."""
    begin = time.perf_counter()
    spoken = np.concatenate(list(engine.speak(TEXT, SpeechOptions())))
    elapsed = time.perf_counter() - begin
    require_sound(spoken, "a text")
    return elapsed, len(spoken) / engine.sample_rate


def require_sound(samples: Samples, source: str) -> None:
    if float(np.sqrt(np.mean(samples**2))) < _AUDIBLE:
        raise BundleError(f"The graphs run: expected speech from {source}, found silence.")


def forget_peak_memory() -> None:
    """Let the kernel count the peak from now on, where it can (proc_pid_clear_refs(5), value 5)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "ascii")


def peak_memory() -> int | None:
    """Return the most memory in bytes that this program has used so far; None on Windows."""
    # The kernel's other figure also counts what the process used before it began this program.
    with suppress(OSError):
        status = Path("/proc/self/status").read_text("ascii")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    if importlib.util.find_spec("resource") is None:
        return None
    import resource  # noqa: PLC0415 - Windows does not have it

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


_SECONDS = 600


def measure(folder: Path, threads: int) -> TrialReport:
    told = run_module("tools.bundles.trial", str(folder), str(threads))
    return TrialReport(**json.loads(told))


def run_module(module: str, *arguments: str) -> str:
    """Run a module that tries a bundle, in a process of its own; return what it wrote."""
    try:
        ended = subprocess.run(  # noqa: S603 - a module of this package
            [sys.executable, "-m", module, *arguments],
            capture_output=True,
            check=False,
            timeout=_SECONDS,
            text=True,
        )
    except subprocess.TimeoutExpired as error:
        raise VoiceFileError(
            f"expected two conversions of 5 s within {_SECONDS} s, found a slower voice."
        ) from error
    if ended.returncode:
        lines = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
        raise VoiceFileError(lines[-1])
    return ended.stdout


def main(arguments: list[str]) -> int:
    folder, threads = arguments
    try:
        report = try_bundle(Path(folder), ENGINES, SessionSettings(threads=int(threads)))
    except BundleError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    json.dump(dataclasses.asdict(report), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
