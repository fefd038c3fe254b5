"""Which samples of the decoded frames belong to the recording.

Encoders put samples in front of a recording and behind it, and containers say how many. FFmpeg
removes them by itself, but then nobody learns how much was decoded. So it is told to leave them
(`AV_CODEC_FLAG2_SKIP_MANUAL`), and this module removes them by the same rules (FFmpeg,
libavcodec/decode.c).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, cast

from av.codec.context import Flags2
from av.sidedata.sidedata import Type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from av.audio.codeccontext import AudioCodecContext
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.packet import Packet
    from av.sidedata.sidedata import SideData

# The samples to skip at the beginning of the frame and to discard at its end.
_SKIP_SAMPLES: Final = struct.Struct("<iI")


class Trimming:
    """Tells which samples of a stream's frames belong to the recording.

    Args:
        context: decodes the stream; from now on it returns every sample.
    """

    def __init__(self, context: AudioCodecContext) -> None:
        context.flags2 |= Flags2.skip_manual
        self._still_skipped = 0
        self._is_first = True

    def part(self, frame: AudioFrame, packet: Packet[AudioStream]) -> tuple[int, int]:
        """Return the first sample of the next frame that belongs to it, and the one after the last.

        Both are equal if no sample does.

        Args:
            frame: as it was decoded.
            packet: what the frame was decoded from.
        """
        count, padding = frame.samples, 0
        # A frame whose side data is read lives until a garbage collection, and there is none here.
        # So it is read only where it can say something: the decoder itself skips only at the start.
        if self._is_first or packet.has_sidedata("skip_samples"):
            skipped, padding = _told(frame)
            self._still_skipped = skipped
        self._is_first = False
        begin = count if packet.is_discard else min(self._still_skipped, count)
        self._still_skipped -= min(self._still_skipped, count)
        # More than there is left is no padding but a mistake of the program that wrote the file.
        end = count - padding if padding <= count - begin else count
        return begin, end


def _told(frame: AudioFrame) -> tuple[int, int]:
    """The samples to skip at the beginning and to discard at the end, as the container says."""
    # The library's types allow only texts as keys.
    side_data = cast("Mapping[Type, SideData]", frame.side_data)
    if Type.SKIP_SAMPLES not in side_data:
        return 0, 0
    skipped, padding = _SKIP_SAMPLES.unpack_from(bytes(side_data[Type.SKIP_SAMPLES]))
    return max(0, skipped), padding
