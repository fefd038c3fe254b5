"""What a thousand conversions and a day cost: measured CPU seconds times prices.

CPU seconds are those of all processes that work on a conversion, from the recording's bytes to the
result's. Unlike the elapsed time, they do not depend on other programs. The number of
documents that a voice reads and writes comes from the last report of the benchmark pipeline.
"""

from __future__ import annotations

import asyncio
import resource
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from infra.local.commands.demo import SAMPLE
from shared.conversion.characters import build_characters
from shared.conversion.stages import Conversion
from shared.speech.decoding.decoder import Decoder
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.graphs.sessions import SessionSettings
from shared.voices.media import CONTENT_TYPES, sniff
from shared.voices.voice import Input, Options, OutputFormat, Status, Voice, new_voice_id
from tools.benchmarks.report import Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ports import Bucket
    from tools.benchmarks.report import BenchmarkOptions, Cell


ROOT: Final = Path(__file__).parents[2]
CHARACTERS: Final = ROOT / "characters"
COUNTED: Final = ROOT / "tools/benchmarks/results/pipeline.json"
FORMATS: Final = (OutputFormat.WAV, OutputFormat.M4A)
ROUNDS: Final = 20
QUICK_ROUNDS: Final = 5
SECONDS_OF_A_DAY: Final = 86_400

_WRITES: Final = "Firestore documents written"
_READS: Final = (
    "Firestore documents read by the service",
    "Firestore documents read by the visitor's listener",
)


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for us-central1, looked up on 21 November 2026 in archived copies of the pages.

    Cloud Run with request-based billing: https://cloud.google.com/run/pricing
    Firestore: https://cloud.google.com/firestore/pricing
    Cloud Storage: https://cloud.google.com/storage/pricing-examples
    Cloud Scheduler: https://cloud.google.com/scheduler/pricing
    """

    cpu_second: float = 0.000_024
    gib_second: float = 0.000_002_5
    idle_cpu_second: float = 0.000_002_5
    idle_gib_second: float = 0.000_002_5
    request: float = 0.4 / 1e6
    document_read: float = 0.03 / 1e5
    document_write: float = 0.09 / 1e5
    document_expiry: float = 0.01 / 1e5
    object_write: float = 0.005 / 1e3
    object_read: float = 0.0004 / 1e3
    gib_to_the_internet: float = 0.12
    scheduler_job_day: float = 0.1 / 31


@dataclass(frozen=True, slots=True)
class ConversionUsage:
    """What one conversion uses beside CPU seconds, and what a day without conversions uses.

    Attributes:
        function_seconds: of the functions api and on_upload together, each with one CPU and
            half a GiB.
        sweeps: per day; each is a request.
        sweep_seconds: of the function sweep, with one CPU and half a GiB, when it finds nothing.
    """

    document_reads: float
    document_writes: float
    cpus: float = 2
    gib: float = 1
    waiting_seconds: float = 0.3
    function_seconds: float = 0.3
    requests: int = 4
    object_writes: int = 4
    object_reads: int = 2
    sweeps: int = 288
    sweep_seconds: float = 0.5
    sweep_reads: int = 3


def read_usage(counted: Path = COUNTED) -> ConversionUsage:
    """Compute the use of a conversion, with the documents that the benchmark pipeline has counted.

    Raises:
        ValueError: it is not a report of that benchmark.
    """
    report = Report.load(counted)
    figures = {str(row[0]): row[-1] for table in report.tables for row in table.rows}
    try:
        reads = sum(float(figures[name] or 0) for name in _READS)
        return ConversionUsage(document_reads=reads, document_writes=float(figures[_WRITES] or 0))
    except KeyError as missing:
        raise ValueError(
            f"{counted} does not contain {missing}; run the benchmark pipeline again"
        ) from missing


@dataclass(frozen=True, slots=True)
class Measurement:
    """One conversion: CPU seconds, seconds of the recording, bytes of the result."""

    cpu_seconds: float
    seconds: float
    bytes: int


class _Shelf:
    """Stands in for both buckets: returns the recording, drops results, signs nothing."""

    name = "a-bucket"

    def __init__(self, recording: bytes) -> None:
        self._recording = recording

    async def read(self, *_name_and_generation: object, **_limits: object) -> bytes:
        return self._recording

    async def write(self, _name: str, _content: BinaryIO, **_facts: object) -> None:
        return

    async def sign_download(self, _name: str, **_terms: object) -> tuple[str, datetime]:
        return "https://storage.example.com", datetime.now(UTC)


def measure(recording: bytes, output_format: OutputFormat, rounds: int) -> Measurement:
    """Convert a recording `rounds` times and return the mean of one conversion."""
    few, _ = _used(recording, output_format, 1)
    many, (seconds, size) = _used(recording, output_format, 1 + rounds)
    return Measurement((many - few) / rounds, seconds, size)


def _used(
    recording: bytes, output_format: OutputFormat, rounds: int
) -> tuple[float, tuple[float, int]]:
    begin = _cpu_seconds()
    facts = asyncio.run(_convert(recording, output_format, rounds))
    return _cpu_seconds() - begin, facts


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of every process it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


async def _convert(recording: bytes, output_format: OutputFormat, rounds: int) -> tuple[float, int]:
    shelf = cast("Bucket", _Shelf(recording))
    characters = build_characters(CHARACTERS, SessionSettings())
    async with Decoder(max_processes=1) as decoder:
        conversion = Conversion(
            uploads=shelf,
            results=shelf,
            decoder=decoder,
            max_speech_seconds=60.0,
            limits=DecodeLimits(min_seconds=1, max_seconds=60, max_bytes=100_000_000),
            result_lifetime=timedelta(hours=1),
        )
        name, character = next(iter(characters.items()))
        voice = _voice(recording, output_format, name)
        for _ in range(rounds):
            outcome = await conversion.run(voice, character, lambda _stage: None)
    return outcome.seconds or 0.0, outcome.result.bytes


def _voice(recording: bytes, output_format: OutputFormat, character: str) -> Voice:
    container = sniff(recording)
    if container is None:
        raise ValueError("this is not a recording in a format that can be converted")
    now, content_type = datetime.now(UTC), CONTENT_TYPES[container][0]
    return Voice(
        voice_id=new_voice_id(),
        character=character,
        created_at=now,
        updated_at=now,
        expire_at=now,
        status=Status.CONVERTING,
        options=Options(output_format=output_format, content_type=content_type),
        input=Input("a-bucket", "a-recording", 1, content_type, len(recording)),
        attempt=1,
    )


def conversion_dollars(
    measured: Measurement, usage: ConversionUsage, prices: Prices
) -> dict[str, float]:
    """Return the cost of one conversion by kind, when it has its instance to itself."""
    billed = measured.cpu_seconds + usage.waiting_seconds
    return {
        "conversion container": billed
        * (usage.cpus * prices.cpu_second + usage.gib * prices.gib_second),
        "functions": usage.function_seconds * _function_second_dollars(prices),
        "requests": usage.requests * prices.request,
        "Firestore": usage.document_reads * prices.document_read
        + usage.document_writes * prices.document_write
        + prices.document_expiry,
        "Cloud Storage": usage.object_writes * prices.object_write
        + usage.object_reads * prices.object_read,
        "result to the visitor": measured.bytes / 2**30 * prices.gib_to_the_internet,
    }


def warm_day_dollars(usage: ConversionUsage, prices: Prices) -> float:
    """Compute the cost of one idle instance of the conversion container for a day."""
    idle = usage.cpus * prices.idle_cpu_second + usage.gib * prices.idle_gib_second
    return idle * SECONDS_OF_A_DAY


def sweep_day_dollars(usage: ConversionUsage, prices: Prices) -> float:
    """Return the cost of a day of sweeps that find nothing."""
    one = (
        usage.sweep_seconds * _function_second_dollars(prices)
        + usage.sweep_reads * prices.document_read
        + prices.request
    )
    return usage.sweeps * one + prices.scheduler_job_day


def _function_second_dollars(prices: Prices) -> float:
    return prices.cpu_second + 0.5 * prices.gib_second


def make_report(measured: Sequence[Measurement], usage: ConversionUsage, prices: Prices) -> Report:
    """Return the report: a measurement for each of `FORMATS`, and days without visitors."""
    columns = [conversion_dollars(one, usage, prices) for one in measured]
    rows: list[tuple[Cell, ...]] = [
        (kind, *(1000 * column[kind] for column in columns)) for kind in columns[0]
    ]
    rows.append(("**together**", *(1000 * sum(column.values()) for column in columns)))
    rows.append(("CPU seconds of one", *(one.cpu_seconds for one in measured)))
    facts: dict[str, Cell] = {
        "seconds of the recording": measured[0].seconds,
        "Firestore documents that a voice writes": usage.document_writes,
        "documents that it reads": usage.document_reads,
        "a warm instance-day of the converter, US$": warm_day_dollars(usage, prices),
        "a day of sweeps, US$": sweep_day_dollars(usage, prices),
    }
    table = Table("1000 conversions, US$", ("for", *map(str, FORMATS)), tuple(rows))
    return Report("cost", (table,), facts)


def run(options: BenchmarkOptions) -> Report:
    """Measure conversions of the sample recording and return what they cost."""
    recording, rounds = SAMPLE.read_bytes(), QUICK_ROUNDS if options.quick else ROUNDS
    measured = [measure(recording, output_format, rounds) for output_format in FORMATS]
    return make_report(measured, read_usage(), Prices())


_RENEW_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class JobPrices:
    """US dollars for us-central1, from the pages of `Prices`; a job is billed while it runs."""

    cpu_second: float = 0.000_018
    gib_second: float = 0.000_002
    gib_month: float = 0.02


@dataclass(frozen=True, slots=True)
class TrainingUsage:
    """What one character uses.

    Attributes:
        seconds: of the training by the clock, on two CPUs, with 3:21 minutes of speech.
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


def training_dollars(used: TrainingUsage, prices: Prices, job: JobPrices) -> dict[str, float]:
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
