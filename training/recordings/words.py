"""How many words are understood: as recorded, through the synthesis alone, and converted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from training.features import RATE
from training.quality.material import Prompt
from training.quality.prompts import PromptRecogniser
from training.recordings.judgement import Judge
from training.recordings.screening import Utterance


@dataclass(frozen=True)
class Words:
    """Shares of short English prompts that pocketsphinx recognises among all of them.

    Attributes:
        prompts: how many there are.
        recorded: as recorded.
        synthesis: from the speaker's own envelopes at the character's height.
        converted: by the character.
    """

    prompts: int
    recorded: float
    synthesis: float
    converted: float


def measure_words(judging: Judge, prompts: Sequence[Prompt]) -> Words:
    """Let a recogniser hear prompts of one person."""
    recogniser = PromptRecogniser([prompt.words for prompt in prompts])
    utterances = [Utterance(prompt.name, 0.0, prompt.wave, RATE) for prompt in prompts]
    heard = zip(prompts, judging.syntheses(utterances), strict=True)
    return Words(
        len(prompts),
        float(np.mean([recogniser.hear(p.wave) == p.words for p in prompts])),
        float(np.mean([recogniser.hear(wave) == p.words for p, wave in heard])),
        float(np.mean([recogniser.hear(judging.convert(p.wave)) == p.words for p in prompts])),
    )
