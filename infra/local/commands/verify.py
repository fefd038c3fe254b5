"""Check whether files were made with the keys of this machine, or of a deployment."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr
from rich.console import Console

from infra.local.configuration.keys import provenance_environment
from shared.conversion.verification import MOST_BYTES, Verifier
from shared.runtime.process import read_at_most
from shared.runtime.quoting import printable
from shared.speech.decoding.decoder import Decoder
from shared.speech.results.watermark_engines import watermark_keys
from shared.voices.voice import VoiceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from shared.conversion.verification import ProvenanceFinding

_KEYS: Final = "WATERMARK_KEYS"
_CERTIFICATES: Final = "C2PA_CERTIFICATES"
_SURE: Final = 1e-9  # rarer than that is not told apart


async def run_verify(files: Sequence[Path], folder: Path) -> int:
    """Print what is found in each file; return 1 if one could not be verified, otherwise 0.

    The keys are those of the environment (`WATERMARK_KEYS`, `C2PA_CERTIFICATES`), and without them
    those of the local cloud.
    """
    environment: Mapping[str, str] = os.environ
    if not environment.get(_KEYS):
        environment = provenance_environment(folder / "origin")
    secrets = tuple(SecretStr(each.strip()) for each in environment[_KEYS].split(","))
    console = Console(highlight=False, soft_wrap=True)
    failed = 0
    async with Decoder() as decoder:
        verifier = Verifier(decoder, watermark_keys(secrets), environment.get(_CERTIFICATES, ""))
        for file in files:
            try:
                found = await verifier.verify(
                    await asyncio.to_thread(read_at_most, file, MOST_BYTES)
                )
            except (VoiceError, OSError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                console.print(f"{printable(str(file))}: {why}", markup=False)
                failed = 1
            else:
                console.print(f"{printable(str(file))}: {told_of(found)}", markup=False)
    return failed


def told_of(found: ProvenanceFinding) -> str:
    answer = found.to_answer()
    mark, said = answer["watermark"], answer["credentials"]
    lines = [
        printable(answer["sentences"]["en"]),
        f"  watermark: {mark['state'].replace('_', ' ')}",
    ]
    if mark["bits"] is not None:
        odds = max(mark["chance"], _SURE)
        lines[-1] += f", bits {mark['bits']}, by chance in fewer than one of {1 / odds:,.0f} files"
    lines.append(f"  signed statement: {said['state']}")
    names = ("made_with", "character", "issuer", "signed_at")
    lines += [
        f"  {name.replace('_', ' ')}: {printable(said[name])}" for name in names if said[name]
    ]
    if said["forbidden_uses"]:
        uses = ", ".join(map(printable, said["forbidden_uses"]))
        lines.append(f"  forbidden by the voice's owner: {uses}")
    return "\n".join(lines)
