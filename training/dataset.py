"""Training pairs in memory, and the disturbances that cost nothing to make anew each time."""

import pickle
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from training import features
from training.articulation import Articulation
from training.features import MelSpectrum
from training.generate import Example
from training.network import OUTPUT_RATE, warped_axis
from training.phones import DEVOICED, INVENTORY, PHONE_INDEX, VOWELS
from training.target import CEPSTRUM_SIZE

CROP = 160
CONTEXT = 120
SPAN = CROP + 2 * CONTEXT
MAX_LAG = 4
HELD_OUT_EVERY = 60
SHORTEST = 60
# How far the target of foreign speech is drawn towards the speaker's own articulation.
ARTICULATION_SHARE = 0.5
# Shares of the groups in a batch: natural speech and human-derived voices weigh most.
SHARES = {
    "natural": 0.12, "words": 0.04, "hts/ja": 0.13, "festival/ja": 0.19, "festival/native": 0.07,
    "flite/ja": 0.16, "flite/native": 0.09, "espeak/ja": 0.10, "espeak/native": 0.04, "mei": 0.06,
}  # fmt: skip
# Share of the crops that are taken from the source as it is, not from a spoiled version.
UNSPOILED_SHARE = 0.4
# Share of the crops that are heard without further disturbance.
CLEAN_SHARE = 0.25
# The engine reaches a frame's parameters at the frame's end, so the mean of two frames of 5 ms
# that the examples hold is a quarter of a frame of 10 ms early.
TARGET_EARLY = 0.25


FOREIGN = frozenset({"natural", "words", "festival/native", "flite/native", "espeak/native"})
_PAUSES = [PHONE_INDEX[name] for name in ("sil", "pau", "cl")]


def voice_of(speaker: str) -> str:
    """What shares a lag: a voice of one synthesiser or reader, told phones or words."""
    group = group_of(speaker)
    parts = speaker.split("/")
    return group if parts[0] in {"espeak", "mei"} else f"{group}:{parts[1]}"


def group_of(speaker: str) -> str:
    """The kind of source that a speaker such as ``"flite/awb/ja"`` belongs to."""
    kind, _, rest = speaker.partition("/")
    if kind in {"mei", "natural", "words"}:
        return kind
    japanese = rest.endswith("/ja") or rest.startswith("ja")
    return f"{kind}/{'ja' if japanese else 'native'}"


def envelope_axis(points: int = 72) -> NDArray[np.float64]:
    """Cosine matrix [35, points] from a cepstrum to log amplitude on a mel-like axis to 12 kHz."""
    top = 2595 * np.log10(1 + OUTPUT_RATE / 2 / 700)
    hertz = 700 * (10 ** (np.linspace(0, top, points) / 2595) - 1)
    result: NDArray[np.float64] = np.cos(np.arange(CEPSTRUM_SIZE)[:, None] * warped_axis(hertz))
    return result


@dataclass(frozen=True)
class Batch:
    """Tensors of one step: power of the source with context, and the target of its middle."""

    power: Tensor
    f0: Tensor
    voicing: Tensor
    voiced: Tensor
    cepstrum: Tensor
    phones: Tensor
    weight: Tensor


def native_examples(folder: Path, limit: int) -> list[Example]:
    """Up to so many sentences in the target's own language, from all over a folder of shards."""
    files = sorted(folder.glob("shard-*.pickle"))
    share = max(1, -(-limit // max(len(files), 1)))
    found: list[Example] = []
    for file in files:
        native = (e for e in pickle.loads(file.read_bytes()) if group_of(e.speaker) not in FOREIGN)
        found += [e for e in native if (e.log_f0 > 0).sum() > SHORTEST // 3][:share]
    return found


class Dataset:
    """All shards of a folder; picks up new ones when asked to."""

    def __init__(self, folder: Path, seed: int, points: int = 72) -> None:
        self.folder = folder
        self._seen: set[Path] = set()
        self._random = np.random.default_rng(seed)
        self._groups: dict[str, list[Example]] = defaultdict(list)
        self._axis = envelope_axis(points).astype(np.float32)
        self._lags: dict[str, float] = {}
        self._articulation: Articulation | None = None
        self.held_out: list[Example] = []
        self._weights = np.array([_importance(name) for name in INVENTORY], np.float32)
        self.refresh()

    def refresh(self) -> int:
        """Reads shards that were not read yet; how many seconds there are now."""
        fresh = self._read()
        self._learn_lags(fresh)
        if self._articulation is None and fresh:
            self._articulation = _learn_articulation(fresh)
        for group, examples in fresh.items():
            if group in FOREIGN and self._articulation is not None:
                examples = [self._drawn(e, self._articulation) for e in examples]  # noqa: PLW2901
            self._groups[group] += examples
        return sum(len(e.log_f0) for g in self._groups.values() for e in g) // 100

    def _read(self) -> dict[str, list[Example]]:
        """New examples by group; some are put aside."""
        fresh: dict[str, list[Example]] = defaultdict(list)
        for file in sorted(set(self.folder.glob("*.pickle")) - self._seen):
            self._seen.add(file)
            for index, example in enumerate(pickle.loads(file.read_bytes())):
                if len(example.log_f0) <= SHORTEST or (example.log_f0 > 0).sum() <= SHORTEST // 3:
                    continue
                example = _punctual(example)  # noqa: PLW2901
                if index % HELD_OUT_EVERY == HELD_OUT_EVERY // 8:
                    self.held_out.append(example)
                else:
                    fresh[group_of(example.speaker)].append(example)
        return fresh

    def _drawn(self, example: Example, articulation: Articulation) -> Example:
        """The example with a target between what the voice said and the source's articulation."""
        speaking = ~np.isin(example.phones, _PAUSES)
        heard = np.roll(example.mels[0].astype(np.float32), round(self._lag_of(example)), 0)
        own = articulation.of(heard, example.cepstra.astype(np.float32), speaking)
        share = np.convolve(
            np.pad(speaking.astype(np.float32), 2, mode="edge"), np.full(5, 0.2), "valid"
        )
        share = ARTICULATION_SHARE * share[:, None]
        cepstra = (1 - share) * example.cepstra.astype(np.float32) + share * own
        return replace(example, cepstra=cepstra.astype(np.float16))

    @property
    def lags(self) -> dict[str, float]:
        """Frames by which each voice's labels were found to be late."""
        return dict(self._lags)

    def statistics(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Mean and spread of the target's cepstra over a sample of the examples."""
        every = [e for g in self._groups.values() for e in g]
        sample = self._random.choice(len(every), min(len(every), 400), replace=False)
        cepstra = np.concatenate([every[i].cepstra.astype(np.float32) for i in sample])
        return cepstra.mean(0), cepstra.std(0)

    def batch(self, size: int, *, native: bool = False) -> Batch:
        """Random crops, groups by their shares; `native` leaves foreign speech out."""
        names = [n for n in SHARES if self._groups[n] and not (native and n in FOREIGN)]
        shares = np.array([SHARES[name] for name in names])
        rows = []
        for group in self._random.choice(len(names), size, p=shares / shares.sum()):
            examples = self._groups[names[group]]
            example = examples[self._random.integers(len(examples))]
            version = self._version(example)
            start = int(self._random.integers(-10, max(len(example.log_f0) - CROP + 10, 1)))
            rows.append(self._row(example, version, start))
        return self._collate(rows)

    def _version(self, example: Example) -> int:
        if self._random.random() < UNSPOILED_SHARE:
            return 0
        return int(self._random.integers(len(example.mels)))

    def validation(self, limit: int = 96) -> list[Batch]:
        """The middle of held-out examples, undisturbed."""
        chosen = self.held_out[:limit]
        rows = [self._row(e, 0, max(0, (len(e.log_f0) - CROP) // 2)) for e in chosen]
        return [self._collate(rows[i : i + 16]) for i in range(0, len(rows), 16)]

    def _row(self, example: Example, version: int, start: int) -> tuple[NDArray[np.float32], ...]:
        mel = example.mels[version]
        whole, half = divmod(round(2 * self._lag_of(example)), 2)
        first = start - CONTEXT - whole
        power = _piece(mel, first, SPAN)
        if half:
            power = np.sqrt(power * _piece(mel, first - 1, SPAN))
        index = np.clip(np.arange(start, start + CROP), 0, len(example.log_f0) - 1)
        inside = (np.arange(start, start + CROP) == index).astype(np.float32)
        voiced = example.log_f0 > 0
        frames = np.arange(len(voiced))
        melody = np.interp(frames, frames[voiced], example.log_f0[voiced])[index]
        phones = example.phones[index]
        return (
            power, np.exp(melody).astype(np.float32), (voiced[index] * inside).astype(np.float32),
            example.cepstra[index].astype(np.float32), phones.astype(np.int64),
            self._weights[phones] * inside,
        )  # fmt: skip

    def _collate(self, rows: list[tuple[NDArray[np.float32], ...]]) -> Batch:
        power, f0, voiced, cepstrum, phones, weight = (
            torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True)
        )
        return Batch(power, f0, voiced.clone(), voiced, cepstrum, phones, weight)

    def _lag_of(self, example: Example) -> float:
        return self._lags.get(voice_of(example.speaker), 0.0)

    def _learn_lags(self, fresh: dict[str, list[Example]]) -> None:
        voices: dict[str, list[Example]] = defaultdict(list)
        for example in (e for examples in fresh.values() for e in examples):
            voices[voice_of(example.speaker)].append(example)
        for voice, examples in voices.items():
            if voice not in self._lags:
                self._lags[voice] = self._lag(examples)

    def _lag(self, examples: list[Example]) -> float:
        """By how many frames the sources' loudness follows the target's too early (positive).

        To half a frame, by a parabola through the best correlation and its neighbours.
        """
        lags = range(-MAX_LAG, MAX_LAG + 1)
        total = np.zeros(len(lags))
        for example in examples[:80]:
            logs = example.cepstra.astype(np.float32) @ self._axis
            target = np.log(np.exp(2 * (logs - 8)).mean(1) + 1e-4)
            source = np.log(np.exp(example.mels[0].astype(np.float32)).mean(1) + 1e-6)
            inner = slice(MAX_LAG + 4, -MAX_LAG - 4)
            if len(target) > 60 and source[inner].std() > 0:
                total += [
                    np.corrcoef(target[inner], np.roll(source, lag)[inner])[0, 1] for lag in lags
                ]
        best = int(np.clip(np.argmax(total), 1, len(lags) - 2))
        before, at, after = total[best - 1 : best + 2]
        bend = before - 2 * at + after
        finer = 0.5 * (before - after) / bend if bend else 0.0
        return round(2 * (best - MAX_LAG + float(np.clip(finer, -1, 1)))) / 2


def _piece(mel: NDArray[np.float16], first: int, span: int) -> NDArray[np.float32]:
    """Mel power of so many frames, silence where there is no recording."""
    power = np.full((span, features.BANDS), features.POWER_FLOOR, np.float32)
    low, high = max(first, 0), min(first + span, len(mel))
    if low < high:
        power[low - first : high - first] = np.exp(mel[low:high].astype(np.float32))
    return power


def _punctual(example: Example) -> Example:
    """The example with the target's cepstra moved to where her voice reaches them."""
    cepstra = example.cepstra.astype(np.float32)
    earlier = np.concatenate([cepstra[:1], cepstra[:-1]])
    moved = (1 - TARGET_EARLY) * cepstra + TARGET_EARLY * earlier
    return replace(example, cepstra=moved.astype(np.float16))


def _learn_articulation(groups: dict[str, list[Example]]) -> Articulation | None:
    native = [e for name, examples in groups.items() if name not in FOREIGN for e in examples[:80]]
    if not native:
        return None
    speech = [e.cepstra[~np.isin(e.phones, _PAUSES)].astype(np.float32) for e in native]
    return Articulation.learn(np.concatenate(speech))


def _importance(phone: str) -> float:
    if phone in {"sil", "pau", "cl"}:
        return 0.5
    return 1.0 if phone in VOWELS | DEVOICED else 1.7


class Disturbance:
    """Rooms, lines, noise and other vocal tracts on mel power, and errors of the f0 tracker."""

    def __init__(self, seed: int) -> None:
        self._random = torch.Generator().manual_seed(seed)
        hiss = np.random.default_rng(seed).standard_normal(60 * features.RATE).astype(np.float32)
        self._hiss = torch.from_numpy(np.exp(MelSpectrum().log_power(hiss, 5990)))
        self._hiss /= self._hiss.mean()

    def seed(self, seed: int) -> None:
        """Begin the random numbers anew, so that a step has the same ones after a break."""
        self._random.manual_seed(seed)

    def __call__(self, batch: Batch) -> Batch:
        """Disturb what is heard; what is wanted stays."""
        power = self._room(self.tract(batch.power))
        power = self._band(self._noise(power))
        power = power * torch.exp(self._curve(len(power), 0.3))[:, None]
        clean = self._sometimes(len(power), CLEAN_SHARE)[:, None, None]
        power = self._hide_context(torch.where(clean, batch.power, power))
        return Batch(
            power, self._other_melody(batch.f0),
            self.doubt(batch.voiced), batch.voiced, batch.cepstrum, batch.phones, batch.weight,
        )  # fmt: skip

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self._random)

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._random)

    def _sometimes(self, count: int, share: float) -> Tensor:
        return self._uniform(count) < share

    def _curve(self, count: int, spread: float) -> Tensor:
        """Smooth random curves over the bands, in nepers of power."""
        knots = self._normal(count, 1, 7) * spread
        return functional.interpolate(knots, features.BANDS, mode="linear", align_corners=True)[
            :, 0
        ]

    def tract(self, power: Tensor) -> Tensor:
        """Stretches the band axis by up to 13 % in three of five."""
        count = len(power)
        stretch = torch.exp((self._uniform(count, 1) - 0.5) * 0.26)
        stretch = torch.where(
            self._sometimes(count, 0.6)[:, None], stretch, torch.ones_like(stretch)
        )
        position = (torch.arange(features.BANDS) * stretch).clamp(0, features.BANDS - 1.001)
        below = position.long()
        share = (position - below)[:, None]
        index = below[:, None].expand(-1, power.shape[1], -1)
        return power.gather(2, index) * (1 - share) + power.gather(2, index + 1) * share

    def _room(self, power: Tensor) -> Tensor:
        """Adds the decaying tail of what was heard before, in one of four."""
        count, length = len(power), 40
        decay = torch.exp(-0.138 / (0.15 + 0.45 * self._uniform(count, 1)))
        kernel = decay ** torch.arange(length, 0, -1)
        strength = (
            10 ** (-1.9 + 1.2 * self._uniform(count, 1)) * self._sometimes(count, 0.25)[:, None]
        )
        signal = functional.pad(power.transpose(1, 2), (length, 0))[:, :, :-1]
        folded = signal.transpose(0, 1)
        tail = functional.conv1d(folded, (kernel * strength)[:, None], groups=count)
        return power + tail.permute(1, 2, 0)

    def _noise(self, power: Tensor) -> Tensor:
        """Coloured noise at 3 to 33 dB in more than half, another speaker at 8 to 25 dB in few."""
        count, span = power.shape[:2]
        level = power.mean(-1)
        loud = (level * level).sum(1) / level.sum(1).clamp_min(1e-9)
        start = int(torch.randint(len(self._hiss) - span * count, (1,), generator=self._random))
        hiss = self._hiss[start : start + span * count].reshape(count, span, -1)
        tilt = torch.linspace(2.5, -2.5, features.BANDS) * (self._uniform(count, 1) * 1.4 - 0.4)
        colour = torch.exp(self._curve(count, 0.6) + tilt)
        colour = colour / colour.mean(1, keepdim=True)
        decibels = 3 + 30 * self._uniform(count)
        amount = loud * 10 ** (-decibels / 10) * self._sometimes(count, 0.55)
        power = power + hiss * colour[:, None] * amount[:, None, None]
        other = power.roll(1, 0)
        others = (loud / loud.roll(1, 0)).clamp(max=1e4) * 10 ** (
            -(8 + 17 * self._uniform(count)) / 10
        )
        others = others * self._sometimes(count, 0.06)
        return power + other * others[:, None, None]

    def _band(self, power: Tensor) -> Tensor:
        """A telephone's or a cheap microphone's upper and lower edge in one of five."""
        count = len(power)
        band = torch.arange(features.BANDS)
        upper = 48 + 32 * self._uniform(count, 1)
        lower = 8 * self._uniform(count, 1)
        cut = torch.exp(-1.2 * ((band - upper).clamp(min=0) + (lower - band).clamp(min=0)))
        cut = torch.where(self._sometimes(count, 0.2)[:, None], cut, torch.ones_like(cut))
        return power * cut[:, None] + features.POWER_FLOOR

    def _hide_context(self, power: Tensor) -> Tensor:
        """Some recordings are short: the level and mean are then known from little speech."""
        count, span = power.shape[:2]
        hide = self._sometimes(count, 0.45)
        left = (self._uniform(count) * CONTEXT).long()
        right = span - (self._uniform(count) * CONTEXT).long()
        frame = torch.arange(span)
        outside = (frame < left[:, None]) | (frame >= right[:, None])
        mask = (outside & hide[:, None])[:, :, None]
        return torch.where(mask, torch.full_like(power, features.POWER_FLOOR), power)

    def _other_melody(self, f0: Tensor) -> Tensor:
        """Another contour than the target's: flatter or wider, smoother, and wandering.

        The target's own contour tells what she says: it dips in voiced consonants and falls where
        phrases end. A network that hears it learns to rely on it, and is lost with the contours of
        people, who speak otherwise.
        """
        count, frames = f0.shape
        log = torch.log(f0)
        middle = log.mean(1, keepdim=True)
        smooth = functional.avg_pool1d(
            functional.pad(log[:, None], (12, 12), mode="replicate"), 25, 1
        )[:, 0]
        kept = torch.where(self._sometimes(count, 0.6)[:, None], smooth, log) - middle
        knots = self._normal(count, 1, 6) * 0.16 * self._uniform(count, 1, 1)
        wander = functional.interpolate(knots, frames, mode="linear", align_corners=True)[:, 0]
        scale = 1.2 * self._uniform(count, 1)
        return torch.exp(middle + scale * kept + wander + 0.08 * self._normal(count, 1))

    def doubt(self, voiced: Tensor) -> Tensor:
        """Voicing as an erring tracker sees it: soft, late, flipped for a while, or unknown."""
        count, frames = voiced.shape
        soft = functional.avg_pool1d(
            functional.pad(voiced[:, None], (2, 2), mode="replicate"), 5, 1
        )[:, 0]
        seen = torch.where(self._sometimes(count, 0.5)[:, None], soft, voiced)
        seen = (
            seen * (0.75 + 0.25 * self._uniform(count, 1)) + 0.1 * self._uniform(count, 1)
        ).clamp(0, 1)
        flips = functional.max_pool1d((self._uniform(count, 1, frames) < 0.015).float(), 7, 1, 3)[
            :, 0
        ]
        flips = flips * self._sometimes(count, 0.6)[:, None]
        seen = seen * (1 - flips) + (1 - seen) * flips
        return torch.where(self._sometimes(count, 0.25)[:, None], torch.full_like(seen, 0.5), seen)
