"""The page's table of sizes: 1 to 10 000 voices a second, each in its own minutes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from capacity.choice.summary import summarise
from capacity.model.arrivals import Crowd
from capacity.model.parameters import Duration, read_parameters
from capacity.model.running import Runner, shown
from capacity.model.settings import Instances, Quota, Settings
from capacity.report import tables
from capacity.report.page import with_part

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from capacity.choice.summary import Summary
    from capacity.model.parameters import Parameters
    from capacity.report.tables import Table

RATES: Final = (1, 10, 100, 1_000, 10_000)
"""Voices a second."""

MINUTES: Final = {1: 60.0, 10: 30.0, 100: 15.0, 1_000: 10.0, 10_000: 5.0}
MOST: Final = 20_000
"""More instances than any of them needs: what is needed is asked for, not what is allowed."""

SECONDS_OF_A_MONTH: Final = 30 * 86_400.0


def write_sizes(console: Console, page: Path, seed: int) -> None:
    """Simulate every size, print the tables and bring them into the page."""
    parameters = read_parameters().replaced(
        {"visitor.leaving": Duration(0.0), "cloud_run.region_cpus": Duration(float("inf"))}
    )
    found = {}
    with shown(console) as watcher:
        for rate in RATES:
            crowd = Crowd(peak=float(rate), minutes=MINUTES[rate])
            arrivals = crowd.arrivals(parameters, np.random.default_rng(seed))
            runner = Runner(parameters, watcher, seed)
            (found[rate],) = runner.run([_settings(parameters, rate)], arrivals, summarise)
    limits = _limits(parameters, found)
    parts = (sizes(found, limits), calls(parameters), bounds(limits))
    for part in parts:
        console.print(part.rich())
    page.write_text(
        with_part(page.read_text(), "sizes", "\n\n".join(each.markdown() for each in parts))
    )


def _settings(parameters: Parameters, rate: int) -> Settings:
    """Return a deployment whose instances are there already: a steady state is looked at."""
    busy = parameters["processor.converter"]
    convert = round(rate * busy / (2 * parameters["cloud_run.cpu_target"])) + 1
    api = round(rate * parameters["processor.api"] / parameters["cloud_run.cpu_target"]) + 1
    return Settings(
        minimum=Instances(api, api, convert),
        maximum=Instances(MOST, MOST, MOST),
        lifted=frozenset(Quota),
    )


def sizes(found: dict[int, Summary], limits: Sequence[Limit]) -> Table:
    """Return instances, wait and cost of each size."""
    rows = []
    for rate, summary in found.items():
        most = summary.most_instances
        month = summary.bill.together * SECONDS_OF_A_MONTH / summary.seconds
        met = [limit for limit in limits if limit.voices <= rate]
        rows.append(
            (
                f"{rate:,}",
                f"{most.api:,} / {most.on_upload:,} / {most.convert:,}",
                f"{2 * most.convert + most.api + most.on_upload:,}",
                tables.seconds(summary.waits[50]),
                tables.seconds(summary.waits[95]),
                f"{month:,.0f}",
                f"{met[0].name} ({met[0].voices:,.0f})" if met else "none",
            )
        )
    columns = (
        "voices a second",
        "instances of api / on_upload / convert",
        "vCPU",
        "wait p50, s",
        "wait p95, s",
        "US$ a month at this rate",
        "default quota that is met first (at voices a second)",
    )
    return tables.Table("Sizes, no quota binding", columns, tuple(rows))


@dataclass(frozen=True, slots=True)
class Limit:
    """A quota by default.

    Attributes:
        name: of the quota.
        voices: voices a second at which it is met.
        remedy: whether it can be raised, or what else helps.
    """

    name: str
    voices: float
    remedy: str


def _limits(parameters: Parameters, found: dict[int, Summary]) -> list[Limit]:
    """Return the quotas in the order in which a growing service meets them."""
    written = parameters["voice.documents_written"]
    rate, most = RATES[2], found[RATES[2]].most_instances
    cpus = (2 * most.convert + most.api + most.on_upload) / rate
    limits = (
        Limit(
            "vCPU of a new project in a region",
            parameters["cloud_run.new_project_cpus"] / cpus,
            "yes: `quota`",
        ),
        Limit(
            "Firestore writes under the sweep's index",
            parameters["quota.firestore_index"] * parameters["deployed.index_parts"] / written,
            "no: `SHARDS`, up to 30",
        ),
        Limit(
            "Firestore's ramp from a cold start",
            parameters["quota.firestore_ramp"] * parameters["deployed.collections"] / written,
            "passes: half as much again every five minutes",
        ),
        Limit(
            "signBlob calls, two a voice",
            parameters["quota.sign_blob"] / 60.0 / 2.0,
            'yes; none at all with `signing = "hmac"`',
        ),
        Limit(
            "writes to the bucket uploads from a cold start, two a voice",
            parameters["quota.storage_writes"] / 2.0,
            "`upload_shards`, by so many times; and passes: twice as much every twenty minutes",
        ),
        Limit(
            "reads of one bucket from a cold start",
            parameters["quota.storage_reads"],
            "`upload_shards`; and passes: twice as much every twenty minutes",
        ),
    )
    return sorted(limits, key=lambda limit: limit.voices)


def calls(parameters: Parameters) -> Table:
    """Return the calls a second to each service of Google's."""
    a_voice = (
        ("Cloud Run requests (api, warm-up at most, on_upload, convert)", 4.0),
        ("Firestore documents written", parameters["voice.documents_written"]),
        ("Firestore documents read by the services", parameters["voice.documents_read"]),
        ("Firestore documents sent to listeners", parameters["voice.documents_listened"]),
        ("signBlob", 2.0),
        ("Cloud Storage writes, two buckets together", 3.0),
        ("Cloud Storage reads, two buckets together", 2.0),
        ("Pub/Sub messages", parameters["voice.messages"]),
    )
    rows = tuple((name, *(f"{count * rate:,.0f}" for rate in RATES)) for name, count in a_voice)
    columns = ("calls a second at", *(f"{rate:,} voices/s" for rate in RATES))
    return tables.Table("Calls a second", columns, rows)


def bounds(limits: Sequence[Limit]) -> Table:
    """Return the quotas in the order in which a growing service meets them."""
    rows = tuple((limit.name, f"{limit.voices:,.0f}", limit.remedy) for limit in limits)
    columns = ("quota, by default", "met at voices a second", "can it be raised")
    return tables.Table("Quotas in the order in which they are met", columns, rows)
