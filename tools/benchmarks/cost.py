"""Computes the cost of a thousand conversions, of a day and of an own character.

CPU seconds are those of all processes that work on a conversion, from the recording's bytes to the
result's. Unlike the elapsed time, they do not depend on other programs. The documents that a voice
reads and writes are counted by the benchmark pipeline.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from infra.local.commands.demo import SAMPLE
from infra.local.configuration.options import ROOT
from shared.conversion.characters import build_characters
from shared.conversion.stages import Conversion
from shared.ports import Bucket
from shared.speech.decoding.decoder import Decoder
from shared.speech.decoding.recording import DecodeLimits
from shared.speech.graphs.sessions import SessionSettings
from shared.voices.media import CONTENT_TYPES, sniff
from shared.voices.objects import ObjectFacts
from shared.voices.voice import Input, Options, OutputFormat, Status, Voice, new_voice_id
from tools.benchmarks.report import Cell, Report, Table

COUNTED: Final = Path(__file__).parent / "results" / "pipeline.json"
FORMATS: Final = (OutputFormat.WAV, OutputFormat.M4A)
SECONDS_OF_A_DAY: Final = 86_400
VOICES_A_DAY: Final = (1000, 100_000, 1_000_000)

_WRITES: Final = "Firestore documents written"
_READS: Final = (
    "Firestore documents read by the service",
    "Firestore documents read by the visitor's listener",
)
_RENEW_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for us-central1, looked up on 21 November 2026 in archived copies of the pages.

    Cloud Run with request-based billing: https://cloud.google.com/run/pricing
    Firestore: https://cloud.google.com/firestore/pricing
    Cloud Storage: https://cloud.google.com/storage/pricing-examples
    Cloud Scheduler: https://cloud.google.com/scheduler/pricing
    Logging and alerts: https://cloud.google.com/stackdriver/pricing; Google names a price for
    conditions on metrics and has postponed its start several times
    Pub/Sub: https://cloud.google.com/pubsub/pricing
    Load balancer: https://cloud.google.com/load-balancing/pricing
    Cloud Armor: https://cloud.google.com/armor/pricing
    reCAPTCHA: https://cloud.google.com/recaptcha/docs/billing-information
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
    logged_gib: float = 0.5
    logged_gib_free: float = 50
    message_gib: float = 40 / 1024
    message_gib_free: float = 10
    alert_condition_month: float = 1.5
    load_balancer_month: float = 0.025 * 24 * 30
    cloud_armor_month: float = 7
    cloud_armor_request: float = 0.75 / 1e6
    assessments_free: int = 10_000
    assessments_to_100_000: float = 8
    assessment: float = 1 / 1e3

    @property
    def function_second(self) -> float:
        return self.cpu_second + 0.5 * self.gib_second


@dataclass(frozen=True, slots=True)
class JobPrices:
    """US dollars for us-central1, from the pages of `Prices`; a job is billed while it runs."""

    cpu_second: float = 0.000_018
    gib_second: float = 0.000_002
    gib_month: float = 0.02


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of one conversion beside its CPU seconds, and of a day without conversions."""

    document_reads: float  # by the services and by a page that listens
    document_writes: float  # create, queued, lease, done, and a conflict now and then
    cpus: float = 2  # of an instance of the conversion container (convert_cpu)
    gib: float = 1  # of its memory (convert_memory)
    waiting_seconds: float = 0.3  # for Firestore and Cloud Storage; they are billed, too
    function_seconds: float = 0.3  # of api and on_upload
    requests: int = 4  # to the api (voice), on_upload, and the container (warm-up, message)
    object_writes: int = 4  # recording, result, emptied recording; the notification costs as much
    object_reads: int = 2  # the recording by the container, the result by the visitor
    sweeps: int = 288  # per day
    sweep_seconds: float = 0.5  # when it finds nothing
    sweep_reads: int = 3  # one query for each status; billed also without results
    probe_seconds: float = 0.1  # the least that is billed; Cloud Run bills liveness probes
    probes: int = 8640  # per day, of each instance
    logged_bytes: int = 9000  # by all services; estimated
    message_bytes: int = 4096  # published and delivered, by Google's least of 1 kB for each
    balanced_requests: float = 1.5  # to the api through a load balancer
    alert_conditions: int = 14  # on metrics (infra/terraform/monitoring.tf)


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """The use of one own character."""

    seconds: float = 137  # on two CPUs, with 3:21 minutes of speech (docs/own-characters.md)
    start_seconds: float = 30  # of the job's container before and after the training; assumed
    recordings: int = 61  # sentences and the spoken consent
    checkpoints: int = 12  # objects that the stages store on the way
    bundle_bytes: int = 3_720_000  # the character's own graphs, without the shared encoders
    request_seconds: float = 0.1  # of the api, for each request of the page
    cpus: int = 2
    gib: int = 4

    @property
    def requests(self) -> int:
        """Requests of the page: one for each recording, and one for each other step."""
        return self.recordings + 10


class Measurement(NamedTuple):
    """One conversion: CPU seconds, seconds of the recording, bytes of the result."""

    cpu_seconds: float
    seconds: float
    bytes: int


def run(*, quick: bool) -> Report:
    recording, rounds = SAMPLE.read_bytes(), 5 if quick else 20
    measured = [measure(recording, output_format, rounds) for output_format in FORMATS]
    return make_report(measured, read_usage(), Prices())


def read_usage(counted: Path = COUNTED) -> Usage:
    """Return the use of a conversion, with the documents of a report of the benchmark pipeline.

    Raises:
        ValueError: the file is not such a report.
    """
    report = Report.load(counted)
    figures = {str(row[0]): row[-1] for table in report.tables for row in table.rows}
    try:
        reads = sum(float(figures[name] or 0) for name in _READS)
        return Usage(document_reads=reads, document_writes=float(figures[_WRITES] or 0))
    except KeyError as missing:
        raise ValueError(
            f"{counted} does not contain {missing}; run the benchmark pipeline again"
        ) from missing


class _OneRecordingBucket:
    """A bucket for uploads and results that returns one recording and stores nothing."""

    name = "a-bucket"

    def __init__(self, recording: bytes) -> None:
        self._recording = recording

    async def read(self, *_name_and_generation: object, **_limits: object) -> bytes:
        return self._recording

    async def write(
        self, name: str, _content: BinaryIO, *, content_type: str, size: int
    ) -> ObjectFacts:
        return ObjectFacts(self.name, name, 1, content_type, size)

    async def sign_download(self, _name: str, **_terms: object) -> tuple[str, datetime]:
        return "https://storage.example.com", datetime.now(UTC)


def measure(recording: bytes, output_format: OutputFormat, rounds: int) -> Measurement:
    one, _ = _used(recording, output_format, 1)
    many, (seconds, size) = _used(recording, output_format, 1 + rounds)
    return Measurement((many - one) / rounds, seconds, size)


def _used(
    recording: bytes, output_format: OutputFormat, rounds: int
) -> tuple[float, tuple[float, int]]:
    begin = _cpu_seconds()
    facts = asyncio.run(_convert(recording, output_format, rounds))
    return _cpu_seconds() - begin, facts


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of every process that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


async def _convert(recording: bytes, output_format: OutputFormat, rounds: int) -> tuple[float, int]:
    bucket = cast("Bucket", _OneRecordingBucket(recording))
    characters = build_characters(ROOT / "characters", SessionSettings())
    async with Decoder(max_processes=1) as decoder:
        conversion = Conversion(
            uploads=bucket,
            results=bucket,
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
        raise ValueError("the recording has a format that cannot be converted")
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


def conversion_dollars(measured: Measurement, usage: Usage, prices: Prices) -> dict[str, float]:
    billed = measured.cpu_seconds + usage.waiting_seconds
    return {
        "conversion container": billed
        * (usage.cpus * prices.cpu_second + usage.gib * prices.gib_second),
        "functions": usage.function_seconds * prices.function_second,
        "requests": usage.requests * prices.request,
        "Firestore": usage.document_reads * prices.document_read
        + usage.document_writes * prices.document_write
        + prices.document_expiry,
        "Cloud Storage": usage.object_writes * prices.object_write
        + usage.object_reads * prices.object_read,
        "result to the visitor": measured.bytes / 2**30 * prices.gib_to_the_internet,
    }


def warm_day_dollars(usage: Usage, prices: Prices) -> float:
    idle = usage.cpus * prices.idle_cpu_second + usage.gib * prices.idle_gib_second
    return idle * SECONDS_OF_A_DAY


def sweep_day_dollars(usage: Usage, prices: Prices) -> float:
    one = (
        usage.sweep_seconds * prices.function_second
        + usage.sweep_reads * prices.document_read
        + prices.request
    )
    return usage.sweeps * one + prices.scheduler_job_day


def probe_day_dollars(usage: Usage, prices: Prices) -> float:
    second = usage.cpus * prices.cpu_second + usage.gib * prices.gib_second
    return usage.probes * usage.probe_seconds * second


def month_dollars(
    per_day: int, measured: Measurement, usage: Usage, prices: Prices
) -> dict[str, float]:
    """Return the cost of 30 days with so many voices, each of one visitor's visit."""
    voices = 30 * per_day
    on_upload_day = SECONDS_OF_A_DAY * (prices.idle_cpu_second + 0.5 * prices.idle_gib_second)
    idle = warm_day_dollars(usage, prices) + on_upload_day + sweep_day_dollars(usage, prices)
    logged = voices * usage.logged_bytes / 2**30 - prices.logged_gib_free
    messages = voices * usage.message_bytes / 2**30 - prices.message_gib_free
    balanced = voices * usage.balanced_requests
    fewest = prices.assessments_to_100_000 if voices > prices.assessments_free else 0
    return {
        "voices": voices * sum(conversion_dollars(measured, usage, prices).values()),
        "warm instances and sweeps": 30 * idle,
        "liveness probes": 30 * probe_day_dollars(usage, prices),
        "logging": prices.logged_gib * max(0, logged),
        "Pub/Sub": prices.message_gib * max(0, messages),
        "alert conditions, once Google charges them": usage.alert_conditions
        * prices.alert_condition_month,
        "`custom_domain`": prices.load_balancer_month
        + prices.cloud_armor_month
        + balanced * prices.cloud_armor_request,
        "`app_check`": fewest + max(0, voices - 100_000) * prices.assessment,
    }


def training_dollars(used: TrainingJob, prices: Prices, job: JobPrices) -> dict[str, float]:
    billed = used.seconds + used.start_seconds
    renewals = billed / _RENEW_SECONDS
    # Its document and the one that its owner listens to: begun, asked for, leased, six stages,
    # ready, cleaned, and each renewal; the day's number besides.
    writes = 1 + 2 * (11 + renewals)
    reads = used.requests + renewals + 20
    # Each request of the page lists the recordings, which costs as much as a write.
    lists_and_writes = used.recordings + used.checkpoints + used.requests + 10
    return {
        "job": billed * (used.cpus * job.cpu_second + used.gib * job.gib_second),
        "api": used.requests * (prices.request + used.request_seconds * prices.function_second),
        "Firestore": writes * prices.document_write + reads * prices.document_read,
        "Cloud Storage": lists_and_writes * prices.object_write
        + 2 * used.recordings * prices.object_read,
        "a month of the bundle": used.bundle_bytes / 2**30 * job.gib_month,
    }


def make_report(measured: Sequence[Measurement], usage: Usage, prices: Prices) -> Report:
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
    months = [month_dollars(per_day, measured[0], usage, prices) for per_day in VOICES_A_DAY]
    month = Table(
        "A month, US$, by the voices of a day (wav)",
        ("for", *(f"{per_day:,}" for per_day in VOICES_A_DAY)),
        tuple((kind, *(round(each[kind], 1) for each in months)) for kind in months[0]),
    )
    return Report("cost", (table, month), facts)
