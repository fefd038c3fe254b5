"""The one error of the importer, and how it shows what stands in a stranger's file."""

_LONGEST_SHOWN = 80


class VoiceFileError(ValueError):
    """A file that cannot become part of a character; the message is one sentence that says why."""


def shown(value: object) -> str:
    """Return a value out of a file as an error may show it: short, and in ASCII on one line."""
    text = ascii(value) if isinstance(value, str | bytes | int | float | None) else _kind_of(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _kind_of(value: object) -> str:
    return f"a {type(value).__name__}"
