"""Trains the network on what was generated, with checkpoints; can be stopped and resumed."""

import copy
import math
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from torch import Tensor, multiprocessing, nn
from torch.nn import functional

from training import perception
from training.dataset import CONTEXT, CROP, Batch, Dataset, Disturbance
from training.network import VOICING_SHARPNESS, Network
from training.parallel_training import STEPS_BETWEEN, Meeting
from training.perception import Perception

NEPERS_TO_DECIBELS = 20 / math.log(10)


@dataclass(frozen=True)
class Plan:
    """How long and how fast.

    Attributes:
        minutes: wall-clock of the whole training, resumed parts included.
        batch: crops of 1.6 s per step.
        rate: peak learning rate; flat, then falling along a cosine from `flat` on.
        processes: that train together; each makes steps of its own.
        threads: of PyTorch, in each process.
        perception_steps: of the recogniser that the loss uses.
    """

    minutes: float
    batch: int = 8
    rate: float = 1.2e-3
    flat: float = 0.4
    processes: int = 2
    threads: int = 1
    report_every: int = 100
    save_every: int = 400
    perception_steps: int = 1500


@dataclass(frozen=True)
class Losses:
    """Of one step; `spectrum` is the mean distance of log envelopes in decibels."""

    total: Tensor
    spectrum: float
    perceived: float
    voicing: float
    phones: float

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Of the parts."""
        return "spectrum", "perceived", "voicing", "phones"


class Objective(nn.Module):
    """How far envelopes, their changes, what is heard in them, voicing and phones are off."""

    def __init__(self, perception: Perception) -> None:
        super().__init__()
        self.perception = perception

    def forward(self, network: Network, batch: Batch) -> Losses:
        """Losses of a network on a batch."""
        mel = network.normalise(batch.power)[:, CONTEXT : CONTEXT + CROP]
        content = network.hear(mel)
        cepstrum, logit = network.speak(content, batch.f0, batch.voicing)
        error = (cepstrum - batch.cepstrum) @ self.perception.axis
        total_weight = batch.weight.sum()
        spectrum = (size_of(error) * batch.weight).sum() / total_weight
        change = size_of(error[:, 1:] - error[:, :-1])
        changes = (change * batch.weight[:, 1:]).sum() / total_weight
        voicing = functional.binary_cross_entropy_with_logits(logit, batch.voiced, batch.weight)
        spoken = functional.cross_entropy(network.phones(content), batch.phones, reduction="none")
        phones = (spoken * batch.weight).sum() / total_weight
        perceived = self._perceived(cepstrum, torch.sigmoid(VOICING_SHARPNESS * logit), batch)
        total = spectrum + 0.35 * changes + 0.5 * perceived + 0.15 * voicing + 0.15 * phones
        return Losses(
            total,
            float(spectrum.detach()) * NEPERS_TO_DECIBELS,
            *(float(part.detach()) for part in (perceived, voicing, phones)),
        )

    def _perceived(self, cepstrum: Tensor, voiced: Tensor, batch: Batch) -> Tensor:
        with torch.no_grad():
            wanted = self.perception.hear(batch.cepstrum, batch.voiced)
        found = self.perception.hear(cepstrum, voiced)
        return self.perception.distance(found, wanted, batch.weight)


def size_of(error: Tensor) -> Tensor:
    """Root mean square over the last axis; an error of 0 has a gradient, too."""
    return torch.sqrt((error * error).mean(-1) + 1e-6)


class Trainer:
    """One training run in a folder: ``checkpoint.pt`` is replaced as it goes on."""

    def __init__(self, data: Path, folder: Path, plan: Plan, seed: int = 1) -> None:
        torch.set_num_threads(plan.threads)
        torch.manual_seed(seed)
        folder.mkdir(parents=True, exist_ok=True)
        self._plan, self._file = plan, folder / "checkpoint.pt"
        self._data = Dataset(data, seed)
        self._disturb = Disturbance(seed)
        self.network = Network()
        self._average = copy.deepcopy(self.network)
        self._optimiser = torch.optim.AdamW(
            self.network.parameters(), plan.rate, betas=(0.9, 0.98), weight_decay=1e-3, fused=True
        )
        self._step, self._spent = 0, 0.0
        if self._file.exists():
            self._objective = Objective(Perception())
            self._resume()
        else:
            self._objective = Objective(perception.train(self._data, plan.perception_steps))
            self._measure()
            self._save()

    def _measure(self) -> None:
        """Fixes the scales of the network's input and output from the data."""
        mean, spread = (torch.from_numpy(part) for part in self._data.statistics())
        heard = []
        for _ in range(12):
            power = self._data.batch(16).power
            with torch.no_grad():
                self.network.mel_mean.zero_()
                level = power.mean(-1)
                loud = (level * level).sum(1) / level.sum(1)
                log = torch.log(power / loud[:, None, None] + 3e-4)
                weight = torch.sigmoid((torch.log(torch.exp(log).mean(-1)) + 4) * 1.5)[..., None]
                heard.append((weight * log).sum((0, 1)) / weight.sum((0, 1)))
        for network in (self.network, self._average):
            network.cepstrum_mean.copy_(mean)
            network.cepstrum_spread.copy_(spread)
            network.mel_mean.copy_(torch.stack(heard).mean(0))
            nn.init.normal_(network.exit.weight, std=0.02)
            nn.init.zeros_(network.exit.bias)
        self._average.load_state_dict(self.network.state_dict())

    def _resume(self) -> None:
        saved = torch.load(self._file, weights_only=True)
        self.network.load_state_dict(saved["network"])
        self._average.load_state_dict(saved["average"])
        self._objective.load_state_dict(saved["objective"])
        self._objective.requires_grad_(requires_grad=False)
        self._optimiser.load_state_dict(saved["optimiser"])
        self._step, self._spent = saved["step"], saved["spent"]
        print(f"resumed at step {self._step}", flush=True)

    def _save(self) -> None:
        partial = self._file.with_suffix(".partial")
        state = {
            "network": self.network.state_dict(), "average": self._average.state_dict(),
            "objective": self._objective.state_dict(),
            "optimiser": self._optimiser.state_dict(), "step": self._step, "spent": self._spent,
        }  # fmt: skip
        torch.save(state, partial)
        partial.rename(self._file)

    def run(self) -> Network:
        """Trains until the plan's minutes are spent; the averaged network."""
        meeting = Meeting.open(self.network, self._plan.processes)
        companions = self._invite(meeting)
        try:
            return self._lead(meeting)
        finally:
            for companion in companions:
                companion.kill()

    def _invite(self, meeting: Meeting) -> list[BaseProcess]:
        """Starts the other processes, which go on from the same checkpoint."""
        context = multiprocessing.get_context("spawn")
        plan, folder = self._plan, self._file.parent
        companions = [
            context.Process(
                target=accompany,
                args=(self._data.folder, folder, plan, Meeting(meeting.shelf, seat)),
                daemon=True,
            )
            for seat in range(1, plan.processes)
        ]
        for companion in companions:
            companion.start()
        return companions

    def accompany(self, meeting: Meeting) -> None:
        """Trains beside the leader for as long as it lives; it alone saves and reports."""
        began = time.monotonic() - self._spent
        while True:
            self._go_on(meeting, began)
            if self._step % self._plan.save_every == 0:
                self._data.refresh()

    def _lead(self, meeting: Meeting) -> Network:
        began = time.monotonic() - self._spent
        print(f"lags {self._data.lags}, {len(self._data.held_out)} held out", flush=True)
        recent: list[Losses] = []
        while self._spent < self._plan.minutes * 60:
            recent.append(self._go_on(meeting, began))
            if self._step % self._plan.report_every == 0:
                self._report(recent)
                recent = []
            if self._step % self._plan.save_every == 0:
                self._save()
                seconds = self._data.refresh()
                print(
                    f"  {seconds / 60:.0f} min of pairs; held out: {self._validate()}", flush=True
                )
        self._save()
        print(f"done after {self._step} steps; held out: {self._validate()}", flush=True)
        return self._average

    def _go_on(self, meeting: Meeting, began: float) -> Losses:
        """Makes a step of a training that began, or would have without a break, at that time."""
        losses = self._train_once()
        self._spent = time.monotonic() - began
        if self._step % STEPS_BETWEEN == 0:
            meeting.attend(self.network)
        return losses

    def _train_once(self) -> Losses:
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate()
        losses: Losses = self._objective(
            self.network, self._disturb(self._data.batch(self._plan.batch))
        )
        self._optimiser.zero_grad(set_to_none=True)
        losses.total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self._optimiser.step()
        self._step += 1
        keep = min(0.9985, (1 + self._step) / (10 + self._step))
        with torch.no_grad():
            pairs = zip(self._average.parameters(), self.network.parameters(), strict=True)
            for average, current in pairs:
                average.lerp_(current, 1 - keep)
        return losses

    def _rate(self) -> float:
        share = self._spent / (self._plan.minutes * 60)
        warm = min(1.0, (self._step + 1) / 200)
        if share < self._plan.flat:
            return self._plan.rate * warm
        fall = (share - self._plan.flat) / (1 - self._plan.flat)
        return self._plan.rate * warm * (0.5 * (1 + math.cos(math.pi * min(fall, 1.0))) + 0.005)

    def _report(self, recent: list[Losses]) -> None:
        count = len(recent)
        means = {n: sum(getattr(x, n) for x in recent) / count for n in Losses.names()}
        parts = " ".join(f"{name} {mean:.3f}" for name, mean in means.items())
        done = self._spent / (self._plan.minutes * 60)
        print(
            f"{done:4.0%} step {self._step} {self._step / max(self._spent, 1e-3):.2f}/s "
            f"{parts} rate {self._rate():.1e}",
            flush=True,
        )

    def _validate(self) -> str:
        self._average.eval()
        with torch.no_grad():
            losses = [self._objective(self._average, b) for b in self._data.validation()]
        return ", ".join(
            f"{n} {sum(getattr(x, n) for x in losses) / len(losses):.3f}" for n in Losses.names()
        )


def accompany(data: Path, folder: Path, plan: Plan, meeting: Meeting) -> None:
    """One more process of a training: resumes the folder's checkpoint with a seed of its own."""
    Trainer(data, folder, plan, seed=1 + meeting.seat).accompany(meeting)
