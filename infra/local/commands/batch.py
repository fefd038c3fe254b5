"""Converts a user's own files, several at a time, and prints a table at the end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from infra.local.cloud.start import local_cloud
from infra.local.commands.visitor import (
    RecordingRequest,
    RequestRefusedError,
    ServedVoices,
    Visitor,
    content_type_of,
    open_client,
    read_recording,
)
from shared.voices.media import SOUND_SUFFIXES
from shared.voices.store import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from infra.local.commands.visitor import TextRequest
    from infra.local.configuration.options import CloudOptions
    from shared.voices.voice import Voice


class UsageError(ValueError):
    """The command cannot be carried out; the message says why."""


@dataclass(frozen=True, slots=True)
class BatchJob:
    source: Path
    target: Path


@dataclass(slots=True)
class BatchReport:
    job: BatchJob
    voice: Voice | None = None
    error: RequestRefusedError | None = None
    is_there: bool = False


def plan_jobs(
    paths: Sequence[Path], output: Path | None, suffix: str, character: str
) -> list[BatchJob]:
    """Decide which files are converted, and where each result goes.

    The last of several paths is the output if it is a folder or does not exist. Without an output,
    the result of a file goes beside it, and the results of a folder go into a new folder beside it.
    """
    sources = list(paths)
    if output is None and len(sources) > 1 and not sources[-1].is_file():
        output = sources.pop()
    jobs = [job for source in sources for job in jobs_of(source, output, suffix, character)]
    if not jobs:
        raise UsageError("there is no recording in " + ", ".join(map(str, sources)))
    is_for_one = output is not None and output.suffix and not output.is_dir()
    if is_for_one and (len(jobs) > 1 or any(source.is_dir() for source in sources)):
        raise UsageError(f"a folder's or several recordings cannot become {output}; name a folder")
    by_target: dict[Path, Path] = {}
    for job in jobs:
        other = by_target.setdefault(job.target, job.source)
        if other is not job.source:
            raise UsageError(f"{other} and {job.source} would both become {job.target}")
        if job.target.resolve() == job.source.resolve():
            raise UsageError(f"{job.source} would be overwritten by its own result")
    return jobs


def jobs_of(source: Path, output: Path | None, suffix: str, character: str) -> Iterator[BatchJob]:
    if source.is_file():
        if output is None:
            yield BatchJob(source, source.with_name(f"{source.stem}-{character}{suffix}"))
        elif output.suffix and not output.is_dir():
            yield BatchJob(source, output)
        else:
            yield BatchJob(source, output / f"{source.stem}{suffix}")
    elif source.is_dir():
        folder = output or source.with_name(f"{source.resolve().name}-{character}")
        for path in sorted(source.rglob("*")):
            if path.suffix.lower() in SOUND_SUFFIXES and path.is_file():
                yield BatchJob(path, folder / path.relative_to(source).with_suffix(suffix))
    else:
        raise UsageError(f"{source} does not exist")


_OF_LIMITS: Final = frozenset({"text_too_long", "too_large", "too_long", "too_short"})
"""A service that is kept up has a page's limits; a command's own local cloud allows more."""


async def run_batch(
    options: CloudOptions,
    jobs: Sequence[BatchJob],
    wish: RecordingRequest,
    *,
    overwrite: bool,
    embedded: bool | None,
    api: str | None = None,
) -> list[BatchReport]:
    """Convert every recording and show how it goes.

    Args:
        embedded: True to run without Google's emulators; see `local_cloud`.
        api: a local cloud that runs already; one of its own converts what that one refuses for its
            length, and everything if there is none.
    """
    console = Console()
    reports = [BatchReport(job) for job in jobs]
    note = partial(console.print, highlight=False, soft_wrap=True, markup=False)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    step = TextColumn("{task.description}", markup=False)
    with Progress(*columns, step, console=console) as progress:
        bar = progress.add_task("starting", total=len(jobs))
        convert = partial(
            convert_all,
            wish=wish,
            overwrite=overwrite,
            # One more than are converted at once, so that uploads overlap with conversions.
            at_once=options.concurrency + 1,
            started=lambda report: progress.update(bar, description=report.job.source.name),
            ended=lambda _report: progress.advance(bar),
        )
        left = reports
        async with open_client() as client:
            if api is not None:
                note(f"the local cloud that runs already converts: {api}")
                await convert(Visitor(client, api, ServedVoices(client, api)), left)
                left = [each for each in reports if is_beyond_limits(each.error)]
            if left:
                for report in left:
                    report.error = None
                progress.reset(bar, completed=len(jobs) - len(left))
                started = local_cloud(
                    options,
                    embedded=embedded,
                    note=note,
                    progress=lambda step: progress.update(bar, description=step),
                )
                async with started as cloud:
                    await convert(Visitor(client, cloud.addresses.api, cloud.voices), left)
    console.print(table_of(reports))
    return reports


def is_beyond_limits(error: RequestRefusedError | None) -> bool:
    return error is not None and error.code in _OF_LIMITS


async def convert_all(
    visitor: Visitor,
    reports: Sequence[BatchReport],
    wish: RecordingRequest,
    *,
    overwrite: bool,
    at_once: int,
    started: Callable[[BatchReport], None],
    ended: Callable[[BatchReport], None],
) -> None:
    """Convert every recording; a recording that fails does not affect the others."""
    turn = asyncio.Semaphore(at_once)

    async def convert(report: BatchReport) -> None:
        async with turn:
            started(report)
            await convert_one(visitor, report, wish, overwrite=overwrite)
            ended(report)

    await asyncio.gather(*(convert(report) for report in reports))


async def convert_one(
    visitor: Visitor, report: BatchReport, wish: RecordingRequest, *, overwrite: bool
) -> None:
    job = report.job
    if job.target.exists() and not overwrite:
        report.is_there = True
        return
    try:
        created = await visitor.create(wish, content_type_of(job.source))
        recording = await asyncio.to_thread(read_recording, job.source, created)
        await visitor.upload(created, recording)
        voice = await visitor.watch(created["voice_id"], lambda _voice: None)
        await visitor.download(voice, job.target)
    except RequestRefusedError as error:
        report.error = error
    except StoreUnavailableError as error:
        report.error = RequestRefusedError("unavailable", str(error))
    except Exception as error:  # noqa: BLE001 - one recording must not end the whole batch
        report.error = RequestRefusedError("failed", str(error) or type(error).__name__)
    else:
        report.voice = voice


def table_of(reports: Sequence[BatchReport]) -> Table:
    table = Table()
    for heading in ("recording", "seconds", "result"):
        table.add_column(heading, overflow="fold")
    for report in reports:
        table.add_row(Text(str(report.job.source)), *outcome_of(report))
    return table


def outcome_of(report: BatchReport) -> tuple[str, Text]:
    if report.error is not None:
        return "", Text.assemble((report.error.code, "red"), f": {report.error.detail}")
    if report.is_there:
        return "", Text(f"already there (--overwrite replaces it): {report.job.target}")
    if report.voice is None or report.voice.result is None:
        return "", Text()
    seconds = f"{report.voice.result.seconds:.2f}"
    held = report.voice.input
    if held is not None and held.damaged:
        missing = f"{held.missing_seconds:.2f} s missing" if held.missing_seconds else "cut off"
        seconds += f" (damaged: {missing})"
    return seconds, Text(str(report.job.target))


async def run_text(
    options: CloudOptions,
    wish: TextRequest,
    *,
    overwrite: bool,
    embedded: bool | None,
    output: Path,
    api: str | None = None,
) -> None:
    """Speak a text as wished and leave the result at `output`; see `run_batch`."""
    if not overwrite and await asyncio.to_thread(output.exists):
        raise RequestRefusedError("exists", f"{output} exists; --overwrite replaces it")
    note = partial(Console().print, highlight=False, soft_wrap=True, markup=False)

    async def speak(visitor: Visitor) -> None:
        created = await visitor.create_text(wish)
        voice = await visitor.watch(created["voice_id"], lambda _voice: None)
        await visitor.download(voice, output)
        if voice.result is not None:
            note(f"{voice.result.seconds:.2f} s of {wish.character}: {output}")

    async with open_client() as client:
        if api is not None:
            note(f"the local cloud that runs already speaks: {api}")
            try:
                await speak(Visitor(client, api, ServedVoices(client, api)))
            except RequestRefusedError as error:
                if not is_beyond_limits(error):
                    raise
            else:
                return
        note("starting a local cloud, which takes some seconds")
        async with local_cloud(options, embedded=embedded, note=note) as cloud:
            await speak(Visitor(client, cloud.addresses.api, cloud.voices))
