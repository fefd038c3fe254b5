"""What one character of a visitor's own voice costs to make, and to keep for a month.

The seconds of the training were measured in the local cloud with the page (docs/own-characters.md);
what it asks of Firestore and Cloud Storage follows from the code and is counted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from benchmarks.cost.run import Prices

_RENEW_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class JobPrices:
    """US dollars for us-central1, from the pages of `Prices`; a job is billed while it runs."""

    cpu_second: float = 0.000_018
    gib_second: float = 0.000_002
    gib_month: float = 0.02


@dataclass(frozen=True, slots=True)
class Training:
    """What one character uses.

    Attributes:
        seconds: of the training by the clock, on two CPUs, with 3:21 minutes of speech.
        start_seconds: until the job's container trains, and after it; assumed.
        recordings: sentences and the spoken consent.
        checkpoints: objects that the stages keep on the way.
        bundle_bytes: the character's own graphs, without the encoders that all share.
        request_seconds: of the api, for each request of the page.
        cpus: of the job.
        gib: of its memory.
    """

    seconds: float = 137
    start_seconds: float = 30
    recordings: int = 61
    checkpoints: int = 12
    bundle_bytes: int = 3_720_000
    request_seconds: float = 0.1
    cpus: int = 2
    gib: int = 4

    @property
    def requests(self) -> int:
        """Of the page: one for each recording, and one for each other step."""
        return self.recordings + 10


def training_dollars(used: Training, prices: Prices, job: JobPrices) -> dict[str, float]:
    """Return what one character costs, by kind; the last one is for a month of keeping it."""
    billed = used.seconds + used.start_seconds
    renewals = billed / _RENEW_SECONDS
    # Its document and the one that its owner listens to: begun, asked for, leased, six stages,
    # ready, cleaned, and each renewal; the day's number besides.
    writes = 1 + 2 * (11 + renewals)
    reads = used.requests + renewals + 20
    # Each request of the page lists what has come, which costs as much as a write.
    lists_and_writes = used.recordings + used.checkpoints + used.requests + 10
    return {
        "job": billed * (used.cpus * job.cpu_second + used.gib * job.gib_second),
        "api": used.requests
        * (prices.request + used.request_seconds * (prices.cpu_second + 0.5 * prices.gib_second)),
        "Firestore": writes * prices.document_write + reads * prices.document_read,
        "Cloud Storage": lists_and_writes * prices.object_write
        + 2 * used.recordings * prices.object_read,
        "a month of the bundle": used.bundle_bytes / 2**30 * job.gib_month,
    }
