"""The files that cost most to decode, of those that searches have found.

Those that are not made by code are what a search has made of files of the corpus, whose sound is
made by code: here compressed by zlib, in base64.
"""

from __future__ import annotations

import base64
import zlib
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tests.integration.audio.recordings import raw_wav
from tests.robustness.hostile import files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CUT_AAC: Final = (
    b"eNr7/9HHQdn+zz0mBp/EsmTPs7eKE/caGhgxMrWsinqVMleQ9VydbWXxl1dfp6tMDfLpVNdosWisTov4nfUHXYIB"
    b"CJAkmcKx6Lk9e66s3vsd3gz7zNlvmcfdvrH71tRV2/m2HS3M+311R+zqO1XXI19EzCltOzrlacSdMHPR3o2pFm/8"
    b"rIX7NtxYY6aT2y2dtObG4uTF8Yvjp6wKWum1VAsL9VS7U2MSKsIQEEKwizxdpnj6cRUEN3UWec9Y1KVBLtL7DwxL"
    b"uf9/GI1m3LrkuyDnqG6atoiyzlGfz89+XS7vfhz/t+K/fId+1P7/K4+//npE6Ov/b//qf3/UmRPXytB/Llnwjw8P"
    b"D2/c3PrHd/N3Spf2cW9JaFA3NdFbcUx9/V7PSZ0bp0xS4mhS9vQU2Tffi/fTz1rLA8/mvzzHIHP5/JfnCcxPbf77"
    b"L7dgfvpp/ssvCQz8000+335wYx7ndFttl2Plv2yzW6QuzXk2823ulF3LqmMLmi7rskf3mhU0qW7e/O1xyzEGRkV7"
    b"Nbbyf+6f/9Wf4X/+5/8M+fM/fx6ot3/+5yv7n7pl5WXXdlxON7ac1nlREQTUmZxgoALkbcH5fxiVvuqGmFmKxzhX"
    b"/z/++9/88+vrPz4HAFBVKcM="
)
_CUT_WAV: Final = (
    b"eNoL8nRzczvEyBDuGOaalluiIMDAwMAIhA27gYxyRgYmBgEGH8/gECkg19PPzd8z2C2ED8j2SSxLMzPSMwQiAyOG"
    b"lMSSRAagKQwMlxmX/gcC5mJWG/b/HDu5Mnn4+Jby6wouFeIRSRBdKHZW/LHEY8kzAFIIHzI="
)


@cache
def _opus_with_255_channels() -> bytes:
    return files.ogg_opus(files.opus_head(channels=255, family=255), files.opus_tags())


def _found(packed: bytes) -> bytes:
    return zlib.decompress(base64.b64decode(packed))


COSTLIEST: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "Opus with 255 channels and 60 packets": _opus_with_255_channels,
        "raw AAC, 5 % of it, changed": partial(_found, _CUT_AAC),
        "16-bit WAV, 0.1 % of it, changed": partial(_found, _CUT_WAV),
        "100 000 MP4 boxes moof": cache(partial(files.many_boxes, b"moof", 100_000)),
        "Opus, 10 000 hidden packets": cache(partial(files.hidden_opus, 10_000)),
        "WAV with 255 channels in 4 MB": cache(partial(raw_wav, bytes(4_000_000), channels=255)),
    }
)
"""Each makes a file; the largest has half of what a recording may have, so that tests are quick."""
