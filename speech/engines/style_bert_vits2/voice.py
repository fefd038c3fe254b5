"""The facts of a voice of Style-Bert-VITS2 beside its graph."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STYLE_SIZE = 256
STYLES_OF_A_SPEAKER = 32


@dataclass(frozen=True)
class Style:
    """A way in which a speaker speaks.

    Attributes:
        id: number by which clients ask for it, unlike that of any other voice's style.
        name: shown to people.
        local_id: the row of the style vectors.
    """

    id: int
    name: str
    local_id: int


@dataclass(frozen=True)
class Speaker:
    """Somebody whom a voice can speak as.

    Attributes:
        uuid: of the speaker.
        name: shown to people.
        local_id: the number that the graph knows the speaker by.
        styles: the ways in which the speaker speaks.
    """

    uuid: str
    name: str
    local_id: int
    styles: tuple[Style, ...]


@dataclass(frozen=True, eq=False)
class StyleBertVoice:
    """The speakers and styles of a voice.

    Attributes:
        sample_rate: of the speech, in Hz.
        add_blank: whether the voice was trained with a blank around every phone.
        speakers: whom it can speak as.
        style_vectors: one for each style, float32 [styles, 256]; the first is the neutral one.
    """

    sample_rate: int
    add_blank: bool
    speakers: tuple[Speaker, ...]
    style_vectors: NDArray[np.float32]

    def style_vector(self, local_id: int, weight: float) -> NDArray[np.float32]:
        """Mix a style with the neutral one: float32 [256].

        Args:
            local_id: of the style.
            weight: 0 for neutral, 1 for the style, more for more of it.
        """
        neutral = self.style_vectors[0]
        towards: NDArray[np.float32] = self.style_vectors[local_id] - neutral
        mixed: NDArray[np.float32] = neutral + towards * np.float32(weight)
        return mixed

    def find_style(self, style_id: int) -> tuple[Speaker, Style] | None:
        """Find a style, and whose it is; None if there is none of that id."""
        for speaker in self.speakers:
            for style in speaker.styles:
                if style.id == style_id:
                    return speaker, style
        return None
