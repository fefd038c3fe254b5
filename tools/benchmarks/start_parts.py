"""Measures the parts of a start, one after another, in a new process; prints milliseconds as JSON.

converter SINCE: starts like a conversion container, converts its standard input and speaks a text,
    each twice; SINCE is the monotonic clock, in seconds, at its exec.
character FOLDER: loads a bundle as the container does; prints the megabytes, too.
NAME [PACKAGE ...]: imports a deployable and opens its clients; the packages count as not installed.
"""
# ruff: noqa: PLC0415 - the imports are measured

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.conversion.start import ConversionTools


class Laps:
    def __init__(self, since: float) -> None:
        self._since = since
        self.milliseconds: dict[str, float] = {}

    def end(self, part: str) -> None:
        now = time.monotonic()
        self.milliseconds[part] = (now - self._since) * 1000
        self._since = now


TEXT = "今日はいい天気ですね。明日も晴れるそうです。"


def megabytes() -> float:
    """Return the resident memory of this process."""
    with open("/proc/self/statm") as file:  # noqa: PTH123 - without an import
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure_converter(since: float, recording: bytes) -> dict[str, float]:
    laps = Laps(since)
    laps.end("interpreter")
    import asyncio

    from functions.convert.settings import ConvertSettings
    from shared.conversion import composition
    from shared.conversion import start as starting
    from shared.conversion.characters import build_characters
    from shared.runtime import settings
    from shared.speech.decoding.decoder import Decoder
    from shared.speech.engines.text_interface import SpeechOptions
    from shared.speech.graphs.sessions import SessionSettings

    laps.end("imports")

    async def start() -> None:
        config = settings.load(ConvertSettings)
        laps.end("settings")
        composition.open_stores(config)
        laps.end("clients")
        session = SessionSettings(threads=config.threads, kokoro=config.kokoro_packages)
        characters = build_characters(config.characters_dir, session)
        laps.end("characters")
        async with Decoder() as decoder:
            laps.end("decoder's process")
            tools = starting.ConversionTools(decoder, characters)
            for which in ("first", "second"):
                await convert_once(tools, recording)
                laps.end(f"{which} conversion")
            speaker = characters["hina"].text_engine
            if speaker is None:
                raise RuntimeError("hina takes no text")
            laps.milliseconds["memory then, MB"] = megabytes()
            for which in ("first", "second"):
                list(speaker.speak(TEXT, SpeechOptions()))
                laps.end(f"{which} text")
            laps.milliseconds["memory after them, MB"] = megabytes()

    asyncio.run(start())
    return laps.milliseconds


async def convert_once(tools: ConversionTools, data: bytes) -> None:
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


class MissingPackages:
    """An import finder that hides packages; see `importlib.abc.MetaPathFinder`."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name in self._names:
            raise ModuleNotFoundError(f"{name} is not deployed", name=name)


def measure_deployable(name: str, missing: Iterable[str]) -> dict[str, float]:
    import asyncio
    import gc
    from importlib import import_module

    sys.meta_path.insert(0, MissingPackages(missing))
    # As an archive's main.py and the conversion container do while they start.
    gc.disable()
    before = len(sys.modules)
    laps = Laps(time.monotonic())
    module = import_module(f"functions.{name}.main")
    laps.end("imports")

    async def open_clients() -> None:
        from shared.runtime import settings

        kind = name.title().replace("_", "") + "Settings"
        config = settings.load(getattr(import_module(f"functions.{name}.settings"), kind))
        if name == "convert":
            import_module("shared.conversion.composition").open_stores(config)
        else:
            module.build(config, module.open_services(config))

    asyncio.run(open_clients())
    laps.end("clients")
    return {**laps.milliseconds, "modules": len(sys.modules) - before}


def measure_character(folder: str) -> dict[str, float]:
    """Load the character of a folder; without the start of the runtime."""
    from pathlib import Path

    import onnxruntime  # noqa: F401

    from shared.speech.engines.registry import ENGINES, build_engine
    from shared.speech.graphs.bundle_folders import load_character
    from shared.speech.graphs.sessions import SessionSettings

    memory, cpu = megabytes(), time.process_time()
    laps = Laps(time.monotonic())
    character = load_character(Path(folder), ENGINES)
    laps.end("checks")
    build_engine(character, SessionSettings())
    laps.end("building")
    cpu = 1000 * (time.process_time() - cpu)
    return {**laps.milliseconds, "cpu": cpu, "megabytes": megabytes() - memory}


if __name__ == "__main__":
    subject, *details = sys.argv[1:]
    if subject == "converter":
        found = measure_converter(float(details[0]), sys.stdin.buffer.read())
    elif subject == "character":
        found = measure_character(*details)
    else:
        found = measure_deployable(subject, details)
    print(json.dumps(found))
