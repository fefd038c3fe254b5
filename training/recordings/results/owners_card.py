"""What an owner is shown of a new character: figures, and pairs to compare by ear."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from speech.results.wav import write_wav
from training.judges.panel import Recogniser
from training.judges.words import ErrorRate, compare
from training.recordings.results.judgement import Clip, Figures, Judgement
from training.sound.features import RATE

CARD = "card.json"
_PAIRS_OF_EACH = 3


def write_owners_card(
    folder: Path,
    seconds: float,
    dropped: Mapping[str, float],
    judgement: Judgement,
    recogniser: Recogniser | None,
) -> None:
    """Write `card.json`, and beside it `own-1-original.wav`, `own-1-converted.wav` and so on.

    Pairs of the owner are parts of the owner's recordings, those of others are of the readers who
    come with the training.

    Args:
        folder: is there.
        seconds: how much speech was learnt.
        dropped: how much was not, in seconds by reason.
        judgement: with what there is to listen to.
        recogniser: understands the others, who speak English; None if their words do not count.
    """
    owner, others = judgement.owner_clips, judgement.stranger_clips
    for whose, clips in (("own", owner), ("other", others)):
        for number, clip in enumerate(clips[:_PAIRS_OF_EACH], 1):
            for what, wave in (("original", clip.original), ("converted", clip.converted)):
                file = folder / f"{whose}-{number}-{what}.wav"
                file.write_bytes(write_wav(wave, RATE))
    wrong = None if recogniser is None else _wrong(others[:_PAIRS_OF_EACH], recogniser)
    card = {
        "seconds": round(seconds, 1),
        "unused": {reason.replace(" ", "_"): round(each, 1) for reason, each in dropped.items()},
        "likeness": _means(judgement.owner, recorded="before", reachable="synthesis"),
        "likeness_of_others": _means(judgement.strangers, before="before", left="left"),
        "words": None if wrong is None else {"wrong": wrong.wrong, "of": wrong.said},
    }
    (folder / CARD).write_text(json.dumps(card), "utf-8")


def _means(figures: Figures, **names: str) -> dict[str, float | None]:
    """Return the likeness after the conversion as `converted`, and further means as named."""
    means = {key: figures.mean(name) for key, name in {"converted": "after", **names}.items()}
    return {key: None if math.isnan(mean) else round(mean, 3) for key, mean in means.items()}


def _wrong(clips: Sequence[Clip], recogniser: Recogniser) -> ErrorRate:
    """Count English words that are understood otherwise after the conversion."""
    total = ErrorRate()
    for clip in clips:
        said, understood = (
            recogniser.understand(wave, "en") for wave in (clip.original, clip.converted)
        )
        total += compare(said, understood, "en")
    return total
