"""The files that cost most to decode, of those that searches have found."""

from __future__ import annotations

from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tests.integration.audio.recordings import raw_wav
from tests.robustness.hostile import files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@cache
def _opus_with_255_channels() -> bytes:
    return files.ogg_opus(files.opus_head(channels=255, family=255), files.opus_tags())


COSTLIEST: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "Opus with 255 channels and 60 packets": _opus_with_255_channels,
        "100 000 MP4 boxes moof": cache(partial(files.many_boxes, b"moof", 100_000)),
        "Opus, 10 000 hidden packets": cache(partial(files.hidden_opus, 10_000)),
        "WAV with 255 channels in 4 MB": cache(partial(raw_wav, bytes(4_000_000), channels=255)),
    }
)
"""Each makes a file; the largest has half of what a recording may have, so that tests are quick."""
