"""The demonstration: converts one recording and shows every step with its time."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from infra.local.cloud.start import local_cloud
from infra.local.commands.visitor import (
    RecordingRequest,
    Visitor,
    content_type_of,
    open_client,
    read_recording,
)
from shared.runtime.logs import LOCAL_KEY, pseudonym

if TYPE_CHECKING:
    from infra.local.cloud.local_cloud import LocalCloud
    from infra.local.configuration.options import CloudOptions


BAR: Final = 40  # the characters of the longest bar


@dataclass(frozen=True, slots=True)
class Span:
    """A step of a voice; times are seconds since 1970."""

    name: str
    service: str
    begin: float
    end: float
    span_id: str
    parent_id: str | None  # None for the first step of a voice


def read_spans(path: Path, voice_id: str) -> list[Span]:
    trace_id = f"0x{pseudonym(voice_id, LOCAL_KEY)}"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    spans = [
        Span(
            line["name"],
            line["resource"]["attributes"]["service.name"],
            datetime.fromisoformat(line["start_time"]).timestamp(),
            datetime.fromisoformat(line["end_time"]).timestamp(),
            line["context"]["span_id"],
            line["parent_id"],
        )
        for line in lines
        if line["context"]["trace_id"] == trace_id
    ]
    return sorted(spans, key=lambda span: (span.begin, -span.end))


def waterfall(spans: list[Span]) -> list[str]:
    """Draw steps below each other: when each began, how long it took, whose it is."""
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    scale = BAR / max(end - begin, 1e-9)
    parents = {span.span_id: span.parent_id for span in spans}
    lines = []
    for span in spans:
        depth, parent = 0, span.parent_id
        while parent is not None:
            depth, parent = depth + 1, parents.get(parent)
        bar = " " * int((span.begin - begin) * scale) + "█" * max(
            1, round((span.end - span.begin) * scale)
        )
        what = f"{'  ' * depth}{span.service}: {span.name}"
        offset, took = (span.begin - begin) * 1000, (span.end - span.begin) * 1000
        lines.append(f"{what:<42} {offset:7.0f} ms {took:7.1f} ms  {bar}")
    return lines


SAMPLE: Final = Path(__file__).parents[1] / "samples" / "hello.webm"


@dataclass(slots=True)
class StepPrinter:
    """Prints steps with the seconds since the start."""

    console: Console
    begin: float = field(default_factory=time.perf_counter)

    def show(self, what: str) -> None:
        seconds = time.perf_counter() - self.begin
        self.say(f"{seconds:7.2f} s  {what}")

    def say(self, what: str) -> None:
        """Print a line; a file may be called `song [live].wav`."""
        self.console.print(what, highlight=False, soft_wrap=True, markup=False)


async def run_demo(
    options: CloudOptions, wish: RecordingRequest, *, embedded: bool | None, output: Path
) -> None:
    """Convert the sample recording as wished and leave the result at `output`."""
    steps = StepPrinter(Console())
    steps.show("starting the local cloud")
    async with local_cloud(options, embedded=embedded, note=steps.show) as cloud:
        voice_id = await show_conversion(cloud, steps, wish, SAMPLE, output)
    steps.show("everything is stopped; the converted recording:")
    steps.say(str(output))
    if isinstance(options.traces, Path):
        steps.show(f"the voice's way, from {options.traces}:")
        for line in waterfall(read_spans(options.traces, voice_id)):
            steps.say(line)


async def show_conversion(
    cloud: LocalCloud, steps: StepPrinter, wish: RecordingRequest, recording: Path, output: Path
) -> str:
    """Send one recording through a running local cloud; return its voice_id."""
    steps.show(f"the local cloud is up; the api listens at {cloud.addresses.api}")
    content_type = content_type_of(recording)
    async with open_client() as client:
        visitor = Visitor(client, cloud.addresses.api, cloud.voices)
        created = await visitor.create(wish, content_type)
        steps.show(f"POST /api/v1/voices: voice {created['voice_id']}, warm-up sent")
        content = await asyncio.to_thread(read_recording, recording, created)
        await visitor.upload(created, content)
        size = f"{len(content)} bytes"
        steps.show(f"PUT {recording.name} ({size}, {content_type}) to the signed address")
        voice = await visitor.watch(
            created["voice_id"],
            lambda now: steps.show(
                f"listener: {now.status}" + (f" ({now.stage})" if now.stage else "")
            ),
        )
        await visitor.download(voice, output)
    slowest_first = sorted(voice.timings.items(), key=lambda stage: -stage[1])
    stages = ", ".join(f"{name} {ms:.0f}" for name, ms in slowest_first)
    steps.show(f"stages in milliseconds: {stages}")
    if voice.result is not None and voice.input is not None:
        steps.show(
            f"downloaded {voice.result.seconds:.2f} s of {voice.character} "
            f"({voice.result.bytes} bytes, {voice.result.content_type}) "
            f"for {voice.input.seconds:.2f} s of recording"
            + (f" (damaged: {voice.input.missing_seconds:.2f} s missing)" * voice.input.damaged)
        )
    return voice.voice_id
