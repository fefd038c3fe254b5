"""The phrases of a recording that were converted before all of it had come."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]


class Ahead:
    """The pieces of one recording that were converted before all of it had come.

    A piece is found by what it was made from. The conversion of the whole recording takes a piece
    only if it would make it from the same input, bit for bit, so its result does not depend on what
    is here. Several threads may use it at once.
    """

    def __init__(self) -> None:
        self._pieces: dict[bytes, Future[Samples]] = {}
        self._lock = threading.Lock()

    def piece(self, source: bytes, convert: Callable[[], Samples]) -> Samples:
        """Return a converted piece; whoever asks first converts it, and the others wait.

        If that fails, whoever waited converts it, too: it may have failed for want of memory.

        Args:
            source: a digest of all that the piece is made from.
            convert: makes it.

        Raises:
            Exception: as `convert` does.
        """
        with self._lock:
            begun = self._pieces.get(source)
            if begun is None:
                mine = self._pieces[source] = Future[Samples]()
        if begun is not None:
            with suppress(Exception):
                return begun.result()
            return convert()
        try:
            mine.set_result(convert())
        except BaseException as error:
            mine.set_exception(error)
            raise
        return mine.result()
