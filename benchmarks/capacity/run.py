"""Whether the capacity planner's simulator predicts what is measured on this machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.capacity.measured import FULL, QUICK, measure
from benchmarks.capacity.predicted import predict
from benchmarks.measuring.report import Report, Table
from benchmarks.measuring.voice_journeys import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.capacity.measured import Measured
    from benchmarks.measuring.report import Cell, Options
    from capacity.choice.summary import Numbers

PERCENTILES: Final = (50, 95)


async def run(options: Options) -> Report:
    """Measure every situation, then predict it."""
    plan = QUICK if options.quick else FULL
    measured = await measure(plan)
    waits, saturation = await asyncio.to_thread(predict, measured)
    rates: tuple[Cell, ...] = (
        f"{AT_ONCE} visitors at once",
        measured.saturation,
        saturation,
        100 * (saturation / measured.saturation - 1),
    )
    return Report(
        "capacity",
        (
            waits_table(measured.waits, waits),
            Table(
                "Saturation, voices a second",
                ("situation", "measured", "predicted", "off, %"),
                (rates,),
            ),
            processor_table(measured),
        ),
        facts={
            "processors that other programs left free (all of them are wanted)": measured.free,
            "from a warm-up to its answer, where no instance runs (ms)": 1000 * measured.start,
            "processor time of an instance's first voice, beyond that of a later one (ms)": 1000
            * measured.processor.first_voice,
            **{
                f"deliveries refused, {situation}": count
                for situation, count in measured.refused.items()
            },
        },
    )


def processor_table(measured: Measured) -> Table:
    """Return the processor time that was measured and given to the simulator."""
    processor = measured.processor
    columns = {
        "idle": processor.idle,
        f"{AT_ONCE} visitors at once": processor.busy,
        **{situation: crowd.processor for situation, crowd in measured.crowds.items()},
        "scaled to zero": processor.scaled,
    }
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *(1000 * spent[name] for spent in columns.values())) for name in processor.idle
    )
    title = "Processor time per voice, measured and given to the simulator, ms"
    return Table(title, ("service", *columns), rows)


def waits_table(measured: Mapping[str, Sequence[float]], predicted: Mapping[str, Numbers]) -> Table:
    """Return measured and predicted percentiles beside each other."""
    rows = []
    for situation, waits in measured.items():
        row: list[Cell] = [situation]
        for which in PERCENTILES:
            seen = 1000 * float(np.percentile(waits, which))
            told = 1000 * float(np.percentile(predicted[situation], which))
            row += [seen, told, 100 * (told / seen - 1)]
        rows.append((*row, len(waits)))
    columns = ["situation"]
    for which in PERCENTILES:
        columns += [f"p{which} measured", f"p{which} predicted", f"p{which} off, %"]
    title = "From the end of the recording to done at the visitor's listener, ms"
    return Table(title, (*columns, "voices"), tuple(rows))
