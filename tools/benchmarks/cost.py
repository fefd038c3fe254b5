"""Computes the cost of a thousand voices, and of months with and without visitors.

CPU seconds are those of all processes that work on a conversion, from the recording's bytes to the
result's. Unlike the elapsed time, they do not depend on other programs. The documents that a voice
reads and writes are counted by the benchmark pipeline, and texts are those of the benchmark text.
Prices are in tools/capacity/parameters.toml.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Mapping, Sequence
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
from tools.benchmarks.text import PROCESSOR, SAMPLE_BYTES, SPEECH
from tools.capacity import billing
from tools.capacity.parameters import RESULTS, Parameters, read_parameters

FORMATS: Final = (OutputFormat.WAV, OutputFormat.M4A)
VOICES_A_DAY: Final = (1000, 100_000, 1_000_000)
CONTAINER: Final = (2.0, 1.0)
"""The CPUs and the GiB of a converter (`convert_cpu`, `convert_memory`)."""

TEXTS: Final = {"typed Japanese": "ひな", "typed English": "ひな, English"}
"""Columns of texts, and their rows in the report of the benchmark text."""


class Measurement(NamedTuple):
    """One conversion: CPU seconds, seconds of the recording, bytes of the result."""

    cpu_seconds: float
    seconds: float
    bytes: int


def run(*, quick: bool) -> Report:
    recording, rounds = SAMPLE.read_bytes(), 5 if quick else 20
    measured = [measure(recording, output_format, rounds) for output_format in FORMATS]
    return make_report(measured, read_texts(), read_parameters())


def read_texts(results: Path = RESULTS) -> dict[str, Measurement]:
    """Return the texts of the benchmark text by their columns.

    Raises:
        ValueError: it has not measured them.
    """
    found = {}
    for table in Report.load(results / "text.json").tables:
        for row in table.rows:
            cells = dict(zip(table.columns, row, strict=True))
            if {PROCESSOR, SPEECH} <= cells.keys():
                seconds = float(cells[SPEECH] or 0)
                size = round(SAMPLE_BYTES * seconds)
                found[str(row[0])] = Measurement(float(cells[PROCESSOR] or 0), seconds, size)
    if missing := set(TEXTS.values()) - found.keys():
        raise ValueError(f"text.json has no rows {sorted(missing)}; run the benchmark text first")
    return {column: found[row] for column, row in TEXTS.items()}


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


def voice_dollars(measured: Measurement, p: Parameters) -> dict[str, float]:
    billed = measured.cpu_seconds + p["voice.waiting"]
    return {
        "conversion container": billed * billing.second(p, *CONTAINER),
        "functions": p["voice.function_seconds"] * billing.second(p, *billing.FUNCTION),
        "requests": p["voice.requests"] * p["price.request"],
        "Firestore": sum(billing.firestore(p)),
        "Cloud Storage": billing.storage(p),
        "result to the visitor": measured.bytes / billing.GIB * p["price.gib_to_the_internet"],
    }


def month_dollars(per_day: int, measured: Measurement, p: Parameters) -> dict[str, float]:
    """Return the cost of 30 days with so many voices, each of one visitor's visit."""
    voices = billing.MONTH_DAYS * per_day
    one, idle = voice_dollars(measured, p), billing.idle_month(p, *CONTAINER)
    warm = {name: dollars for name, dollars in idle.items() if "probes" not in name}
    seconds = voices * (one["conversion container"] + one["functions"])
    return {
        "voices": voices * sum(one.values()),
        "warm instances and sweeps": sum(warm.values()),
        "liveness probes": sum(idle.values()) - sum(warm.values()),
        **billing.month_of_messages(p, voices),
        **billing.month_of_options(p, voices),
        "a region of tier 2": p["price.tier_2"] * (seconds + sum(idle.values())),
    }


def make_report(
    measured: Sequence[Measurement], texts: Mapping[str, Measurement], p: Parameters
) -> Report:
    named = dict(zip(map(str, FORMATS), measured, strict=True)) | dict(texts)
    columns = [voice_dollars(one, p) for one in named.values()]
    rows: list[tuple[Cell, ...]] = [
        (kind, *(1000 * column[kind] for column in columns)) for kind in columns[0]
    ]
    rows.append(("**together**", *(1000 * sum(column.values()) for column in columns)))
    rows.append(("CPU seconds of one", *(one.cpu_seconds for one in named.values())))
    rows.append(("seconds of its sound", *(one.seconds for one in named.values())))
    table = Table("1000 voices, US$", ("for", *named), tuple(rows))
    months = [month_dollars(per_day, measured[0], p) for per_day in VOICES_A_DAY]
    month = Table(
        "A month, US$, by the voices of a day (wav)",
        ("for", *(f"{per_day:,}" for per_day in VOICES_A_DAY)),
        tuple((kind, *(round(each[kind], 1) for each in months)) for kind in months[0]),
    )
    idle = billing.idle_month(p, *CONTAINER)
    sweeps = idle["sweeps"]
    unused: list[tuple[Cell, ...]] = [
        (name, round(dollars, 2), round(sweeps, 2) if name == "sweeps" else 0)
        for name, dollars in idle.items()
    ]
    unused.append(("**together**", round(sum(idle.values()), 2), round(sweeps, 2)))
    a_day = sum(idle.values()) / billing.MONTH_DAYS, sweeps / billing.MONTH_DAYS
    unused.append(("a day", *(round(dollars, 3) for dollars in a_day)))
    nobody = Table(
        "A month without any visitor, US$", ("for", "default", "scaled to zero"), tuple(unused)
    )
    facts: dict[str, Cell] = {
        "Firestore documents that a voice writes": p["voice.documents_written"],
        "documents that it reads": p["voice.documents_read"] + p["voice.documents_listened"],
    }
    return Report("cost", (table, month, nobody), facts)
