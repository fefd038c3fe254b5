"""A page on which a listener compares two voices without knowing which is which.

The page holds its sounds and needs no server. It draws the order of the pairs and of the two
sounds anew whenever it is opened, and its answers say what each sound was.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shared.speech.results.audio_files import write_wav

TRIALS = 16
SECONDS = 5.0
_FADE_SECONDS = 0.02
_LEVEL = 0.06  # RMS of what is played, or as much as keeps peaks below full scale
_LOUDEST = 0.95
_PAGE = Path(__file__).with_name("blind_pairs.html")

Floats = NDArray[np.float32]


class AnswersError(Exception): ...


@dataclass(frozen=True)
class BlindPair:
    """The same sentence twice, float32 [N] at one rate, by the name of who speaks it."""

    recording: str
    sounds: Mapping[str, Floats]


def write_page(file: Path, title: str, pairs: Sequence[BlindPair], rate: int) -> None:
    def encode(wave: Floats) -> str:
        return base64.b64encode(write_wav(level(wave, rate), rate)).decode()

    content = {
        "title": title,
        "pairs": [
            {
                "recording": pair.recording,
                "sounds": [{"is": name, "wav": encode(wave)} for name, wave in pair.sounds.items()],
            }
            for pair in pairs
        ],
    }
    # A name must not end the script that holds it.
    data = json.dumps(content).replace("<", "\\u003c")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_PAGE.read_text("utf-8").replace("CONTENT", data), "utf-8")


def level(wave: Floats, rate: int) -> Floats:
    """Cut to five seconds and bring to one loudness, so that neither length nor level decides."""
    cut = wave[: round(SECONDS * rate)].astype(np.float32)
    fade = min(round(_FADE_SECONDS * rate), len(cut))
    cut[len(cut) - fade :] *= np.linspace(1, 0, fade, dtype=np.float32)
    loud = _LEVEL / max(float(np.sqrt((cut**2).mean())), 1e-6)
    peak = _LOUDEST / max(float(np.abs(cut).max()), 1e-6)
    return cut * np.float32(min(loud, peak))


def sum_up(files: Iterable[Path]) -> str:
    """Count the answers of files; a line for each two voices that were compared.

    The interval is exact (C. Clopper and E. Pearson, 1934).

    Raises:
        AnswersError: a file holds no answers of such a page.
    """
    from scipy.stats import binomtest  # noqa: PLC0415 - the page is made without it

    chosen: dict[tuple[str, str], list[str]] = {}
    for file in files:
        try:
            for answer in json.loads(file.read_text("utf-8"))["answers"]:
                first, second = sorted((answer["a"], answer["b"]))
                chosen.setdefault((first, second), []).append(answer[answer["chosen"]])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AnswersError(
                f"{file}: expected answers of a listening page: {error!r}"
            ) from error
    lines = []
    for (first, second), answers in chosen.items():
        test = binomtest(answers.count(first), len(answers))
        low, high = test.proportion_ci(0.95)
        lines.append(
            f"{first} rather than {second}: {test.k} of {test.n}, {test.k / test.n:.0%}"
            f" (95 %: {low:.0%} to {high:.0%}; p = {test.pvalue:.3f})"
        )
    return "\n".join(lines) or "no answers"
