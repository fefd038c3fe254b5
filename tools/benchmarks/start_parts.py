"""The parts of a start, one after another, in a new process: a JSON object of milliseconds.

    python -m tools.benchmarks.start_parts converter SINCE
        does what a conversion container does, until it has converted its standard input twice;
        SINCE is the monotonic clock, in seconds, at its exec.
    python -m tools.benchmarks.start_parts NAME [PACKAGE ...]
        imports a deployable and opens its clients, where these packages are not installed.

In a process of its own, because what is imported is imported once.
"""
# ruff: noqa: PLC0415 - imports are what is measured

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.conversion.start import ConversionTools


class Laps:
    """Milliseconds between the ends of parts.

    Args:
        since: the monotonic clock, in seconds, when the first part began.
    """

    def __init__(self, since: float) -> None:
        self._since = since
        self.milliseconds: dict[str, float] = {}

    def end(self, part: str) -> None:
        """End a part and begin the next."""
        now = time.monotonic()
        self.milliseconds[part] = (now - self._since) * 1000
        self._since = now


def measure_converter(since: float, recording: bytes) -> dict[str, float]:
    """Start like a conversion container, without any overlap, and convert a recording twice."""
    laps = Laps(since)
    laps.end("interpreter")
    import asyncio

    from functions.convert.settings import ConvertSettings
    from shared.conversion import composition
    from shared.conversion import start as starting
    from shared.conversion.characters import build_characters
    from shared.runtime import settings
    from shared.speech.decoding.decoder import Decoder
    from shared.speech.graphs.sessions import SessionSettings

    laps.end("imports")

    async def start() -> None:
        config = settings.load(ConvertSettings)
        laps.end("settings")
        composition.open_stores(config)
        laps.end("clients")
        session = SessionSettings(threads=config.threads)
        characters = build_characters(config.characters_dir, session)
        laps.end("characters")
        async with Decoder() as decoder:
            laps.end("decoder's process")
            tools = starting.ConversionTools(decoder, characters)
            for which in ("first", "second"):
                await convert_once(tools, recording)
                laps.end(f"{which} conversion")

    asyncio.run(start())
    return laps.milliseconds


async def convert_once(tools: ConversionTools, data: bytes) -> None:
    """Decode, convert, encode, as an attempt at a voice does."""
    from shared.speech.decoding.recording import DecodeLimits
    from shared.speech.engines.interface import ConversionOptions
    from shared.speech.results.audio_files import encode_result
    from shared.voices.voice import OutputFormat

    recording = await tools.decoder.decode(data, limits=DecodeLimits())
    character = next(iter(tools.characters.values()))
    samples = character.engine.convert(
        recording.samples, recording.sample_rate, ConversionOptions()
    )
    encode_result(samples, character.engine.sample_rate, OutputFormat.WAV, character.marking)


@dataclass(frozen=True, slots=True)
class Absent:
    """Finds no package of some names."""

    names: frozenset[str]

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Leave a package to other finders; see `importlib.abc.MetaPathFinder`.

        Raises:
            ModuleNotFoundError: it is one of those that are absent.
        """
        if name in self.names:
            raise ModuleNotFoundError(f"{name} is not deployed", name=name)


def measure_deployable(name: str, absent: Sequence[str]) -> dict[str, float]:
    """Import a deployable and open what it opens before its first request."""
    import asyncio
    import gc
    from importlib import import_module

    kinds = {
        "api": "ApiSettings",
        "convert": "ConvertSettings",
        "dead_letter": "DeadLetterSettings",
        "on_upload": "OnUploadSettings",
        "sweep": "SweepSettings",
    }
    sys.meta_path.insert(0, Absent(frozenset(absent)))
    # As all of them do while they start: an archive's main.py, and the conversion container.
    gc.disable()
    before = len(sys.modules)
    laps = Laps(time.monotonic())
    module = import_module(f"functions.{name}.main")
    laps.end("imports")

    async def open_clients() -> None:
        from shared.runtime import settings

        kind = getattr(import_module(f"functions.{name}.settings"), kinds[name])
        config = settings.load(kind)
        if name == "convert":
            import_module("shared.conversion.composition").open_stores(config)
        else:
            module.build(config, module.open_services(config))

    asyncio.run(open_clients())
    laps.end("clients")
    return {**laps.milliseconds, "modules": len(sys.modules) - before}


def main(arguments: list[str]) -> None:
    """Measure and print what the arguments say."""
    what, *details = arguments
    if what == "converter":
        recording = sys.stdin.buffer.read()
        found = measure_converter(float(details[0]), recording)
    else:
        found = measure_deployable(what, details)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
