"""Writes speech of Kokoro-82M into a folder.

    python -m tools.training.sources.kokoro .training/kokoro              # all of it
    python -m tools.training.sources.kokoro .training/kokoro --only hina  # one part

`hina/` is what the character Hina is trained with, and `judge-ja/NAME/` three voices with sentences
that nobody is trained with: WAV files and `transcripts.tsv`, of file, language, text. `people/` has
Opus files of sixteen strangers who speak Japanese. `pairs/` has stereo files in which a stranger
(left) and Hina (right) say the same, sound for sound. `--only statistics` measures instead the
constants of the mixture that the service speaks with, and writes them into its code. Needs what
functions/convert/requirements-kokoro.txt lists, and ffmpeg.
"""

import argparse
import re
import subprocess
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random

import numpy as np
import soundfile
import soxr
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from shared.speech.engines.delivery import trim
from shared.speech.engines.kokoro import cut_sentences, symbols_of_text
from shared.speech.engines.kokoro_packages import NOBODY, KokoroPackages, Mixture
from shared.speech.engines.kokoro_synthesis import SAMPLE_RATE, STATISTICS, shares_of_lengths
from shared.speech.graphs.bundle import Graph
from shared.speech.graphs.model_parts import ModelParts
from shared.speech.graphs.onnx_files import ModelFacts
from shared.speech.graphs.sessions import GraphSession, SessionSettings
from shared.speech.signal.sound import Samples
from shared.speech.text.english_form import write_out
from shared.speech.text.front_end import FrontEnd
from tools.training.sources.sentences import japanese

JUDGES = ("jf_alpha", "jf_gongitsune", "jm_kumo")
"""Who speaks the sentences that characters are judged by; nobody is trained with them."""

_KONIWA = ("jf_gongitsune", "jf_nezumi", "jf_tebukuro", "jm_kumo")
"""Voices made of recordings that Koniwa publishes under CC BY."""

_LITTLE = ("jf_gongitsune", "jm_kumo")  # of whom mixed strangers have little
_OF_PAIRS = ("jf_alpha", "jf_nezumi", "jf_tebukuro")
"""Of whom the strangers are mixed that say the same as Hina."""
_OWN_MANNER = 0.3

_TRACTS = (0.8, 1.2)


def stranger(seed: int) -> Mixture:
    """Mix a voice by chance, with little of those that judge, and of recordings under CC BY."""
    random = default_rng((7, seed))
    sound, manner = (mixed_weights(random, _KONIWA, spread) for spread in (0.6, 0.4))
    while max(abs(sound[name]) for name in _KONIWA) > 1 or max(sound[n] for n in _LITTLE) > 0.4:
        sound = mixed_weights(random, _KONIWA, 0.6)
    return Mixture(sound, manner, round(float(random.uniform(*_TRACTS)), 3))


def pair_of(seed: int) -> tuple[Mixture, Mixture]:
    """Mix a stranger, and give Hina the same rhythm and melody, in three of ten her own."""
    random = default_rng((11, seed))
    sound, mixed = (mixed_weights(random, _OF_PAIRS, 0.35) for _ in range(2))
    manner = NOBODY.manner if random.random() < _OWN_MANNER else mixed
    return Mixture(sound, manner, NOBODY.tract), Mixture(NOBODY.sound, manner, NOBODY.tract)


def mixed_weights(random: Generator, names: Sequence[str], spread: float) -> dict[str, float]:
    weights = random.normal(1 / len(names), spread, len(names))
    weights = (weights + (1 - weights.sum()) / len(names)).round(3)
    return dict(zip(names, weights.tolist(), strict=True))


_TEXTS = Path(__file__).with_name("texts")
_STRANGERS = (*range(7), *range(8, 17))
"""Seeds whose voices sound natural (DNSMOS overall from 2.9 in the first sentence)."""
_SENTENCES_OF_STRANGERS, _MOST_SECONDS_OF_STRANGERS, _PAUSE_SECONDS = 3, 14, 0.3
_PAIRS = 150

Line = tuple[str, str]


_MEASURED = (*range(4, 24, 3), *range(25, 75, 5), 80, 95, 110, 130, 150, 180, 210)
"""The lengths of the beginnings of texts, in symbols, whose statistics are measured."""
_MEASURED_TEXTS = (("hina_ja.txt", "ja"), ("typed_en.txt", "en"), ("judge_ja.txt", "ja"))
_SMALLEST = 1e-5  # as the network adds it to a variance

_MEANS = re.compile(r"(/decoder/.*)/ReduceMean(_2)?_output_0")
_SAME = re.compile(r"(.*/resblocks\.)(\d)(/adain1\.0)")


class Kokoro:
    """The packages' own graph, for any mixture: the service's has constants of a single one."""

    def __init__(self) -> None:
        packages = KokoroPackages()
        content = packages.read_network()
        self._voices, self._symbols = packages.read_voices(), packages.read_symbols()
        parts = ModelParts(content)
        names = [name for node in parts.nodes for name in node.outputs]
        self._means = list(filter(_MEANS.fullmatch, names))
        graph = Graph("kokoro.onnx", parts.until(["audio", *self._means]), ModelFacts({}, {}))
        self._session = GraphSession(graph, SessionSettings())

    def speak(self, mixture: Mixture, symbols: str, speed: float) -> Samples:
        """Speak symbols: float32 [samples] at 24 kHz."""
        spoken = self._run(mixture, symbols, speed, ["audio"])[0].ravel()
        rates = SAMPLE_RATE * mixture.tract, SAMPLE_RATE
        return np.asarray(soxr.resample(spoken, *rates, quality="VHQ"), np.float32)

    def statistics(self, lines: Sequence[str]) -> dict[str, NDArray[np.float16]]:
        """Measure what STATISTICS holds, [2, lengths, channels], as NOBODY speaks the lines.

        The values at LENGTHS are those whose interpolation is nearest to what was measured.
        """
        spoken = [self._run(NOBODY, each, 1.0, self._means) for each in lines]
        shares = np.stack([shares_of_lengths(len(each)) for each in lines])
        found = {
            name: np.stack([mean.ravel() for mean in means])
            for name, means in zip(self._means, zip(*spoken, strict=True), strict=True)
        }
        layers: dict[str, NDArray[np.float16]] = {}
        for name in self._means:
            if (match := _MEANS.fullmatch(name)) and not match[2]:
                variances = found[f"{match[1]}/ReduceMean_2_output_0"]
                measured = found[name], np.log(variances + _SMALLEST) / 2
                layers[match[1]] = np.stack(
                    [np.linalg.lstsq(shares, each, rcond=None)[0] for each in measured]
                ).astype(np.float16)
        # Three blocks hear the same, so that the graph computes their means once.
        for name in [name for name in layers if _SAME.fullmatch(name)]:
            begin, number, end = _SAME.fullmatch(name).groups()  # type: ignore[union-attr]
            first = int(number) // 3 * 3
            layers |= {f"{begin}{first + each}{end}": layers[name] for each in range(3)}
        return layers

    def _run(
        self, mixture: Mixture, symbols: str, speed: float, outputs: Sequence[str]
    ) -> list[Samples]:
        numbers = [self._symbols[each] for each in symbols if each in self._symbols]
        inputs = {
            "tokens": np.array([[0, *numbers, 0]], np.int64),
            "style": mixture.style(self._voices)[len(numbers) - 1][None],
            "speed": np.array([speed / mixture.tract], np.float32),
        }
        return self._session.run_all(inputs, outputs)


class _Writer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._network = Kokoro()
        self._front_end = FrontEnd()
        self._english = KokoroPackages().read_pronunciation()

    def write(self, name: str, mixture: Mixture, lines: Iterable[Line]) -> None:
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        listed = []
        seconds = 0.0
        for number, (language, text) in enumerate(lines):
            file = folder / f"{language}{number:03}.wav"
            listed.append(f"{file.name}\t{language}\t{text}\n")
            if not file.exists():
                store(file, self._speak(mixture, language, text))
            seconds += soundfile.info(file).duration
        (folder / "transcripts.tsv").write_text("".join(listed), "utf-8")
        print(f"{folder}: {len(listed)} files, {seconds / 60:.1f} minutes", flush=True)

    def write_pairs(self, count: int) -> None:
        """Write stereo files in which a stranger and Hina say the same; what is there stays."""
        folder = self._folder / "pairs"
        folder.mkdir(parents=True, exist_ok=True)
        random = Random(11)
        japanese_lines, english_lines = lines_of("hina_ja.txt", "ja"), lines_of("hina_en.txt", "en")
        for number in range(count):
            file = folder / f"{number:03}.wav"
            language, text = random.choice(
                (japanese_lines, [("ja", japanese(random))], english_lines)[number % 3]
            )
            if not file.exists():
                symbols, speed = self._symbols(language, text), 0.85 + 0.3 * random.random()
                both = [self._network.speak(each, symbols, speed) for each in pair_of(number)]
                store(file, np.stack(both, 1))
        print(f"{folder}: {count} pairs", flush=True)

    def write_people(self) -> None:
        """Write an Opus file of each stranger; what is there stays."""
        folder = self._folder / "people"
        folder.mkdir(parents=True, exist_ok=True)
        pause = np.zeros(round(_PAUSE_SECONDS * SAMPLE_RATE), np.float32)
        for seed in _STRANGERS:
            file, draft = folder / f"{seed:02}.opus", folder / f"{seed:02}.wav"
            if file.exists():
                continue
            spoken = [self._speak(stranger(seed), "ja", text) for text in small_talk(seed)]
            parts = [part for sentence in spoken for part in (sentence, pause)]
            said = np.concatenate(parts[:-1])[: _MOST_SECONDS_OF_STRANGERS * SAMPLE_RATE]
            store(draft, said)
            encode = ["ffmpeg", "-y", "-v", "error", "-i", str(draft), "-b:a", "24k", str(file)]
            subprocess.run(encode, check=True)
            draft.unlink()
        print(f"{folder}: {len(_STRANGERS)} strangers", flush=True)

    def write_statistics(self) -> None:
        lines: list[str] = []
        for number, length in enumerate(_MEASURED):
            for file, language in _MEASURED_TEXTS:
                texts = lines_of(file, language)
                begin = 5 * number % (len(texts) - 8)
                words = " ".join(self._symbols(*each) for each in texts[begin : begin + 8]).split()
                spoken = accumulate(words, "{} {}".format)
                lines.append(next(each for each in spoken if len(each) >= length))
        measured = self._network.statistics(lines)
        np.savez_compressed(STATISTICS, **measured)  # type: ignore[arg-type] # names are strings

    def _speak(self, mixture: Mixture, language: str, text: str) -> Samples:
        return trim(self._network.speak(mixture, self._symbols(language, text), 1.0), SAMPLE_RATE)

    def _symbols(self, language: str, text: str) -> str:
        if language == "en":
            return " ".join(map(self._english.symbols, cut_sentences(write_out(text))))
        return symbols_of_text(text, self._front_end)


def store(file: Path, samples: Samples) -> None:
    draft = file.with_suffix(".draft")
    soundfile.write(draft, samples, SAMPLE_RATE, "PCM_16", format="WAV")
    draft.rename(file)


def lines_of(file: str, language: str) -> list[Line]:
    return [(language, line) for line in (_TEXTS / file).read_text("utf-8").splitlines()]


def small_talk(seed: int) -> list[str]:
    random = Random(seed)
    first = random.choice(lines_of("hina_ja.txt", "ja"))[1]
    return [first, *(japanese(random) for _ in range(_SENTENCES_OF_STRANGERS - 1))]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.training.sources.kokoro", description=__doc__
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=("hina", "judges", "people", "pairs", "statistics"))
    asked = parser.parse_args()
    writer = _Writer(asked.folder)
    if asked.only in (None, "judges"):
        for name in JUDGES:
            alone = Mixture({name: 1.0}, {name: 1.0})
            writer.write(f"judge-ja/{name}", alone, lines_of("judge_ja.txt", "ja"))
    if asked.only in (None, "hina"):
        writer.write("hina", NOBODY, lines_of("hina_ja.txt", "ja") + lines_of("hina_en.txt", "en"))
    if asked.only in (None, "pairs"):
        writer.write_pairs(_PAIRS)
    if asked.only in (None, "people"):
        writer.write_people()
    if asked.only == "statistics":
        writer.write_statistics()


if __name__ == "__main__":
    main()
