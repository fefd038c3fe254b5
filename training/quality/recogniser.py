"""A phone recogniser of the target's voice: how many sounds would her listener get right?

It hears speech of the target alone, from random sentences with the durations of many
speakers. The times of the sounds are given, so every sound is judged by itself.
"""

import pickle
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from training.dataset import group_of
from training.features import BANDS, Floats, MelSpectrum
from training.network import HarmonicVoice
from training.phones import INVENTORY, PAUSE, PHONE_INDEX, SILENCE, VOWELS
from training.quality.synthesis import synthesise

CROP = 120


@dataclass(frozen=True)
class Score:
    """How many sounds, and how many vowels, were right of how many."""

    right: int = 0
    total: int = 0
    vowels_right: int = 0
    vowels: int = 0

    def __add__(self, other: "Score") -> "Score":
        return Score(
            self.right + other.right, self.total + other.total,
            self.vowels_right + other.vowels_right, self.vowels + other.vowels,
        )  # fmt: skip


def plain(phone: str) -> str:
    """Devoiced vowels count as their vowels, pauses as silence."""
    if phone == PAUSE:
        return SILENCE
    return phone.lower() if phone in set("AIUEO") else phone


class Recogniser(nn.Module):
    """Frame classifier: mel spectrum to phones, 0.3 s of context."""

    def __init__(self) -> None:
        super().__init__()
        widths = [BANDS, 128, 128, 128, 128]
        layers: list[nn.Module] = []
        for index, (before, after) in enumerate(pairwise(widths)):
            dilation = 1 + index
            layers += [
                nn.Conv1d(before, after, 5, padding=2 * dilation, dilation=dilation),
                nn.ReLU(),
                nn.Dropout(0.1),
            ]
        self.body = nn.Sequential(*layers, nn.Conv1d(128, len(INVENTORY), 1))

    def forward(self, mel: Tensor) -> Tensor:
        """Logits [batch, phones, frames] of normalised mel [batch, frames, bands]."""
        result: Tensor = self.body(mel.transpose(1, 2))
        return result


def normalised(log_power: Floats) -> Floats:
    """Level and mean spectrum removed, so that loudness and line do not matter."""
    power = np.exp(log_power)
    level = power.mean(1)
    loud = (level * level).sum() / max(level.sum(), 1e-12)
    log = np.log(power / max(loud, 1e-12) + 3e-4)
    speaking = level > loud * 0.01
    result: Floats = ((log - log[speaking].mean(0)) * 0.4).astype(np.float32)
    return result


class Listener:
    """Judges how well the sounds of a recording are to be told."""

    def __init__(self, recogniser: Recogniser) -> None:
        self._recogniser = recogniser.eval()
        self._mel = MelSpectrum()

    def judge(self, wave: Floats, phones: list[str], ends: NDArray[np.float64]) -> "Score":
        """Score of a 16 kHz recording whose sounds and their ends in seconds are known."""
        frames = len(wave) // 160
        mel = normalised(self._mel.log_power(wave, frames))
        with torch.no_grad():
            logs = functional.log_softmax(self._recogniser(torch.from_numpy(mel)[None]), 1)[0].T
        score = Score()
        for phone, start, end in zip(phones, [0.0, *ends[:-1]], ends, strict=True):
            wanted = plain(phone)
            if wanted in {SILENCE, "cl"}:
                continue
            first, last = int(start * 100), max(int(end * 100), int(start * 100) + 1)
            if last > frames:
                break
            heard = plain(INVENTORY[int(logs[first:last].sum(0).argmax())])
            right = int(heard == wanted)
            vowel = int(wanted in VOWELS)
            score += Score(right, 1, right * vowel, vowel)
        return score


def train(data: Path, file: Path, steps: int = 1800, limit: int = 500) -> Recogniser:
    """Trains on the target's side of the pairs that are Japanese; kept in a file."""
    recogniser = Recogniser()
    if file.exists():
        recogniser.load_state_dict(torch.load(file, weights_only=True))
        return recogniser
    torch.manual_seed(3)
    random = np.random.default_rng(3)
    spoken = list(_spoken(data, limit))
    optimiser = torch.optim.AdamW(recogniser.parameters(), 2e-3)
    for step in range(steps):
        chosen = [spoken[i] for i in random.integers(len(spoken), size=16)]
        starts = [int(random.integers(max(1, len(m) - CROP))) for m, _ in chosen]
        mels = np.stack([m[s : s + CROP] for (m, _), s in zip(chosen, starts, strict=True)])
        wanted = np.stack([p[s : s + CROP] for (_, p), s in zip(chosen, starts, strict=True)])
        logits = recogniser(torch.from_numpy(mels))
        loss = functional.cross_entropy(logits, torch.from_numpy(wanted))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for group in optimiser.param_groups:
            group["lr"] = 2e-3 * (1 - step / steps) + 1e-5
        optimiser.step()
        if step % 300 == 0:
            print(
                f"recogniser: step {step} of {steps}, loss {float(loss.detach()):.3f}", flush=True
            )
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(recogniser.state_dict(), file)
    return recogniser


def _spoken(data: Path, limit: int) -> list[tuple[Floats, NDArray[np.int64]]]:
    mel, voice = MelSpectrum(), HarmonicVoice()
    plain_index = np.array([PHONE_INDEX[plain(phone)] for phone in INVENTORY])
    result: list[tuple[Floats, NDArray[np.int64]]] = []
    for shard in sorted(data.glob("shard-*.pickle")):
        for example in pickle.loads(shard.read_bytes()):
            group = group_of(example.speaker)
            if (group == "mei" or group.endswith("/ja")) and len(example.log_f0) > CROP + 5:
                wave = synthesise(voice, example.cepstra, example.log_f0)
                heard = normalised(mel.log_power(wave, len(example.phones)))
                result.append((heard, plain_index[example.phones]))
            if len(result) >= limit:
                return result
    return result
