"""The demonstration: converts one recording and shows every step with its time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from infra.local.cloud.starting import local_cloud
from infra.local.commands.trace import read_spans, waterfall
from infra.local.commands.visitor import Visitor, Wish, content_type_of, open_client, read_recording

if TYPE_CHECKING:
    from infra.local.cloud.cloud import LocalCloud
    from infra.local.configuration.options import CloudOptions
    from shared.voices.voice import Voice

SAMPLE: Final = Path(__file__).parents[1] / "samples" / "hello.webm"


@dataclass(slots=True)
class Steps:
    """Prints steps with the seconds since the start."""

    console: Console
    begin: float = field(default_factory=time.perf_counter)

    def show(self, what: str) -> None:
        """Print one step."""
        seconds = time.perf_counter() - self.begin
        self.say(f"{seconds:7.2f} s  {what}")

    def say(self, what: str) -> None:
        """Print a line; a file may be called `song [live].wav`."""
        self.console.print(what, highlight=False, soft_wrap=True, markup=False)


async def run_demo(
    options: CloudOptions, wish: Wish, *, embedded: bool | None, output: Path
) -> None:
    """Convert the sample recording as wished and leave the result at `output`."""
    steps = Steps(Console())
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
    cloud: LocalCloud, steps: Steps, wish: Wish, recording: Path, output: Path
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
        voice = await visitor.watch(created["voice_id"], lambda voice: _show_state(steps, voice))
        await visitor.download(voice, output)
        _show_result(steps, voice)
        return voice.voice_id


def _show_state(steps: Steps, voice: Voice) -> None:
    stage = f" ({voice.stage})" if voice.stage else ""
    steps.show(f"listener: {voice.status}{stage}")


def _show_result(steps: Steps, voice: Voice) -> None:
    slowest_first = sorted(voice.timings.items(), key=lambda stage: -stage[1])
    stages = ", ".join(f"{name} {ms:.0f}" for name, ms in slowest_first)
    steps.show(f"stages in milliseconds: {stages}")
    if voice.result is not None and voice.input is not None:
        steps.show(
            f"downloaded {voice.result.seconds:.2f} s of {voice.character} "
            f"({voice.result.bytes} bytes, {voice.result.content_type}) "
            f"for {voice.input.seconds:.2f} s of recording"
        )
