"""Converts a folder again and again, as `nox -s convert -- FOLDER` does.

nox -s soak -- --folders 200 [--write]
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final

from benchmarks.measuring.report import Report, Table
from infra.local.commands.batch import plan_jobs, run_batch
from infra.local.commands.visitor import Wish
from infra.local.configuration.options import CloudOptions
from tests.faults.soak_figures import percentile
from tests.integration.served import SAMPLE

FILES: Final = 6
PATIENCE_SECONDS: Final = 300.0
"""After which a conversion of a folder counts as one that stands still."""


async def convert_folder(folder: Path) -> str:
    """Convert the recordings of a folder; return what went wrong, or nothing."""
    output = folder.with_name("out")
    jobs = plan_jobs([folder], output, ".wav", "mei")
    options = CloudOptions(folder=folder.with_name("local"))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            # The table of each folder would be thousands of lines.
            with redirect_stdout(StringIO()):
                reports = await run_batch(options, jobs, Wish("mei"), overwrite=True, embedded=None)
    except TimeoutError:
        return "it stood still"
    failed = [str(report.error) for report in reports if report.error is not None]
    files = len(list(output.glob("*.wav")))
    if failed or files != FILES:
        return f"{files} of {FILES} files, {failed}"
    shutil.rmtree(output)
    return ""


def convert_folders(times: int, until: float | None = None) -> tuple[Report, list[str]]:
    """Convert a folder so many times.

    Args:
        times: how often.
        until: when no further conversion is begun, as `time.time` says it; None for never.

    Returns:
        The table, and what went wrong, as sentences.
    """
    seconds, complaints = [], []
    with tempfile.TemporaryDirectory(prefix="voice-avatar-folders-") as name:
        folder = Path(name) / "in"
        folder.mkdir()
        for number in range(FILES):
            shutil.copy(SAMPLE, folder / f"{number}.webm")
        for number in range(times):
            if until is not None and time.time() > until:
                break
            begin = time.monotonic()
            if wrong := asyncio.run(convert_folder(folder)):
                complaints.append(f"conversion {number + 1}: {wrong}")
            seconds.append(time.monotonic() - begin)
    rows = (
        ("folders converted, one after the other", len(seconds)),
        ("recordings in each", FILES),
        ("not all recordings converted, or stood still", len(complaints)),
        ("seconds for one, p50", percentile(seconds, 50)),
        ("longest", max(seconds, default=0.0)),
    )
    return Report("folders", (Table("Folders", ("what", "figure"), rows),)), complaints
