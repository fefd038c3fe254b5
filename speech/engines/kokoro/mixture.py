"""A voice of one's own: a mixture of Kokoro's voices, with another vocal tract."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from speech.engines.kokoro.packages import STYLE_SIZE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from speech.signal.arrays import Samples

_SOUND = slice(0, STYLE_SIZE // 2)  # what the decoder takes
_MANNER = slice(STYLE_SIZE // 2, STYLE_SIZE)  # what decides about durations and pitch


@dataclass(frozen=True)
class Mixture:
    """What a voice is mixed of.

    Attributes:
        sound: the weight of each voice in how the mixture sounds; weights may be below zero, which
            takes the mixture away from that voice, and sum up to 1.
        manner: the weight of each voice in its rhythm and melody, likewise.
        tract: by what factor its vocal tract is shorter, and its pitch higher.
    """

    sound: Mapping[str, float]
    manner: Mapping[str, float]
    tract: float = 1.0

    def style(self, voices: Mapping[str, Samples]) -> Samples:
        """Mix the style vectors of voices: float32 [510, 256], as theirs.

        Raises:
            KeyError: a voice is not among them.
        """
        mixed = np.empty_like(next(iter(voices.values())))
        for part, weights in ((_SOUND, self.sound), (_MANNER, self.manner)):
            mixed[:, part] = sum(
                np.float32(weight) * voices[name][:, part] for name, weight in weights.items()
            )
        return mixed


# Their author made these four of recordings that Koniwa publishes under CC BY. Where the speech for
# the fifth, jf_alpha, comes from is not said, so that nothing of it is in the mixture.
_KONIWA = ("jf_gongitsune", "jf_nezumi", "jf_tebukuro", "jm_kumo")

NOBODY: Final = Mixture(
    sound=MappingProxyType(dict(zip(_KONIWA, (-0.56, 0.61, 0.24, 0.71), strict=True))),
    manner=MappingProxyType(dict(zip(_KONIWA, (0.38, -0.19, 0.49, 0.32), strict=True))),
    tract=1.03,
)
"""A young woman's voice that is far from each of those that it is mixed of.

Mixed by chance (weights around a quarter, tracts of 0.92 to 1.16) were 43, and twelve more from the
three best. Of those that sound most natural (DNSMOS) this one is the farthest from all ingredients;
Hina's model card has the distances.
"""
