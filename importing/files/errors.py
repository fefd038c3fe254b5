"""The one error of the importer."""


class VoiceFileError(ValueError):
    """A file that cannot become part of a character; the message is one sentence that says why."""
