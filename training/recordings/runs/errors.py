"""The one error of a training from recordings."""


class RecordingsError(ValueError):
    """A character cannot be made of the recordings; the message is one sentence that says why."""
