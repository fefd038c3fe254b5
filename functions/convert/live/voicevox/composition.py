"""Puts the VOICEVOX routes together from loaded characters, wherever they are served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from functions.convert.live.voicevox.access import AccessMiddleware
from functions.convert.live.voicevox.app import Services, Settings, build
from functions.convert.live.voicevox.kept_file import KeptFile
from functions.convert.live.voicevox.memory import Presets, UserDictionary
from functions.convert.live.voicevox.offers import offered_speakers
from functions.convert.live.voicevox.voices import Voices
from shared.http.origins import AllowedOriginsMiddleware
from speech.bundles.bundle import BundleError
from speech.text.front_end import FrontEnd

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from starlette.types import ASGIApp

    from functions.convert.admission import Slots
    from functions.convert.characters import LoadedCharacter
    from functions.convert.serving import ServingSettings

VERSION: Final = "0.24.1"
"""The version of VOICEVOX whose routes these are; clients compare it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What clients leave with the service.

    Attributes:
        presets: their settings.
        dictionary: their words, and what reads texts with them.
    """

    presets: Presets
    dictionary: UserDictionary

    @classmethod
    def opened(cls, folder: Path | None = None) -> Kept:
        """Open what is kept in a folder; None keeps it in this process."""
        if folder is None:
            return cls(Presets(), UserDictionary())
        folder.mkdir(parents=True, exist_ok=True)
        presets, words = KeptFile(folder / "presets.json"), KeptFile(folder / "words.json")
        dictionary = UserDictionary(file=words)
        dictionary.refresh()
        return cls(Presets(presets), dictionary)

    def front_end(self) -> FrontEnd:
        """Return what reads texts with the clients' words."""
        return FrontEnd(lambda: self.dictionary, self.dictionary.has)


@dataclass(frozen=True, slots=True)
class Access:
    """Who may call.

    Attributes:
        key: what requests must carry; None if everybody may call.
        allowed_origins: the web sites whose pages may call.
    """

    key: str | None
    allowed_origins: tuple[str, ...]


def compose(
    characters: Mapping[str, LoadedCharacter],
    kept: Kept,
    config: ServingSettings,
    access: Access,
    slots: Slots | None = None,
) -> ASGIApp:
    """Build the application of one process.

    Args:
        characters: all that are loaded; those that take text are offered.
        kept: what clients leave.
        config: how much is done at once.
        access: who may call.
        slots: limit what several processes do at once; None if there is only this one.

    Raises:
        BundleError: no character takes text.
    """
    speakers = offered_speakers(characters)
    if not speakers:
        raise BundleError(f"{config.characters_dir}: expected a character that takes text.")
    served = Settings(VERSION, concurrency=config.concurrency, backlog=config.backlog)
    services = Services(Voices(speakers), kept.presets, kept.dictionary, slots)
    app = build(served, services)
    return AllowedOriginsMiddleware(
        AccessMiddleware(app, access.key, access.allowed_origins),
        access.allowed_origins,
        ["Authorization", "Content-Type", "X-API-Key"],
    )
