"""Limits what the decoding of one recording may cost, also where nothing of it is heard.

The length of what is returned says little about the cost: a container can have every sample
discarded, name the same bytes many times, or hold packets from which nothing comes.
"""

from __future__ import annotations

from typing import Final

from shared.voices.voice import ErrorCode, VoiceError
from speech.decoding.recordings.wire import MAX_SAMPLE_RATE

_HIDDEN_SHARE: Final = 1.0
"""How much audio may be discarded, as a part of the longest recording.

Encoders hide up to a tenth of a second, and an editor what it has cut off.
"""

_BYTES_SHARE: Final = 2.0
"""How many bytes may be decoded, as a part of the file: most containers name each byte once."""

_LEAST_BYTES: Final = 65_536

_PACKETS_PER_SECOND: Final = 2_000
"""Opus has at most 400, FLAC in blocks of 192 samples 1000 at the highest sample rate."""

_LEAST_PACKETS: Final = 1_000

_SECONDS_OF_A_FRUITLESS_PACKET: Final = 0.02
"""How much a packet counts from which no sound comes: the length of most packets."""


class Effort:
    """Counts the packets, bytes and seconds of one recording that were decoded.

    Args:
        file_bytes: the size of the file; the most that it may have if it still comes.
        longest: the length in seconds of the longest recording.
    """

    def __init__(self, file_bytes: int, longest: float) -> None:
        self._file_bytes = file_bytes
        self._bytes = _LEAST_BYTES + _BYTES_SHARE * file_bytes
        self._packets = _LEAST_PACKETS + _PACKETS_PER_SECOND * longest
        self._seconds = (1 + _HIDDEN_SHARE) * longest

    def count_packet(self, size: int) -> None:
        """Count a packet of `size` bytes before it is decoded.

        Raises:
            VoiceError: `too_complex`, because the recording has too many packets or bytes.
        """
        self._packets -= 1
        if self._packets < 0:
            raise _too_complex("has too many packets for its length")
        self._spend_bytes(size)

    def count_file(self, size: int) -> None:
        """Learn the size of a file that has come; raises like `count_packet`."""
        self._spend_bytes(_BYTES_SHARE * (self._file_bytes - size))
        self._file_bytes = size

    def count_frame(self, samples: int, sample_rate: int) -> None:
        """Count a decoded frame with `samples` of each channel, whether they are heard or not.

        Raises:
            VoiceError: `too_complex`, because more audio is hidden than may be.
        """
        # A rate that is not supported is refused elsewhere; here it must not make time cheaper.
        self._spend(samples / min(max(sample_rate, 1), MAX_SAMPLE_RATE))

    def count_fruitless_packet(self) -> None:
        """Count a packet from which no frame came; raises like `count_frame`."""
        self._spend(_SECONDS_OF_A_FRUITLESS_PACKET)

    def _spend_bytes(self, size: float) -> None:
        self._bytes -= size
        if self._bytes < 0:
            raise _too_complex("has the same bytes decoded again and again")

    def _spend(self, seconds: float) -> None:
        self._seconds -= seconds
        if self._seconds < 0:
            raise _too_complex("hides more audio than it plays")


def _too_complex(why: str) -> VoiceError:
    return VoiceError(
        ErrorCode.TOO_COMPLEX,
        f"The recording {why}; save it again as a plain WebM, MP4 or WAV file.",
    )
