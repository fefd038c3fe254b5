"""The watermark: found after damages, not found where there is none, and what it costs.

The readers are those of `training/people` from whom the detector did not learn. `pip install
resemble-perth` into the environment adds PerTh's implicit watermark to the table; it has no
payload, and its detector answers only yes or no.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.measuring.recordings import SAMPLE_RATE, webm
from benchmarks.measuring.report import Report, Table
from benchmarks.rvc.bundle import CHARACTER, write_characters
from benchmarks.watermark.damages import DAMAGES, decoded
from infra.local.configuration.options import ROOT
from speech.bundles.reading import load_characters
from speech.engines.interface.engine import ConversionOptions
from speech.engines.interface.text_engine import SpeechOptions
from speech.engines.registry import ENGINES, build_engine
from speech.engines.text_registry import build_text_engine
from speech.networks.settings import SessionSettings
from speech.results.watermark.detection import MOST_CHANCE, find_each, find_watermark
from speech.results.watermark.embedding import Watermark
from speech.results.watermark.pattern import WatermarkKey
from speech.results.wav import write_wav

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.measuring.report import Cell, Options
    from speech.engines.interface.engine import Engine
    from speech.signal.arrays import Samples

PEOPLE: Final = ROOT / "training" / "people"
READ_RATE: Final = 24_000
SECONDS: Final = 3.0
_COST_SECONDS: Final = 5.0
TEXTS: Final = (
    "こんにちは。わたしのこえが、べつのこえになります。",
    "きょうは天気がいいので、公園まで歩いて行きましょう。",
    "電車が来ます。黄色い線の内側でお待ちください。",
    "昔々、あるところに、おじいさんとおばあさんがいました。",
    "すみません、駅はどこですか。まっすぐ行って、右に曲がってください。",
    "明日の会議は午後三時から、二階の会議室で行います。",
)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured.

    Attributes:
        readers: how many of them are converted by each character.
        slow_readers: how many by the RVC voice.
        keys: how many keys each unmarked sound is searched for.
    """

    readers: int
    slow_readers: int
    keys: int


FULL: Final = Extent(readers=35, slow_readers=12, keys=180)
QUICK: Final = Extent(readers=2, slow_readers=1, keys=1)


@dataclass(frozen=True, slots=True)
class Sound:
    """Three seconds of speech that nobody has marked."""

    source: str
    samples: Samples
    sample_rate: int


def run(options: Options) -> Report:
    """Measure; see the module's docstring."""
    plan = QUICK if options.quick else FULL
    readers = [
        _speech_of(decoded(path.read_bytes(), READ_RATE), READ_RATE)
        for path in sorted(PEOPLE.glob("*/*.opus"))[::2]
    ]
    sounds = list(_made(plan, readers))
    found, wrong = _find_marked(sounds)
    plain = [*(Sound("readers", samples, READ_RATE) for samples in readers), *sounds]
    searched, false = _search_unmarked(plain, plan.keys)
    cost = _cost()
    sources = list(dict.fromkeys(sound.source for sound in sounds))
    tables = [_found_table(found, sources)]
    perth = _perth(sounds)
    if perth is not None:
        tables.append(perth)
    return Report(
        "watermark", tuple(tables), _facts(searched, false, wrong, cost), {"marking": cost}
    )


def _made(plan: Extent, readers: Sequence[Samples]) -> Iterator[Sound]:
    """Convert what readers say with each character, and speak texts."""
    settings = SessionSettings()
    with tempfile.TemporaryDirectory() as scratch:
        write_characters(Path(scratch))
        ours = load_characters(ROOT / "characters", ENGINES)
        slow = {"RVC, random weights": load_characters(Path(scratch), ENGINES)[CHARACTER]}
        for name, character in {**ours, **slow}.items():
            engine = build_engine(character, settings)
            count = plan.readers if name in ours else plan.slow_readers
            yield from _converted(name, engine, readers[:count])
            if name in ours and character.manifest.takes_text:
                texts = build_text_engine(character, engine, settings)
                spoken = [] if texts is None else TEXTS[: plan.readers]
                for seed, text in enumerate(spoken):
                    pieces = list(texts.speak(text, SpeechOptions(seed=seed))) if texts else []
                    rate = character.manifest.sample_rate
                    yield Sound("texts", _speech_of(np.concatenate(pieces), rate), rate)


def _converted(name: str, engine: Engine, readers: Sequence[Samples]) -> Iterator[Sound]:
    for seed, samples in enumerate(readers):
        converted = engine.convert(samples, READ_RATE, ConversionOptions(seed=seed))
        yield Sound(name, converted, engine.sample_rate)


def _speech_of(samples: Samples, rate: int) -> Samples:
    """Return the three seconds in which most is said."""
    count, frame = round(SECONDS * rate), rate // 100
    power = np.square(samples[: len(samples) // frame * frame]).reshape(-1, frame).mean(axis=1)
    is_speech = power > 1e-4 * power.max()
    window = min(round(SECONDS * 100), len(is_speech))
    said = np.convolve(is_speech, np.ones(window), "valid")
    begin = int(np.argmax(said)) * frame
    return samples[begin : begin + count]


def _find_marked(sounds: Sequence[Sound]) -> tuple[Mapping[tuple[str, str], list[bool]], int]:
    """Mark each sound with a key and a payload of its own, damage it and search it.

    Returns:
        By damage and source, whether each sound's mark was found with its bits; and how often
        others than its bits were found.
    """
    found: dict[tuple[str, str], list[bool]] = defaultdict(list)
    wrong = 0
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        searched = processes.map(_found_after_damages, sounds, range(len(sounds)))
        for sound, answers in zip(sounds, searched, strict=True):
            for name, answer in answers.items():
                found[name, sound.source].append(answer is True)
                wrong += answer is False
    return found, wrong


def _found_after_damages(sound: Sound, seed: int) -> dict[str, bool | None]:
    """Return for each damage whether the right bits were found; None if nothing was."""
    rng = np.random.default_rng([0, seed])
    key, payload = WatermarkKey(rng.bytes(32)), int(rng.integers(1 << 16))
    marked = Watermark(key, payload, sound.sample_rate).mark(sound.samples, seed)
    answers: dict[str, bool | None] = {}
    for name, damage in DAMAGES.items():
        finding = find_watermark(damage(marked, sound.sample_rate), sound.sample_rate, [key])
        is_found = finding is not None and finding.is_found
        answers[name] = finding.payload == payload if finding is not None and is_found else None
    return answers


def _search_unmarked(sounds: Sequence[Sound], keys: int) -> tuple[int, int]:
    """Search sounds that nobody marked; return how often, and how often something was found.

    Each key draws the signs of all cells anew, and nothing but these signs tells whether a sound
    agrees. So searches of one sound with many keys are independent draws.
    """
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        false = sum(processes.map(_false_alarms, sounds, repeat(keys), range(len(sounds))))
    return keys * len(sounds), false


def _false_alarms(sound: Sound, count: int, seed: int) -> int:
    rng = np.random.default_rng([1, seed])
    keys = [WatermarkKey(rng.bytes(32)) for _ in range(count)]
    findings = find_each(sound.samples, sound.sample_rate, keys)
    return sum(finding.is_found for finding in findings)


def _cost() -> float:
    """Return the time to mark five seconds as a part of what else a conversion with Mei takes.

    That is decoding, the engine and encoding, without a process of its own for each.
    """
    bundle = load_characters(ROOT / "characters", ENGINES)["mei"]
    engine = build_engine(bundle, SessionSettings())
    recording = webm(_COST_SECONDS)
    watermark = Watermark(WatermarkKey(bytes(32)), 1, engine.sample_rate)

    def seconds(work: Any) -> float:
        times = []
        for _ in range(15):
            began = time.process_time()
            work()
            times.append(time.process_time() - began)
        return median(times)

    def convert() -> Samples:
        samples = engine.convert(decoded(recording, SAMPLE_RATE), SAMPLE_RATE, ConversionOptions())
        write_wav(samples, engine.sample_rate)
        return samples

    converted = convert()
    return seconds(lambda: watermark.mark(converted, 1)) / seconds(convert)


def _found_table(found: Mapping[tuple[str, str], list[bool]], sources: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for damage in DAMAGES:
        by_source = [found[damage, source] for source in sources]
        everything = [each for several in by_source for each in several]
        shares = (f"{sum(each)} of {len(each)}" for each in by_source)
        rows.append((damage, *shares, round(100 * float(np.mean(everything)), 1)))
    title = "marked results of 3 s whose watermark is found, with the right 16 bits"
    return Table(title, ("after", *sources, "all, %"), tuple(rows))


def _facts(searched: int, false: int, wrong: int, cost: float) -> dict[str, Cell]:
    return {
        "marked results with other bits than theirs": wrong,
        "searches of unmarked sounds, each with another key": searched,
        "of them found to be marked": false,
        "false alarms are rarer than (95 % confidence)": _upper_bound(false, searched),
        "the same by the number of tries, for each 12 s": MOST_CHANCE,
        "marking 5 s, as a part of decoding, converting with Mei and encoding": cost,
    }


def _upper_bound(count: int, trials: int) -> float:
    """Return the rate that fewer than so many of the trials would have with 5 % probability.

    The exact bound of C. Clopper and E. Pearson (Biometrika 26, 1934), by bisection.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        rate = (low + high) / 2
        # The first terms of the binomial distribution, from the last to the first.
        term = total = (1 - rate) ** trials
        for k in range(count):
            term *= (trials - k) / (k + 1) * rate / (1 - rate) if rate < 1 else 0.0
            total += term
        low, high = (rate, high) if total > 0.05 else (low, rate)  # noqa: PLR2004 - 95 %
    return high


def _perth(sounds: Sequence[Sound]) -> Table | None:
    """Do the same with PerTh, if it is installed; None if it is not."""
    try:
        implicit: Any = importlib.import_module(
            "perth.perth_net.perth_net_implicit.perth_watermarker"
        )
    except ImportError:
        return None
    perth = implicit.PerthImplicitWatermarker()
    found: dict[str, list[bool]] = defaultdict(list)
    for sound in sounds:
        marked = perth.apply_watermark(sound.samples, sample_rate=sound.sample_rate)
        marked = np.asarray(marked, np.float32)
        for name, damage in DAMAGES.items():
            heard = damage(marked, sound.sample_rate)
            answer = perth.get_watermark(heard, sample_rate=sound.sample_rate, round=False)
            found[name].append(float(np.mean(answer)) > 0.5)  # noqa: PLR2004 - its own threshold
    unmarked = [
        float(np.mean(perth.get_watermark(each.samples, sample_rate=each.sample_rate, round=False)))
        > 0.5  # noqa: PLR2004 - its own threshold
        for each in sounds
    ]
    rows = [(name, round(100 * float(np.mean(each)), 1)) for name, each in found.items()]
    rows.append(("unmarked results, wrongly found", round(100 * float(np.mean(unmarked)), 1)))
    return Table("PerTh: the same, without bits", ("after", "found, %"), tuple(rows))
