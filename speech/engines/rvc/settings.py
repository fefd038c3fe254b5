"""The settings in the manifest of an RVC voice."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from shared.characters.manifest import MANIFEST, CharacterManifest, Setting
from shared.process.quoting import quoted
from speech.bundles.files import BundleError
from speech.engines.rvc.voice import VoiceOptions

_SHARES = {"index_rate": 1.0, "protect": 0.5, "loudness_mix": 1.0}
_WORDS: Mapping[str, tuple[str, ...]] = {
    "search": ("exact", "cell"),
    "unvoiced": ("zero", "fill"),
}
_MOST_SPEAKERS = 10_000
_LONGEST_NAME = 200
_KNOWN = (*(option.name for option in fields(VoiceOptions)), "content_output")


@dataclass(frozen=True)
class RvcSettings:
    """What the manifest's settings say.

    Attributes:
        options: how the voice is used.
        content_output: the output of the content encoder, or None for the first that fits.
    """

    options: VoiceOptions
    content_output: str | None


def read_settings(manifest: CharacterManifest) -> RvcSettings:
    """Read the engine's settings from a manifest; all may be left out.

    Raises:
        BundleError: one is unknown or wrong.
    """
    said = manifest.settings
    for name, value in said.items():
        _check(name, value)
    options = VoiceOptions(**{name: said[name] for name in said if name in _OPTIONS})  # type: ignore[arg-type] # checked
    output = said.get("content_output")
    return RvcSettings(options, None if output is None else str(output))


_OPTIONS = frozenset(option.name for option in fields(VoiceOptions))


def _check(name: str, value: Setting) -> None:
    """Refuse a setting that is unknown or wrong."""
    if name not in _KNOWN:
        _refuse(name, f"only {', '.join(_KNOWN)}", name)
    if name in _SHARES:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= float(value) <= _SHARES[name]:
            _refuse(name, f"a number from 0 to {_SHARES[name]:g}", value)
    elif name in _WORDS:
        if value not in _WORDS[name]:
            _refuse(name, " or ".join(f'"{word}"' for word in _WORDS[name]), value)
    elif name == "speaker":
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_SPEAKERS:
            _refuse(name, f"a whole number from 0 to {_MOST_SPEAKERS - 1}", value)
    elif not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME:
        _refuse(name, "the name of an output", value)


def _refuse(name: str, expected: str, found: object) -> None:
    field = quoted(f"settings.{name}")
    raise BundleError(f"{MANIFEST}: field {field}: expected {expected}, found {quoted(found)}.")
