"""The watermark: found after damages, not found where there is none, and what it costs.

The readers are those of `tools/training/people` from whom the detector did not learn. `pip install
resemble-perth` into the environment adds PerTh's implicit watermark to the table; it has no
payload, and its detector answers only yes or no.
"""

from __future__ import annotations

import importlib
import io
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

import av
import numpy as np
import soxr

from infra.local.configuration.options import ROOT
from shared.speech.engines.interface import ConversionOptions
from shared.speech.engines.registry import ENGINES, build_engine, build_text_engine
from shared.speech.engines.text_interface import SpeechOptions
from shared.speech.graphs.bundle_folders import load_characters
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.results.audio_files import write_wav
from shared.speech.results.watermark import Watermark, WatermarkKey
from shared.speech.results.watermark_detection import MOST_CHANCE, find_each, find_watermark
from tools.benchmarks.random_graphs import CHARACTER, write_characters
from tools.benchmarks.recordings import SAMPLE_RATE, webm
from tools.benchmarks.report import Report, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from av.audio.stream import AudioStream

    from shared.speech.engines.interface import Engine
    from shared.speech.signal.sound import Samples
    from tools.benchmarks.report import BenchmarkOptions, Cell


_CODED_AT: Final = frozenset((16_000, 22_050, 24_000, 32_000, 44_100, 48_000))

ROOM_SECONDS: Final = 0.3
"""How long the room's echo takes to fall by 60 dB."""

ROOM_RATIO: Final = 3.0
"""By how many dB the echo is softer than what comes straight."""


def decoded(file: bytes, rate: int) -> Samples:
    """Decode a file: mono, float32."""
    resampler = av.AudioResampler(format="flt", layout="mono", rate=rate)
    with av.open(io.BytesIO(file), "r") as source:
        frames = [
            resampled.to_ndarray()
            for frame in (*source.decode(audio=0), None)
            for resampled in resampler.resample(frame)
        ]
    return np.asarray(np.concatenate(frames, axis=1)[0], np.float32)


def _as_wav(samples: Samples, rate: int) -> Samples:
    return decoded(write_wav(samples, rate), rate)


def _through(
    container: str, codec: str, bit_rate: int, codec_rate: int | None = None
) -> Callable[[Samples, int], Samples]:
    def code(samples: Samples, rate: int) -> Samples:
        file = io.BytesIO()
        with av.open(file, "w", format=container) as target:
            coded_at = codec_rate or (rate if rate in _CODED_AT else 48_000)
            stream = cast("AudioStream", target.add_stream(codec, rate=coded_at, layout="mono"))
            stream.bit_rate = bit_rate
            resampler = av.AudioResampler(format=stream.format, layout="mono", rate=coded_at)
            frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
            frame.sample_rate = rate
            for each in (frame, None):
                for resampled in resampler.resample(each):
                    target.mux(stream.encode(resampled))
            target.mux(stream.encode(None))
        return decoded(file.getvalue(), rate)

    return code


def _resampled(samples: Samples, rate: int) -> Samples:
    return soxr.resample(soxr.resample(samples, rate, 16_000), 16_000, rate)


def _played(speed: float) -> Callable[[Samples, int], Samples]:
    return lambda samples, rate: soxr.resample(samples, rate, rate / speed)


def _stretched(samples: Samples, rate: int) -> Samples:
    """Play 2 % faster at the same pitch, with FFmpeg's filter `atempo`."""
    graph = av.filter.Graph()
    source = graph.add_abuffer(sample_rate=rate, format="fltp", layout="mono")
    tempo, sink = graph.add("atempo", "1.02"), graph.add("abuffersink")
    source.link_to(tempo)
    tempo.link_to(sink)
    graph.configure()
    frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
    frame.sample_rate = rate
    graph.push(frame)
    graph.push(None)
    pieces = []
    while True:
        try:
            pieces.append(graph.pull().to_ndarray())
        except (av.EOFError, BlockingIOError):
            return np.asarray(np.concatenate(pieces, axis=1)[0], np.float32)


def _cut(samples: Samples, rate: int) -> Samples:
    """Remove a quarter of a second at the beginning, which is no multiple of a chip."""
    return samples[round(0.253 * rate) :]


def _louder(samples: Samples, rate: int) -> Samples:
    """Make it 12 dB louder, and cut off what exceeds full scale."""
    del rate
    return np.asarray(np.clip(samples * 4, -1.0, 1.0), np.float32)


def _noisy(samples: Samples, rate: int) -> Samples:
    """Add white noise of 20 dB less than the speech."""
    noise = np.random.default_rng(rate).standard_normal(len(samples), np.float32)
    return np.asarray(samples + noise * np.sqrt(np.square(samples).mean() / 100), np.float32)


def _in_a_room(samples: Samples, rate: int) -> Samples:
    """Let it be heard in a small room: what comes straight, and noise that dies away."""
    count = round(1.3 * ROOM_SECONDS * rate)
    noise = np.random.default_rng(0).standard_normal(count)
    echo = noise * 10 ** (-3 * np.arange(count) / (ROOM_SECONDS * rate))
    echo[: round(0.003 * rate)] = 0
    echo *= 10 ** (-ROOM_RATIO / 20) / np.linalg.norm(echo)
    echo[0] = 1
    size = len(samples) + count
    spectrum = np.fft.rfft(samples, size) * np.fft.rfft(echo, size)
    return np.asarray(np.fft.irfft(spectrum, size)[: len(samples)], np.float32)


DAMAGES: Final[Mapping[str, Callable[[Samples, int], Samples]]] = MappingProxyType(
    {
        "WAV": _as_wav,
        "MP3, 64 kbit/s": _through("mp3", "libmp3lame", 64_000),
        "AAC, 64 kbit/s": _through("ipod", "aac", 64_000),
        "Opus, 24 kbit/s": _through("ogg", "libopus", 24_000, 48_000),
        "resampled to 16 kHz": _resampled,
        "2 % faster": _played(1.02),
        "2 % slower": _played(0.98),
        "2 % faster, same pitch": _stretched,
        "cut": _cut,
        "12 dB louder": _louder,
        "20 dB of white noise": _noisy,
        "a small room": _in_a_room,
    }
)
"""The damages of a marked sound, which is given with its sample rate."""


PEOPLE: Final = ROOT / "tools" / "training" / "people"
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
class WatermarkExtent:
    """How much is measured."""

    readers: int
    slow_readers: int
    keys: int


FULL: Final = WatermarkExtent(readers=35, slow_readers=12, keys=180)
QUICK: Final = WatermarkExtent(readers=2, slow_readers=1, keys=1)


@dataclass(frozen=True, slots=True)
class JudgedSound:
    """Three seconds of speech that nobody has marked."""

    source: str
    samples: Samples
    sample_rate: int


def run(options: BenchmarkOptions) -> Report:
    """Measure; see the module's docstring."""
    plan = QUICK if options.quick else FULL
    readers = [
        _speech_of(decoded(path.read_bytes(), READ_RATE), READ_RATE)
        for path in sorted(PEOPLE.glob("*/*.opus"))[::2]
    ]
    sounds = list(_made(plan, readers))
    found, wrong = _find_marked(sounds)
    plain = [*(JudgedSound("readers", samples, READ_RATE) for samples in readers), *sounds]
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


def _made(plan: WatermarkExtent, readers: Sequence[Samples]) -> Iterator[JudgedSound]:
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
                    yield JudgedSound("texts", _speech_of(np.concatenate(pieces), rate), rate)


def _converted(name: str, engine: Engine, readers: Sequence[Samples]) -> Iterator[JudgedSound]:
    for seed, samples in enumerate(readers):
        converted = engine.convert(samples, READ_RATE, ConversionOptions(seed=seed))
        yield JudgedSound(name, converted, engine.sample_rate)


def _speech_of(samples: Samples, rate: int) -> Samples:
    """Return the three seconds in which most is said."""
    count, frame = round(SECONDS * rate), rate // 100
    power = np.square(samples[: len(samples) // frame * frame]).reshape(-1, frame).mean(axis=1)
    is_speech = power > 1e-4 * power.max()
    window = min(round(SECONDS * 100), len(is_speech))
    said = np.convolve(is_speech, np.ones(window), "valid")
    begin = int(np.argmax(said)) * frame
    return samples[begin : begin + count]


def _find_marked(sounds: Sequence[JudgedSound]) -> tuple[Mapping[tuple[str, str], list[bool]], int]:
    """Mark each sound with a key and a payload of its own, damage it and search it."""
    found: dict[tuple[str, str], list[bool]] = defaultdict(list)
    wrong = 0
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        searched = processes.map(_found_after_damages, sounds, range(len(sounds)))
        for sound, answers in zip(sounds, searched, strict=True):
            for name, answer in answers.items():
                found[name, sound.source].append(answer is True)
                wrong += answer is False
    return found, wrong


def _found_after_damages(sound: JudgedSound, seed: int) -> dict[str, bool | None]:
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


def _search_unmarked(sounds: Sequence[JudgedSound], keys: int) -> tuple[int, int]:
    """Search sounds that nobody marked; return how often, and how often something was found.

    Each key draws the signs of all cells anew, and nothing but these signs tells whether a sound
    agrees. So searches of one sound with many keys are independent draws.
    """
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        false = sum(processes.map(_false_alarms, sounds, repeat(keys), range(len(sounds))))
    return keys * len(sounds), false


def _false_alarms(sound: JudgedSound, count: int, seed: int) -> int:
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


def _perth(sounds: Sequence[JudgedSound]) -> Table | None:
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
