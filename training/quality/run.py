"""Converts the held-out material with a bundle and writes what came of it as tables."""

import math
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soxr

from training.features import RATE, Floats
from training.quality import material, measures, recogniser
from training.quality.converter import Converter
from training.quality.disturbances import DISTURBANCES
from training.quality.loading import loading_ms
from training.quality.material import Item, Prompt
from training.quality.pictures import spectrograms
from training.quality.prompts import PromptRecogniser
from training.quality.recogniser import Listener, Score
from training.quality.similarity import SpeakerLikeness

DISTURBED_ITEMS = 8


@dataclass
class Row:
    """Figures of one group, gathered over its sentences."""

    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    scores: dict[str, Score] = field(default_factory=lambda: defaultdict(Score))

    def add(self, **values: float) -> None:
        """Adds one sentence's figures."""
        for name, value in values.items():
            self.values[name].append(value)

    def mean(self, name: str) -> float:
        """Mean over the sentences that had the figure."""
        known = [v for v in self.values[name] if not math.isnan(v)]
        return sum(known) / len(known) if known else math.nan

    def share(self, name: str) -> str:
        """``all / vowels`` right in percent."""
        score = self.scores[name]
        if not score.total:
            return "-"
        return f"{score.right / score.total:.0%} / {score.vowels_right / max(score.vowels, 1):.0%}"


@dataclass(frozen=True)
class Harness:
    """Everything that judges, made once."""

    converter: Converter
    listener: Listener
    likeness: SpeakerLikeness

    def synthetic(self, items: Iterable[Item]) -> dict[str, Row]:
        """Rows by speaker for sentences whose conversion is known."""
        rows: dict[str, Row] = defaultdict(Row)
        for item in items:
            row = rows[_speaker_name(item.speaker)]
            converted = self.converter(item.wave)
            source, found, target = (
                measures.analyse(w) for w in (item.wave, converted, item.target)
            )
            row.add(
                distortion_before=measures.distortion(source, target),
                distortion=measures.distortion(found, target),
                likeness_before=self.likeness.of(item.wave),
                likeness=self.likeness.of(converted),
                likeness_ceiling=self.likeness.of(item.target),
                melody=measures.melody_correlation(source, found),
                voicing=measures.voicing_agreement(target, found),
                dropout=measures.longest_dropout_ms(source, found),
            )
            for name, wave in (
                ("before", item.wave),
                ("after", converted),
                ("ceiling", item.target),
            ):
                row.scores[name] += self.listener.judge(wave, item.phones, item.ends)
        return rows

    def natural(self, recordings: Iterable[tuple[str, Floats]]) -> dict[str, Row]:
        """Rows by person for natural speech, for which the target has no answer."""
        rows: dict[str, Row] = defaultdict(Row)
        for person, wave in recordings:
            converted = self.converter(wave)
            source, found = measures.analyse(wave), measures.analyse(converted)
            rows[person].add(
                likeness_before=self.likeness.of(wave),
                likeness=self.likeness.of(converted),
                melody=measures.melody_correlation(source, found),
                voicing=measures.voicing_agreement(source, found),
                dropout=measures.longest_dropout_ms(source, found),
            )
        return rows

    def prompts(self, prompts: list[Prompt]) -> tuple[float, float]:
        """Shares of the prompts that are recognised as recorded, and converted."""
        hearer = PromptRecogniser([p.words for p in prompts])
        before = [hearer.hear(p.wave) == p.words for p in prompts]
        after = [hearer.hear(self.converter(p.wave)) == p.words for p in prompts]
        return sum(before) / len(before), sum(after) / len(after)

    def disturbed(self, items: list[Item]) -> dict[str, Row]:
        """Rows by disturbance."""
        rows: dict[str, Row] = defaultdict(Row)
        for name, disturb in DISTURBANCES.items():
            for item in items:
                converted = self.converter(disturb(item.wave))
                source, found = measures.analyse(item.wave), measures.analyse(converted)
                rows[name].add(
                    likeness=self.likeness.of(converted),
                    melody=measures.melody_correlation(source, found),
                    dropout=measures.longest_dropout_ms(source, found),
                )
                rows[name].scores["after"] += self.listener.judge(converted, item.phones, item.ends)
        for item in items:
            pieces = np.array_split(item.wave, max(1, len(item.wave) // RATE))
            converted = np.concatenate([self.converter(piece) for piece in pieces])
            source, found = measures.analyse(item.wave), measures.analyse(converted)
            rows["in pieces of 1 s"].add(
                likeness=self.likeness.of(converted),
                melody=measures.melody_correlation(source, found),
                dropout=measures.longest_dropout_ms(source, found),
            )
            score = self.listener.judge(converted, item.phones, item.ends)
            rows["in pieces of 1 s"].scores["after"] += score
        return rows


def _speaker_name(speaker: str) -> str:
    kind = speaker.partition("/")[0]
    return "espeak-ng, 6 variants" if kind == "espeak" else speaker.removesuffix("/ja")


def properties(converter: Converter, wave: Floats, bundle: Path) -> list[tuple[str, str]]:
    """Facts that must hold for any recording, and what a conversion costs on this machine."""
    silence = converter.raw(np.zeros(RATE * 2, np.float32))
    out = converter.raw(wave)
    wanted = round(len(wave) * converter.engine.sample_rate / RATE)
    loud = converter.raw(np.clip(wave * 20, -1, 1))
    same = converter.raw(wave, seed=5).tobytes() == converter.raw(wave, seed=5).tobytes()
    level_in = measures.level_db(wave, len(wave) // 160)
    at_16k = soxr.resample(out, converter.engine.sample_rate, RATE)
    level_out = measures.level_db(at_16k, len(wave) // 160)
    speaking = level_in > level_in.max() - 25
    five = np.resize(wave, 5 * RATE)
    costs = []
    for _ in range(12):
        began = time.process_time()
        converter.raw(five)
        costs.append(time.process_time() - began)
    best, median = loading_ms(bundle)
    size = sum(f.stat().st_size for f in bundle.iterdir()) / 1e6
    rms = 20 * np.log10(max(float(np.sqrt((silence**2).mean())), 1e-9))
    return [
        ("silence comes out at", f"{rms:.0f} dBFS"),
        ("length differs by", f"{abs(len(out) - wanted)} samples"),
        ("peak of a conversion of clipped speech", f"{np.abs(loud).max():.3f}"),
        (
            "loudness of speech, output minus input",
            f"{(level_out - level_in)[speaking].mean():+.1f} dB",
        ),
        ("same seed, same samples", "yes" if same else "no"),
        ("processor time for 5 s, one thread, best of 12", f"{min(costs) * 1000:.0f} ms"),
        ("real-time factor (best, median)", f"{min(costs) / 5:.4f}, {np.median(costs) / 5:.4f}"),
        ("loading the bundle, with a trial run (best, median)", f"{best:.0f}, {median:.0f} ms"),
        ("size of the bundle", f"{size:.1f} MB"),
        (
            "peak memory of the harness",
            _peak_memory(),
        ),
    ]


def _peak_memory() -> str:
    try:
        import resource  # noqa: PLC0415 - Windows does not have it
    except ImportError:
        return "not known on this system"
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"


def _figure(value: float, form: str = ".2f") -> str:
    return "-" if math.isnan(value) else format(value, form)


def synthetic_table(rows: dict[str, Row]) -> str:
    """Markdown; before -> after, and what the target herself reaches."""
    lines = [
        "| unseen speaker, Japanese | distortion dB | likeness (ceiling) | sounds right, all / vowels: before | after | target herself | log-f0 correlation | voicing agrees | longest drop-out |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        lines.append(
            f"| {name} | {_figure(row.mean('distortion_before'))} → {_figure(row.mean('distortion'))} "
            f"| {_figure(row.mean('likeness_before'))} → {_figure(row.mean('likeness'))} ({_figure(row.mean('likeness_ceiling'))}) "
            f"| {row.share('before')} | {row.share('after')} | {row.share('ceiling')} "
            f"| {_figure(row.mean('melody'), '.3f')} | {_figure(row.mean('voicing'))} "
            f"| {max(row.values['dropout']):.0f} ms |"
        )
    return "\n".join(lines)


def natural_table(rows: dict[str, Row], before: float, after: float, count: int) -> str:
    """Markdown of natural speech and of the prompts."""
    lines = [
        "| unseen person, English | likeness before → after | log-f0 correlation | voicing agrees | longest drop-out |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        lines.append(
            f"| {name} | {_figure(row.mean('likeness_before'))} → {_figure(row.mean('likeness'))} "
            f"| {_figure(row.mean('melody'), '.3f')} | {_figure(row.mean('voicing'))} "
            f"| {max(row.values['dropout']):.0f} ms |"
        )
    lines.append(
        f"\nOf {count} short prompts (closed set, pocketsphinx) {before:.0%} are recognised as recorded"
        f" and {after:.0%} as converted."
    )
    return "\n".join(lines)


def disturbed_table(rows: dict[str, Row]) -> str:
    """Markdown of the robustness figures."""
    lines = [
        "| recording | sounds right, all / vowels | likeness | log-f0 correlation | longest drop-out |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        lines.append(
            f"| {name} | {row.share('after')} | {_figure(row.mean('likeness'))} "
            f"| {_figure(row.mean('melody'), '.3f')} | {max(row.values['dropout']):.0f} ms |"
        )
    return "\n".join(lines)


def property_table(facts: list[tuple[str, str]]) -> str:
    """Markdown of the facts."""
    return "\n".join(
        ["| property | measured |", "|---|---|", *(f"| {a} | {b} |" for a, b in facts)]
    )


def total(rows: dict[str, Row]) -> Row:
    """All unseen speakers together (the target herself left out)."""
    every = Row()
    for name, row in rows.items():
        if name == "mei":
            continue
        for key, values in row.values.items():
            every.values[key] += values
        for key, score in row.scores.items():
            every.scores[key] += score
    return every


def _draw(
    converter: Converter, items: list[Item], natural: list[tuple[str, Floats]], folder: Path
) -> None:
    """Pictures of some conversions, to be looked at."""
    for index in range(0, len(items), 9):
        item = items[index]
        waves = {item.speaker: item.wave, "converted": converter(item.wave), "target": item.target}
        spectrograms(folder / f"synthetic-{index}.png", waves)
    for index in range(0, len(natural), 4):
        person, wave = natural[index]
        spectrograms(folder / f"natural-{index}.png", {person: wave, "converted": converter(wave)})


def run(bundle: Path, data: Path, cache: Path, dictionary: Path, per_voice: int = 8) -> str:
    """Measures everything; the tables as Markdown."""
    converter = Converter.of(bundle)
    items = material.items(cache, dictionary, per_voice)
    listener = Listener(recogniser.train(data, cache / "recogniser.pt"))
    own = [item.target for item in items]
    harness = Harness(converter, listener, SpeakerLikeness(own[: max(4, len(own) // 3)]))
    print("converting the unseen synthetic speakers", flush=True)
    synthetic = harness.synthetic(items)
    herself = synthetic.pop("mei", Row())
    table = {**synthetic, "**all of them**": total(synthetic), "mei (the target herself)": herself}
    print("converting natural speech", flush=True)
    prompts = material.prompts(cache)
    natural = harness.natural(material.natural(cache))
    before, after = harness.prompts(prompts)
    print("converting disturbed recordings", flush=True)
    unseen = [item for item in items if item.speaker != "mei"]
    _draw(converter, unseen, material.natural(cache), cache / "pictures")
    disturbed = harness.disturbed(
        unseen[:: max(1, len(unseen) // DISTURBED_ITEMS)][:DISTURBED_ITEMS]
    )
    facts = properties(converter, unseen[0].wave, bundle)
    return "\n\n".join(
        [
            synthetic_table(table),
            natural_table(natural, before, after, len(prompts)),
            disturbed_table(disturbed),
            property_table(facts),
        ]
    )
