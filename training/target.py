"""The target speaker: the HTS voice "Mei" speaking given phones, with given times if wanted."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pyopenjtalk
from numpy.typing import NDArray

from training.phones import DEVOICED, PAUSE, SILENCE, VOWELS, Segment
from training.sentences import japanese

RATE = 48_000
CEPSTRUM_SIZE = 35
WARPING = 0.55
FRAMES_PER_SECOND = 100
_TICKS = 10_000_000
_PHONE = re.compile(r"-(.+?)\+")
_MEI = Path(pyopenjtalk.__file__).parent / "htsvoice" / "mei_normal.htsvoice"


@dataclass(frozen=True)
class Spoken:
    """What the target said, in frames of 10 ms; frame n is centred at n * 10 ms.

    Attributes:
        wave: int16 at 48 kHz.
        cepstra: float32 [frames, 35], mel-generalised cepstrum (gamma 0, warping 0.55 at 48 kHz).
        log_f0: float32 [frames], natural logarithm of Hz, 0 where unvoiced.
        ends: float64 [phones], seconds at which each phone ends.
    """

    wave: NDArray[np.int16]
    cepstra: NDArray[np.float32]
    log_f0: NDArray[np.float32]
    ends: NDArray[np.float64]


def phone_of(label: str) -> str:
    """The phone that a full-context label is about."""
    match = _PHONE.search(label)
    if match is None:
        raise ValueError(f"not a full-context label: {label!r}")
    return match.group(1)


def labels_of(sentence: str) -> list[str]:
    """Full-context labels of a Japanese sentence."""
    return list(pyopenjtalk.extract_fullcontext(sentence))


def voiced_everywhere(labels: list[str]) -> list[str]:
    """The same labels with devoiced vowels voiced, for speakers who do not devoice."""

    def lower(label: str) -> str:
        head, tail = label.split("/A:", 1)
        head = re.sub(r"(?<![A-Za-z])([AIUEO])(?![A-Za-z])", lambda m: m.group(1).lower(), head)
        return f"{head}/A:{tail}"

    return [lower(label) for label in labels]


class BorrowedContexts:
    """Makes full-context labels for any phone sequence with the contexts of real sentences."""

    def __init__(self, random: Random, sentences: int = 60) -> None:
        self._random = random
        self._labels = [labels_of(japanese(random)) for _ in range(sentences)]

    def label(self, phones: list[str]) -> list[str]:
        """One label per phone; silences at the ends are `sil`, within the sentence `pau`."""
        donor = self._random.choice(self._labels)
        contexts = [(phone_of(label), label.split("/A:", 1)[1]) for label in donor]
        inner = [c for c in contexts if c[0] not in {SILENCE, PAUSE}]
        pauses = [c[1] for c in contexts if c[0] == PAUSE] or [contexts[0][1]]
        position = self._random.randrange(len(inner))
        padded = ["xx", "xx", *phones, "xx", "xx"]
        labels = []
        for index, phone in enumerate(phones):
            if phone == SILENCE:
                context = contexts[0 if index == 0 else -1][1]
            elif phone == PAUSE:
                context = self._random.choice(pauses)
            else:
                position = self._like(inner, position, vowel=phone in VOWELS)
                context = inner[position % len(inner)][1]
                position += 1
            before2, before, _, after, after2 = padded[index : index + 5]
            labels.append(f"{before2}^{before}-{phone}+{after}={after2}/A:{context}")
        return labels

    def _like(self, inner: list[tuple[str, str]], position: int, *, vowel: bool) -> int:
        for step in range(8):
            if (inner[(position + step) % len(inner)][0] in VOWELS | DEVOICED) == vowel:
                return position + step
        return position


class Target:
    """Runs `hts_engine` with the voice in a scratch folder of its own."""

    def __init__(self, folder: Path, voice: Path = _MEI) -> None:
        self._folder = folder
        self._voice = voice

    def speak(
        self,
        labels: list[str],
        times: list[tuple[float, float]] | None = None,
        options: dict[str, float] | None = None,
    ) -> Spoken:
        """Speaks the labels.

        Args:
            labels: full-context labels.
            times: start and end in seconds of each label; the voice's own durations if None.
            options: further options of `hts_engine` by letter, such as ``{"fm": -3}``.

        Raises:
            subprocess.CalledProcessError: the engine refused the labels.
        """
        with TemporaryDirectory(dir=self._folder) as name:
            folder = Path(name)
            timed = [""] * len(labels)
            if times is not None:
                timed = [f"{int(a * _TICKS)} {int(b * _TICKS)} " for a, b in times]
            lines = [prefix + label + "\n" for prefix, label in zip(timed, labels, strict=True)]
            (folder / "lab").write_text("".join(lines))
            command = ["hts_engine", "-m", str(self._voice)]
            for option, file in (("-or", "raw"), ("-of", "lf0"), ("-od", "dur"), ("-om", "mgc")):
                command += [option, str(folder / file)]
            command += ["-vp"] if times is not None else []
            for option, value in (options or {}).items():
                command += [f"-{option}", f"{value:.4f}"]
            subprocess.run([*command, str(folder / "lab")], check=True, capture_output=True)
            return _read(folder)


def _read(folder: Path) -> Spoken:
    cepstra = np.fromfile(folder / "mgc", np.float32).reshape(-1, CEPSTRUM_SIZE)
    log_f0 = np.fromfile(folder / "lf0", np.float32)
    log_f0 = np.where(log_f0 > 0, log_f0, 0)
    count = len(cepstra) // 2
    # Frame k of the engine spans 5k..5k+5 ms, so 10n ms lies between frames 2n-1 and 2n.
    earlier = np.maximum(2 * np.arange(count) - 1, 0)
    later = 2 * np.arange(count)
    left, right = log_f0[earlier], log_f0[later]
    both = np.where((left > 0) & (right > 0), (left + right) / 2, np.where(left > 0, left, right))
    voiced = np.where((left > 0) | (right > 0), both, 0)
    ends = [int(line.split()[1]) / _TICKS for line in (folder / "dur").read_text().splitlines()]
    return Spoken(
        np.fromfile(folder / "raw", np.int16),
        ((cepstra[earlier] + cepstra[later]) / 2).astype(np.float32),
        voiced.astype(np.float32),
        np.array(ends),
    )


def speak_segments(target: Target, contexts: BorrowedContexts, segments: list[Segment]) -> Spoken:
    """Lets the target speak foreign phones at given times, blending envelopes where asked."""
    times = [(s.start, s.end) for s in segments]
    first = [s.blend.phone for s in segments]
    spoken = target.speak(contexts.label(first), times)
    weights = np.array([s.blend.weight for s in segments])
    if not weights.any():
        return spoken
    other = target.speak(contexts.label([s.blend.other for s in segments]), times)
    count = min(len(spoken.cepstra), len(other.cepstra))
    phone = phone_per_frame(spoken.ends, count)
    weight = np.convolve(np.pad(weights[phone], 1, mode="edge"), [0.25, 0.5, 0.25], "valid")
    mixed = spoken.cepstra[:count] * (1 - weight[:, None]) + other.cepstra[:count] * weight[:, None]
    return Spoken(spoken.wave, mixed.astype(np.float32), spoken.log_f0[:count], spoken.ends)


def phone_per_frame(ends: NDArray[np.float64], frames: int) -> NDArray[np.int64]:
    """Index of the phone that each frame's centre lies in."""
    centres = np.arange(frames) / FRAMES_PER_SECOND
    return np.minimum(np.searchsorted(ends, centres, side="right"), len(ends) - 1)
