"""The commands of the local cloud: `python -m infra.local demo | convert | verify | serve`."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from infra.local.cloud.local_cloud import (
    EmulatorsMissingError,
    find_running_cloud,
    published_endpoints,
)
from infra.local.cloud.start import local_cloud
from infra.local.commands.batch import UsageError, plan_jobs, run_batch, run_text
from infra.local.commands.demo import run_demo
from infra.local.commands.verify import run_verify
from infra.local.commands.visitor import (
    RecordingRequest,
    RequestRefusedError,
    TextRequest,
)
from infra.local.configuration.names import CHARACTERS_BUCKET, PROJECT_ID
from infra.local.configuration.options import (
    PAGE_PORT,
    ROOT,
    VOICEVOX_PORT,
    WYOMING_PORT,
    CloudOptions,
    OwnCharacterOptions,
    Scaling,
)
from infra.local.processes.children import StartError, run_in_background
from shared.characters.manifest import bundle_folders
from shared.runtime.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from infra.local.cloud.local_cloud import LocalCloud, RunningCloud
    from shared.characters.folder import CharacterFolder

SAMPLE: Final = ROOT / "infra" / "local" / "samples" / "hello.webm"
MICROPHONE_SECONDS: Final = 5.0
LONG_SECONDS: Final = 300.0
LONG_BYTES: Final = 250_000_000
LONG_DEADLINE_SECONDS: Final = 300
"""The user's own files may be longer than those that a public page accepts."""

LONG_CHARACTERS: Final = 2000
_LAST_PORT: Final = 65_535

SPEAKING: Final[Mapping[str, str]] = {
    "speed": "2 is twice as fast",
    "pitch": "semitones",
    "intonation": "0 is flat",
    "volume": "a factor",
    "pauses": "a factor",
    "style": "id of one of the character's styles",
}
"""Options of spoken text."""

DEFAULT_CHARACTER: Final = bundle_folders(ROOT / "characters")[0].name
WEB_ROOT: Final = ROOT / "web" / "page" / "dist"
INTERRUPTED: Final = 130
MOST_OWN_CHARACTERS: Final = 1000


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = make_parser().parse_args(arguments)
    try:
        return int(asyncio.run(until_signal(parsed.command(parsed))))
    except (
        UsageError,
        StartError,
        SettingsError,
        EmulatorsMissingError,
        RequestRefusedError,
    ) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the output of a command
        return 2
    except (asyncio.CancelledError, KeyboardInterrupt):
        return int(parsed.interrupted)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.local", description=__doc__)
    parser.set_defaults(interrupted=INTERRUPTED)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_demo(commands.add_parser("demo", help="convert the sample recording, step by step"))
    add_convert(commands.add_parser("convert", help="convert your own files and folders"))
    add_live(commands.add_parser("live", help="convert speech while it is spoken"))
    add_verify(commands.add_parser("verify", help="was this made here?"))
    add_serve(commands.add_parser("serve", help="keep the local cloud up"))
    return parser


def add_emulators(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    text = "keep Firestore and Pub/Sub in memory, without Google's emulators"
    group.add_argument("--embedded", dest="embedded", action="store_true", default=None, help=text)
    text = "require Google's emulators"
    group.add_argument("--emulators", dest="embedded", action="store_false", help=text)


def add_scaling(parser: argparse.ArgumentParser) -> None:
    text = "start the converter at the first request, stop it after SECONDS without requests"
    parser.add_argument("--scale-to-zero", type=float, metavar="SECONDS", help=text)


def add_trace(parser: argparse.ArgumentParser) -> None:
    text = "append every voice's steps, in all services, to FILE (.local/traces.jsonl)"
    default = ROOT / ".local" / "traces.jsonl"
    parser.add_argument("--trace", nargs="?", type=Path, const=default, metavar="FILE", help=text)


def trace_file(parsed: argparse.Namespace) -> Path | None:
    if parsed.trace is None:
        return None
    parsed.trace.parent.mkdir(parents=True, exist_ok=True)
    return Path(parsed.trace.resolve())


def scaling_of(parsed: argparse.Namespace) -> Scaling | None:
    if parsed.scale_to_zero is None:
        return None
    if parsed.embedded:
        raise UsageError("--scale-to-zero needs Google's emulators: leave --embedded out")
    return Scaling(parsed.scale_to_zero)


def add_demo(parser: argparse.ArgumentParser) -> None:
    add_emulators(parser)
    add_trace(parser)
    add_scaling(parser)
    default = ROOT / ".local" / "demo.wav"
    parser.add_argument("--output", type=Path, default=default, help="where the result goes")
    parser.add_argument("--character", default=DEFAULT_CHARACTER, help="id of the character")
    parser.set_defaults(command=demo)


def add_verify(parser: argparse.ArgumentParser) -> None:
    text = "sounds of at most a minute and 10 MB"
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=text)
    parser.set_defaults(command=lambda parsed: run_verify(parsed.files, CloudOptions().folder))


def add_convert(parser: argparse.ArgumentParser) -> None:
    add_emulators(parser)
    add_trace(parser)
    text = "recordings and folders of recordings; the last may be the output"
    parser.add_argument("paths", nargs="*", type=Path, metavar="IN [OUT]", help=text)
    parser.add_argument("--output", type=Path, help="a folder, or a file for a single recording")
    parser.add_argument("--character", default=DEFAULT_CHARACTER, help="id of the character")
    text = "semitones, or auto to move the median of your pitch to the character's"
    parser.add_argument("--pitch-shift", type=semitones, default=None, help=text)
    formats = ("wav", "mp3", "m4a", "ogg")
    parser.add_argument("--format", choices=formats, default="wav", help="format of the results")
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")
    group = parser.add_argument_group("instead of recordings")
    group.add_argument("--text", help="what the character says; the result goes to OUT")
    for name, text in SPEAKING.items():
        group.add_argument(f"--{name}", type=int if name == "style" else float, help=text)
    parser.set_defaults(command=convert)


def add_live(parser: argparse.ArgumentParser) -> None:
    add_emulators(parser)
    source = parser.add_mutually_exclusive_group()
    text = "a recording, which is sent at the pace of speech; the sample if nothing is named"
    source.add_argument("path", nargs="?", type=Path, default=SAMPLE, metavar="FILE", help=text)
    text = "record from the microphone"
    source.add_argument("--microphone", action="store_true", help=text)
    text = "how long to record from the microphone"
    parser.add_argument("--seconds", type=float, default=MICROPHONE_SECONDS, help=text)
    default = ROOT / ".local" / "live.wav"
    parser.add_argument("--output", type=Path, default=default, help="where the result goes")
    parser.add_argument("--character", default=DEFAULT_CHARACTER, help="id of the character")
    parser.set_defaults(command=live)


def add_serve(parser: argparse.ArgumentParser) -> None:
    add_emulators(parser)
    add_trace(parser)
    add_scaling(parser)
    parser.add_argument(
        "--port",
        type=port_number,
        help=f"port of the page and the api; {PAGE_PORT}, or the next free one",
    )
    text = f"port of the routes of VOICEVOX; {VOICEVOX_PORT}, VOICEVOX's own, if it is left out"
    parser.add_argument("--voicevox-port", type=int, default=VOICEVOX_PORT, help=text)
    text = f"serve clients of Wyoming (Home Assistant); at port {WYOMING_PORT} if none is named"
    parser.add_argument(
        "--wyoming", nargs="?", type=port_number, const=WYOMING_PORT, metavar="PORT", help=text
    )
    text = (
        "a site whose pages may use the services, such as http://localhost:5173; may be repeated; "
        "every site on this machine if it is left out"
    )
    parser.add_argument("--origin", dest="origins", action="append", type=site_origin, help=text)
    text = "where results say aloud that they are synthetic; off if it is left out"
    parser.add_argument("--notice", choices=("before", "after"), help=text)
    text = "accept requests about voices only from the page, as with Firebase App Check"
    parser.add_argument("--app-check", action="store_true", help=text)
    text = "let visitors make characters of their own voice, over the api, so many a day"
    parser.add_argument("--own-characters", type=day_limit, metavar="N", help=text)
    text = "let their owners show them to everybody, in the list of the characters"
    parser.add_argument("--public-characters", action="store_true", help=text)
    text = "folder for endpoints.json and the logs"
    parser.add_argument("--folder", type=Path, default=ROOT / ".local", help=text)
    # Ctrl-C is how it ends.
    parser.set_defaults(command=serve, interrupted=0)


def port_number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _LAST_PORT:
        raise argparse.ArgumentTypeError(f"expected a port from 1 to {_LAST_PORT}, found {text!r}")
    return int(text)


def day_limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_OWN_CHARACTERS:
        raise argparse.ArgumentTypeError(
            f"expected a number of characters a day from 1 to {MOST_OWN_CHARACTERS}, found {text!r}"
        )
    return int(text)


def own_characters_of(parsed: argparse.Namespace) -> OwnCharacterOptions | None:
    if parsed.own_characters is None:
        if parsed.public_characters:
            raise UsageError("--public-characters needs --own-characters N")
        return None
    if parsed.scale_to_zero is not None:
        raise UsageError("--own-characters needs a converter that stays: leave --scale-to-zero out")
    # Imported here: the other commands do without its packages.
    from infra.local.cloud.trainer import training_program  # noqa: PLC0415

    command = (str(training_program()), "-m", "tools.training")
    return OwnCharacterOptions(parsed.own_characters, command, parsed.public_characters)


def site_origin(text: str) -> str:
    """Return an origin (RFC 6454) as browsers write it."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no origin: write scheme, host and port, such as http://localhost:5173"
        )
    return f"{parts.scheme}://{parts.netloc.lower()}"


def semitones(text: str) -> float | None:
    return None if text == "auto" else float(text)


def require_character(wanted: str, running: RunningCloud | None = None) -> None:
    """Refuse a character that the service will not have, before anything is started."""
    if running is None:
        folder = Path(os.environ.get("CHARACTERS_DIR", ROOT / "characters"))
        known = [each.name for each in bundle_folders(folder)]
    else:
        known = list(running.characters)
    if wanted not in known:
        raise UsageError(f"there is no character {wanted!r}; there are {', '.join(sorted(known))}")


def find_running(parsed: argparse.Namespace) -> RunningCloud | None:
    """Find a local cloud that `serve` keeps up, unless the user wants another one."""
    if parsed.embedded is not None or vars(parsed).get("trace") is not None:
        return None
    return find_running_cloud(CloudOptions().folder)


async def demo(parsed: argparse.Namespace) -> int:
    require_character(parsed.character)
    options = CloudOptions(scaling=scaling_of(parsed), traces=trace_file(parsed))
    wish = RecordingRequest(character=parsed.character)
    await run_demo(options, wish, embedded=parsed.embedded, output=parsed.output)
    return 0


async def convert(parsed: argparse.Namespace) -> int:
    speaking = {name: vars(parsed)[name] for name in SPEAKING if vars(parsed)[name] is not None}
    if parsed.text is not None:
        return await say_text(parsed, speaking)
    if not parsed.paths:
        raise UsageError("name the recordings IN to convert, or give a text with --text")
    if speaking:
        raise UsageError(f"--{next(iter(speaking))} goes with --text only: leave it out")
    jobs = plan_jobs(parsed.paths, parsed.output, f".{parsed.format}", parsed.character)
    running = find_running(parsed)
    require_character(parsed.character, running)
    options = CloudOptions(
        min_seconds=0.1,
        max_seconds=LONG_SECONDS,
        max_upload_bytes=LONG_BYTES,
        conversion_deadline_seconds=LONG_DEADLINE_SECONDS,
        traces=trace_file(parsed),
    )
    reports = await run_batch(
        options,
        jobs,
        RecordingRequest(parsed.character, parsed.pitch_shift, parsed.format),
        overwrite=parsed.overwrite,
        embedded=parsed.embedded,
        api=running.api if running else None,
    )
    return int(any(report.error is not None for report in reports))


async def say_text(parsed: argparse.Namespace, speaking: Mapping[str, float]) -> int:
    usual = Path(f"text-{parsed.character}.{parsed.format}")
    named = [*parsed.paths, *([parsed.output] if parsed.output else [])]
    if len(named) > 1:
        raise UsageError("a text has one result; name one file OUT, and no recordings")
    if parsed.pitch_shift is not None:
        raise UsageError("--pitch-shift is for recordings; --pitch is for a text")
    (output,) = named or [usual]
    running = find_running(parsed)
    require_character(parsed.character, running)
    options = CloudOptions(
        max_text_characters=LONG_CHARACTERS,
        max_speech_seconds=2 * LONG_SECONDS,
        conversion_deadline_seconds=LONG_DEADLINE_SECONDS,
        traces=trace_file(parsed),
    )
    await run_text(
        options,
        TextRequest(parsed.text, parsed.character, parsed.format, speaking),
        overwrite=parsed.overwrite,
        embedded=parsed.embedded,
        output=output / usual if output.is_dir() else output,
        api=running.api if running else None,
    )
    return 0


async def live(parsed: argparse.Namespace) -> int:
    # Imported here: the other commands do without its packages.
    from infra.local.commands.live import SpeechSource, run_live  # noqa: PLC0415

    running = find_running(parsed)
    require_character(parsed.character, running)
    await run_live(
        CloudOptions(),
        RecordingRequest(character=parsed.character),
        SpeechSource(None if parsed.microphone else parsed.path, parsed.seconds),
        embedded=parsed.embedded,
        output=parsed.output,
        api=running.api if running else None,
    )
    return 0


async def serve(parsed: argparse.Namespace) -> int:
    options = CloudOptions(
        parsed.folder,
        api_port=parsed.port,
        page_port=PAGE_PORT,
        voicevox_port=parsed.voicevox_port,
        wyoming_port=parsed.wyoming,
        scaling=scaling_of(parsed),
        notice=parsed.notice or "off",
        own_characters=own_characters_of(parsed),
        traces=trace_file(parsed),
    )
    if parsed.origins:
        options = replace(options, page_origins=tuple(parsed.origins))
    if (WEB_ROOT / "index.html").is_file():
        options = replace(options, web_root=WEB_ROOT, app_check=parsed.app_check)
    elif parsed.app_check:
        raise UsageError("--app-check gives its token to the page, which is not built: build it")
    # Imported here: the other commands do without its packages.
    from infra.local.commands.bundle_watch import BundleWatch  # noqa: PLC0415

    def with_port(address: str, wanted: int) -> str:
        """Return an address for people, and why it is not at the port that they asked for."""
        if address.endswith(f":{wanted}"):
            return address
        return f"{address} (another program has port {wanted})"

    say("starting the local cloud")
    async with local_cloud(options, embedded=parsed.embedded, note=say, progress=say) as cloud:
        with published_endpoints(cloud, parsed.folder) as path:
            endpoints = cloud.endpoints()
            wanted = parsed.port or PAGE_PORT
            say(f"the page: {endpoints['page'] or 'not built (see README.md)'}")
            say(f"the api:  {with_port(endpoints['api'], wanted)}, described at /docs")
            say(f"VOICEVOX: {with_port(endpoints['voicevox'], parsed.voicevox_port)}")
            if endpoints["wyoming"] is not None:
                say(f"Wyoming:  {with_port(endpoints['wyoming'], parsed.wyoming)}")
            say(f"for other programs: {path}   (Ctrl-C stops everything)")
            folder = Path(os.environ.get("CHARACTERS_DIR", ROOT / "characters"))
            own = BundleWatch(folder, partial(open_offer, cloud), say)
            async with run_in_background(own.watch()):
                name = await cloud.crashed()
    say(f"{name} has ended by itself; its log is in {parsed.folder / 'logs'}")
    return 1


def open_offer(cloud: LocalCloud) -> CharacterFolder:
    # Imported here: nothing else needs Cloud Storage's client in this process.
    from google.auth.credentials import AnonymousCredentials  # noqa: PLC0415
    from google.cloud import storage  # noqa: PLC0415

    from shared.characters.folder import CharacterFolder  # noqa: PLC0415

    client = storage.Client(
        PROJECT_ID, AnonymousCredentials(), client_options={"api_endpoint": cloud.addresses.storage}
    )
    return CharacterFolder(client.bucket(CHARACTERS_BUCKET), say=lambda _: None)


def say(sentence: str) -> None:
    print(sentence, flush=True)  # noqa: T201 - the output of a command


async def until_signal(work: Coroutine[None, None, int]) -> int:
    """Run some work; SIGINT, SIGTERM and SIGHUP cancel it, so that everything is stopped.

    Windows has no such handlers: there asyncio itself cancels the work at Ctrl-C.
    """
    running = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    with suppress(NotImplementedError):
        for number in (getattr(signal, name) for name in names if hasattr(signal, name)):
            loop.add_signal_handler(number, running.cancel)
    return await running


if __name__ == "__main__":
    sys.exit(main())
