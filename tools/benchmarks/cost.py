"""Computes the cost of a thousand voices, and of months with and without visitors.

Processor time is that of the benchmarks convert and text, from the recording's bytes to the
result's; documents and messages are those of pipeline. The prices are in
tools/capacity/parameters.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tools.benchmarks.report import Cell, Report, Table
from tools.capacity import billing
from tools.capacity.parameters import Parameters, read_parameters

VOICES_A_DAY: Final = (1000, 100_000, 1_000_000)
SECONDS: Final = 5.0
"""The length of a voice's sound."""

CONTAINER: Final = (2.0, 1.0)
"""The CPUs and the GiB of a converter (`convert.cpu`, `convert.memory`)."""


class VoiceUse(NamedTuple):
    """The CPU seconds of one voice, and the bytes of its result."""

    cpu_seconds: float
    bytes: float


def run(*, quick: bool) -> Report:
    del quick  # Nothing is measured.
    p = read_parameters()
    conversion = p.durations["processor.conversion"].at(SECONDS)
    wav, m4a = (p[f"voice.{name}_bytes"] * SECONDS for name in ("result", "m4a"))
    japanese, english = (
        SECONDS * p.durations[name].per_spoken for name in ("processor.text", "processor.english")
    )
    return make_report(
        {
            "recording, wav": VoiceUse(conversion, wav),
            "recording, m4a": VoiceUse(conversion + p["processor.m4a"], m4a),
            "typed Japanese, wav": VoiceUse(japanese, wav),
            "typed English, wav": VoiceUse(english, wav),
        },
        p,
    )


def voice_dollars(voice: VoiceUse, p: Parameters) -> dict[str, float]:
    billed = voice.cpu_seconds + p["voice.waiting"]
    return {
        "conversion container": billed * billing.second(p, *CONTAINER),
        "functions": p["voice.function_seconds"] * billing.second(p, *billing.FUNCTION),
        "requests": p["voice.requests"] * p["price.request"],
        "Firestore": sum(billing.firestore(p)),
        "Cloud Storage": billing.storage(p),
        "result to the visitor": voice.bytes / billing.GIB * p["price.gib_to_the_internet"],
    }


def month_dollars(per_day: int, voice: VoiceUse, p: Parameters) -> dict[str, float]:
    """Return the cost of 30 days with so many voices, each of one visitor's visit."""
    voices = billing.MONTH_DAYS * per_day
    one, idle = voice_dollars(voice, p), billing.idle_month(p, *CONTAINER)
    running = voices * (one["conversion container"] + one["functions"]) + sum(idle.values())
    return {
        "voices": voices * sum(one.values()),
        "warm instances, their liveness probes, and sweeps": sum(idle.values()),
        **billing.month_of_messages(p, voices),
        **billing.month_of_options(p, voices),
        "a region of tier 2": p["price.tier_2"] * running,
    }


def make_report(voices: Mapping[str, VoiceUse], p: Parameters) -> Report:
    columns = [voice_dollars(voice, p) for voice in voices.values()]
    rows: list[tuple[Cell, ...]] = [
        (kind, *(1000 * column[kind] for column in columns)) for kind in columns[0]
    ]
    rows.append(("**together**", *(1000 * sum(column.values()) for column in columns)))
    rows.append(("CPU seconds of one", *(voice.cpu_seconds for voice in voices.values())))
    table = Table(f"1000 voices of {SECONDS:g} s, US$", ("for", *voices), tuple(rows))
    recording = next(iter(voices.values()))
    months = [month_dollars(per_day, recording, p) for per_day in VOICES_A_DAY]
    month = Table(
        "A month, US$, by the voices of a day (wav)",
        ("for", *(f"{per_day:,}" for per_day in VOICES_A_DAY)),
        tuple((kind, *(round(each[kind], 1) for each in months)) for kind in months[0]),
    )
    idle, days = billing.idle_month(p, *CONTAINER), billing.MONTH_DAYS
    sums = sum(idle.values()), idle["sweeps"]
    nobody = Table(
        "A month without any visitor, US$",
        ("for", "default", "scaled to zero"),
        (
            *(
                (name, round(each, 2), each if name == "sweeps" else 0)
                for name, each in idle.items()
            ),
            ("**together**", *sums),
            ("a day of it", *(each / days for each in sums)),
        ),
    )
    facts: dict[str, Cell] = {
        "Firestore documents that a voice writes": p["voice.documents_written"],
        "documents that it reads": p["voice.documents_read"] + p["voice.documents_listened"],
        "processor time that Kokoro adds to the start of compat (s)": p["processor.first_text"],
    }
    return Report("cost", (table, month, nobody), facts)
