"""Makes shards of training pairs until told to stop."""

import pickle
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from training import speakers
from training.augment import spoil
from training.features import RATE, MelSpectrum
from training.phones import PHONE_INDEX
from training.sources.festival import is_installed
from training.sources.recordings import READERS
from training.speakers import Pair, Studio
from training.target import phone_per_frame

SHARD_SIZE = 50
RUSSIAN = Path("/usr/share/festival/voices/russian/msu_ru_nsh_clunits")


@dataclass(frozen=True)
class Example:
    """What training needs of a pair; frames of 10 ms.

    Attributes:
        speaker: who was the source.
        cepstra: float16 [frames, 35], the target's mel-generalised cepstrum.
        log_f0: float32 [frames], the target's, 0 where unvoiced.
        phones: uint8 [frames], index into `training.phones.INVENTORY`.
        mels: float16 [frames, 80] each, logarithm of mel power of versions of the source.
    """

    speaker: str
    cepstra: NDArray[np.float16]
    log_f0: NDArray[np.float32]
    phones: NDArray[np.uint8]
    mels: list[NDArray[np.float16]]


def example_of(pair: Pair, mel: MelSpectrum, random: np.random.Generator, versions: int) -> Example:
    """Versions of the source: as it is, then resampled (another vocal tract) and spoiled."""
    frames = len(pair.spoken.cepstra)
    mels = []
    for wave, rate in pair.waves:
        for version in range(versions):
            speed = 1.0
            if version or (len(pair.waves) > 1 and random.random() < 0.4):
                speed = float(np.exp(random.uniform(np.log(0.76), np.log(1.34))))
            heard = soxr.resample(wave, rate * speed, RATE).astype(np.float32)
            if version:
                heard = spoil(heard, random)
            mels.append(mel.log_power(heard, frames, speed).astype(np.float16))
    indices = np.array([PHONE_INDEX[phone] for phone in pair.phones], np.uint8)
    return Example(
        pair.speaker,
        pair.spoken.cepstra.astype(np.float16),
        pair.spoken.log_f0,
        indices[phone_per_frame(pair.spoken.ends, frames)],
        mels,
    )


def kinds(studio: Studio) -> list[tuple[float, Callable[[], Iterator[Pair]]]]:
    """Kinds of pairs with their shares; natural speech and human-derived voices weigh most."""
    choose, several = studio.random.choice, studio.random.sample
    free = [v for v in speakers.SINGERS if v not in speakers.HELD_OUT_FESTIVAL]
    singers = [v for v in free if is_installed(v)]
    natives = [v for v in speakers.FESTIVAL_TABLES if v not in speakers.HELD_OUT_FESTIVAL]
    return [
        (0.10, studio.mei_altered),
        (0.18 * speakers.NITECH.exists(), studio.nitech_japanese),
        (0.16, lambda: studio.flite_japanese(choose(speakers.FLITE))),
        (0.10, lambda: studio.flite_english(choose(speakers.FLITE))),
        (0.08, lambda: studio.festival_japanese(several(singers, 4))),
        (0.05, lambda: studio.festival_native(several(natives, 4))),
        (0.15, lambda: studio.espeak_japanese(choose(speakers.ESPEAK))),
        (0.10, lambda: studio.espeak_other(choose(speakers.ESPEAK))),
        (0.10, studio.russian_recording),
        (0.07, lambda: studio.prompt_words(choose(READERS))),
    ]


def generate(folder: Path, dictionary: Path, seed: int, minutes: float) -> None:
    """Writes shards ``shard-SEED-N.pickle`` into a folder for so many minutes."""
    folder.mkdir(parents=True, exist_ok=True)
    began, shard, seconds = time.monotonic(), 0, 0.0
    counts: Counter[str] = Counter()
    random = np.random.default_rng(seed)
    mel = MelSpectrum()
    examples: list[Example] = []
    with tempfile.TemporaryDirectory(dir=speakers.scratch_folder()) as scratch:
        studio = Studio(Path(scratch), seed, dictionary, RUSSIAN if RUSSIAN.is_dir() else None)
        table = kinds(studio)
        while time.monotonic() - began < minutes * 60:
            make = studio.random.choices([k for _, k in table], [share for share, _ in table])[0]
            for pair in _careful(make, counts):
                example = example_of(pair, mel, random, 1 if pair.speaker == "mei" else 3)
                examples.append(example)
                seconds += len(example.cepstra) / 100
                counts["/".join(pair.speaker.split("/")[:2])[:16]] += 1
            if len(examples) >= SHARD_SIZE:
                _write(folder / f"shard-{seed}-{shard:04d}.pickle", examples)
                examples, shard = [], shard + 1
                elapsed = (time.monotonic() - began) / 60
                print(
                    f"{seconds / 60:.1f} min of pairs in {elapsed:.1f} of {minutes:.0f} min",
                    flush=True,
                )
        _write(folder / f"shard-{seed}-{shard:04d}.pickle", examples)
    print(dict(counts), flush=True)


def _careful(make: Callable[[], Iterator[Pair]], counts: Counter[str]) -> Iterator[Pair]:
    """A synthesiser that refuses one sentence must not end the run."""
    try:
        yield from make()
    except (KeyError, ValueError, IndexError, OSError, subprocess.CalledProcessError) as error:
        counts["refused"] += 1
        print(f"refused: {error!r:.160}", flush=True)


def _write(file: Path, examples: list[Example]) -> None:
    partial = file.with_suffix(".partial")
    partial.write_bytes(pickle.dumps(examples))
    partial.rename(file)
