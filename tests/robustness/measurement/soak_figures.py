"""The figures of a soak, and its findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from infra.local.cloud.memory import ACKNOWLEDGING
from tools.benchmarks.report import Cell, Report, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.voices.voice import Voice

GROWTH_ALLOWED = 1.1
GROWTH_ALLOWED_BYTES = 16 << 20
"""Memory is flat if it has not grown by both this share and this many bytes."""

LONGEST_INTERRUPTION_SECONDS = 6.0
"""How long the voice of a killed container may wait for its end, in 95 of 100 cases."""

MOST_REFUSED = 0.005
"""The share of pushes that may be refused where nothing is killed: Pub/Sub slows down with more."""

ENDS = 5
"""How many samples count as the start and as the end: a single one may be a peak."""

MB = 1_000_000


@dataclass
class Visit:
    """One voice of the load.

    Attributes:
        voice_id: the voice; None until it was created.
        wait_seconds: from the upload to the end, None if there was none.
        voice: as it ended, None if it did not.
    """

    voice_id: str | None = None
    wait_seconds: float | None = None
    voice: Voice | None = None
    is_settled: bool = False
    results: Sequence[str] = ()

    @property
    def is_doubled(self) -> bool:
        """Whether it ended with anything but exactly the one result that it names, or none."""
        if self.voice is None:
            return False
        own = [self.voice.result.object] if self.voice.result else []
        return list(self.results) != own


def percentile(values: Sequence[float], rank: float) -> float:
    return float(np.percentile(values or [0.0], rank))


@dataclass
class Figures:
    """What was counted.

    Attributes:
        kills: how many containers were killed; None if none was to be.
        memory: resident bytes of each process that lived from beginning to end, sample by sample.
        pushes: the answers to all deliveries.
    """

    visits: Sequence[Visit]
    kills: int | None
    memory: Mapping[str, Sequence[int]] = field(default_factory=dict)
    false_takeovers: int = 0
    pushes: Sequence[int | None] = ()

    @property
    def refused(self) -> int:
        return sum(status not in ACKNOWLEDGING for status in self.pushes)

    @property
    def interrupted(self) -> list[float]:
        """How long the voices waited whose first container was killed, in seconds."""
        return [
            visit.wait_seconds
            for visit in self.visits
            if visit.voice and visit.voice.attempt > 1 and visit.wait_seconds is not None
        ]

    @property
    def lost(self) -> int:
        return sum(visit.voice is None for visit in self.visits)

    @property
    def doubled(self) -> int:
        return sum(visit.is_doubled for visit in self.visits)

    @property
    def unsettled(self) -> int:
        return sum(not visit.is_settled for visit in self.visits if visit.voice is not None)

    @property
    def failed(self) -> Counter[str]:
        ended = (visit.voice for visit in self.visits if visit.voice is not None)
        return Counter(voice.error.code.value for voice in ended if voice.error is not None)

    def complaints(self) -> list[str]:
        said = [
            (self.lost, "voices are lost"),
            (self.doubled, "voices have not exactly their one result"),
            (self.unsettled, "voices have messages that nobody has acknowledged"),
            (sum(self.failed.values()), "voices have failed"),
            (self.false_takeovers, "voices were taken from workers that lived"),
        ]
        complaints = [f"{number} {what}" for number, what in said if number]
        if (slow := percentile(self.interrupted, 95)) > LONGEST_INTERRUPTION_SECONDS:
            complaints.append(f"interrupted voices waited for {slow:.1f} s (p95)")
        complaints += [
            f"the memory of {name} has grown from {start / MB:.0f} to {end / MB:.0f} MB"
            for name, (start, end) in self.memory_ends().items()
            if end > start * GROWTH_ALLOWED and end > start + GROWTH_ALLOWED_BYTES
        ]
        if self.kills is None and self.refused > MOST_REFUSED * len(self.pushes):
            complaints.append(f"{self.refused} of {len(self.pushes)} pushes were refused")
        # A run without voices or kills proves nothing.
        if not self.visits or self.kills == 0 or not self.memory:
            complaints.append("there was no load, no kill, or nothing whose memory was measured")
        return complaints

    def memory_ends(self) -> dict[str, tuple[float, float]]:
        """Return each process's resident bytes at start and end: medians of some samples."""
        return {
            name: (median(samples[:ENDS]), median(samples[-ENDS:]))
            for name, samples in self.memory.items()
        }

    def report(self) -> Report:
        ended = [visit.voice for visit in self.visits if visit.voice is not None]
        waits = [visit.wait_seconds for visit in self.visits if visit.wait_seconds is not None]
        codes = ", ".join(f"{code} {number}" for code, number in sorted(self.failed.items()))
        rows: tuple[tuple[str, Cell], ...] = (
            ("voices", len(self.visits)),
            ("done", sum(voice.result is not None for voice in ended)),
            ("failed, by code", codes or "none"),
            ("lost", self.lost),
            ("doubled", self.doubled),
            ("with messages not acknowledged", self.unsettled),
            ("pushes", len(self.pushes)),
            ("pushes refused", self.refused),
            ("containers killed in the middle of a conversion", self.kills or 0),
            ("voices taken over by another container", sum(v.attempt > 1 for v in ended)),
            ("taken from a worker that lived", self.false_takeovers),
            ("wait from upload to end, p50 (s)", percentile(waits, 50)),
            ("wait, p95 (s)", percentile(waits, 95)),
            ("wait, p99 (s)", percentile(waits, 99)),
        )
        if self.kills is not None:
            rows += tuple(
                (f"wait of interrupted voices, p{rank} (s)", percentile(self.interrupted, rank))
                for rank in (50, 95)
            )
        memory = tuple(
            (name, round(start / MB), round(end / MB))
            for name, (start, end) in self.memory_ends().items()
        )
        columns = ("process that lives on", "at start", "at end")
        return Report(
            "soak without kills" if self.kills is None else "soak",
            (
                Table("What became of the voices", ("what", "figure"), rows),
                Table("Resident memory (MB), with child processes", columns, memory),
            ),
        )
