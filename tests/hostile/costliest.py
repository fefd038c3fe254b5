"""The files that cost most to decode, of those that searches have found; see `costs.py`."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Final

from tests.hostile import files
from tests.integration.audio.recordings import hidden_opus, raw_wav

if TYPE_CHECKING:
    from collections.abc import Callable


@cache
def _opus_with_255_channels() -> bytes:
    head = files.opus_head(channels=255, family=255)
    return files.ogg_opus(head, files.opus_tags(), packets=1)


COSTLIEST: Final[tuple[Callable[[], bytes], ...]] = (
    _opus_with_255_channels,
    cache(partial(files.many_boxes, b"moof", 100_000)),
    cache(partial(hidden_opus, 10_000)),
    cache(partial(raw_wav, bytes(4_000_000), channels=65_535)),
)
