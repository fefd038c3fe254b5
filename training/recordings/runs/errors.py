"""The one error of a training from recordings."""

from collections.abc import Sequence

from shared.own_characters.own_character import TrainingErrorCode


class RecordingsError(ValueError):
    """A character cannot be made of the recordings; the message is one sentence that says why.

    Args:
        message: for their owner.
        code: the same for programs.
        files: those that are the reason, where it is some of them.
    """

    def __init__(
        self,
        message: str,
        code: TrainingErrorCode = TrainingErrorCode.RECORDINGS_REFUSED,
        files: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.files = files
