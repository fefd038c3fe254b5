"""Puts the VOICEVOX routes together from loaded characters, wherever they are served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from functions.compat.voicevox.access import AccessMiddleware
from functions.compat.voicevox.app import Services, Settings, build
from functions.compat.voicevox.memory.kept_file import KeptFile
from functions.compat.voicevox.memory.memory import Presets, UserDictionary
from functions.compat.voicevox.speech.offers import aliases_of, offered_speakers
from functions.compat.voicevox.speech.slow_readers import SlowReadersMiddleware
from functions.compat.voicevox.speech.synthesis import SpeechLimits
from functions.compat.voicevox.speech.voices import Voices
from shared.http.origins import AllowedOriginsMiddleware
from speech.bundles.bundle import BundleError
from speech.text.front_end import FrontEnd

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from starlette.types import ASGIApp

    from conversion.admission import Admission
    from conversion.characters.lending import LoadedCharacter
    from conversion.serving.serving import ServingSettings

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
        allowed_hosts: the names under which requests without a key may come, `*` for all.
    """

    key: str | None
    allowed_origins: tuple[str, ...]
    allowed_hosts: tuple[str, ...] = ("*",)


def compose(
    characters: Mapping[str, LoadedCharacter],
    kept: Kept,
    config: ServingSettings,
    access: Access,
    admission: Admission,
    *,
    max_seconds: float,
    numbers: Iterable[str] = (),
    is_alone: bool = True,
) -> ASGIApp:
    """Build the application of one process.

    Args:
        characters: all that are loaded; those that take text are offered.
        kept: what clients leave.
        config: whose folder of characters an error names.
        access: who may call.
        admission: how much this process does at once, whoever asks for it.
        max_seconds: the longest speech of one request.
        numbers: by which further numbers clients may ask for a character, each NUMBER=CHARACTER.
        is_alone: whether no other instance serves the same clients.

    Raises:
        BundleError: no character takes text, or one that a number names.
    """
    speakers = offered_speakers(characters)
    if not speakers:
        raise BundleError(f"{config.characters_dir}: expected a character that takes text.")
    voices = Voices(speakers, aliases_of(numbers, characters))
    services = Services(voices, kept.presets, kept.dictionary, admission)
    served = Settings(VERSION, SpeechLimits(max_seconds), is_alone=is_alone)
    app = SlowReadersMiddleware(build(served, services))
    return AllowedOriginsMiddleware(
        AccessMiddleware(app, access.key, access.allowed_origins, access.allowed_hosts),
        access.allowed_origins,
        ["Authorization", "Content-Type", "X-API-Key"],
    )
