"""What is converted: held-out synthetic speakers with the target's answer, and natural prompts."""

import pickle
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import soxr
from numpy.typing import NDArray

from training import speakers
from training.features import RATE
from training.sources import recordings
from training.speakers import Pair, Studio
from training.target import RATE as TARGET_RATE

Floats = NDArray[np.float32]
Kept = TypeVar("Kept")
SEED = 20_260
ENGLISH = recordings.Reader("en_allison", recordings.SOUNDS / "en_US_f_Allison", "en")
# Prompts whose words follow from their names.
_PHRASES = {
    "goodbye": "goodbye", "hello-world": "hello world", "im-sorry": "i'm sorry",
    "please-try-again": "please try again", "vm-goodbye": "goodbye", "hours": "hours",
    "minutes": "minutes", "seconds": "seconds", "activated": "activated",
    "cancelled": "cancelled", "disabled": "disabled", "extension": "extension",
    "call-waiting": "call waiting", "do-not-disturb": "do not disturb", "invalid-word": "",
    "phonetic/a_p": "alpha", "phonetic/b_p": "bravo", "phonetic/c_p": "charlie",
    "phonetic/d_p": "delta", "phonetic/e_p": "echo", "phonetic/f_p": "foxtrot",
    "phonetic/g_p": "golf", "phonetic/h_p": "hotel", "phonetic/i_p": "india",
    "phonetic/k_p": "kilo", "phonetic/m_p": "mike", "phonetic/n_p": "november",
    "phonetic/o_p": "oscar", "phonetic/p_p": "papa", "phonetic/r_p": "romeo",
    "phonetic/s_p": "sierra", "phonetic/t_p": "tango", "phonetic/u_p": "uniform",
    "phonetic/v_p": "victor", "phonetic/w_p": "whiskey", "phonetic/y_p": "yankee",
    "phonetic/z_p": "zulu",
}  # fmt: skip
_NUMBER_WORDS = {
    **dict(enumerate(
        ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
         " fifteen sixteen seventeen eighteen nineteen twenty").split()
    )),
    30: "thirty", 40: "forty", 50: "fifty", 60: "sixty", 70: "seventy", 80: "eighty", 90: "ninety",
}  # fmt: skip
_LONG = (
    "demo-echotest", "demo-abouttotry", "conf-adminmenu", "vm-intro", "tt-weasels",
    "dir-intro", "demo-moreinfo", "conf-usermenu", "vm-nonumber", "check-number-dial-again",
)  # fmt: skip
_BOOK = Path("/usr/share/pocketsphinx/test/data/librivox")


@dataclass(frozen=True)
class Item:
    """A held-out sentence, at 16 kHz, and the target saying it with the same times."""

    speaker: str
    wave: Floats
    target: Floats
    phones: list[str]
    ends: NDArray[np.float64]


@dataclass(frozen=True)
class Prompt:
    """A short natural recording at 16 kHz and the words said in it."""

    name: str
    wave: Floats
    words: str


def items(folder: Path, dictionary: Path, per_voice: int = 8) -> list[Item]:
    """The held-out sentences, made once and kept in a folder."""
    file = folder / f"items-{per_voice}.pickle"
    if file.exists():
        loaded: list[Item] = pickle.loads(file.read_bytes())
        return loaded
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=speakers.scratch_folder()) as scratch:
        studio = Studio(Path(scratch), SEED, dictionary, None)
        made = [_item(pair) for pair in _pairs(studio, per_voice)]
    file.write_bytes(pickle.dumps(made))
    return made


def _pairs(studio: Studio, count: int) -> Iterator[Pair]:
    for voice in speakers.HELD_OUT_FLITE:
        rounds = (pair for _ in range(4 * count) for pair in studio.flite_japanese(voice))
        yield from islice(rounds, count)
    for voice in speakers.HELD_OUT_FESTIVAL:
        rounds = (pair for _ in range(4 * count) for pair in studio.festival_japanese([voice]))
        yield from islice(rounds, count)
    for voice in speakers.HELD_OUT_ESPEAK:
        rounds = (pair for _ in range(4 * count) for pair in studio.espeak_japanese(voice))
        yield from islice(rounds, max(1, count // 4))
    for _ in range(max(1, count // 2)):
        for pair in studio.mei_altered():
            yield Pair("mei", pair.waves[:1], pair.spoken, pair.phones)


def _item(pair: Pair) -> Item:
    wave, rate = pair.waves[0]
    target = (pair.spoken.wave / 32768).astype(np.float32)
    return Item(
        pair.speaker,
        soxr.resample(wave, rate, RATE).astype(np.float32),
        soxr.resample(target, TARGET_RATE, RATE).astype(np.float32),
        pair.phones,
        pair.spoken.ends,
    )


def prompts(folder: Path) -> list[Prompt]:
    """Short English prompts by a person who was never trained on, in any language."""
    return _kept(folder / "prompts.pickle", _read_prompts)


def _kept(file: Path, make: Callable[[], Kept]) -> Kept:
    """What was made once; starting a decoder for every recording takes its time."""
    if file.exists():
        kept: Kept = pickle.loads(file.read_bytes())
        return kept
    made = make()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps(made))
    return made


def _read_prompts() -> list[Prompt]:
    said = recordings.words("en") | {name: words for name, words in _PHRASES.items() if words}
    said |= {f"digits/{number}": word for number, word in _NUMBER_WORDS.items()}
    found = []
    for name, words in said.items():
        file = recordings.find(ENGLISH, name)
        if file is not None and not name.startswith("letters/"):
            found.append(Prompt(name, _padded(recordings.load(file)), words))
    return found


def natural(folder: Path) -> list[tuple[str, Floats]]:
    """Longer natural English by two people who were never trained on: (person, 16 kHz)."""
    return _kept(folder / "natural.pickle", _read_natural)


def _read_natural() -> list[tuple[str, Floats]]:
    files = [recordings.find(ENGLISH, name) for name in _LONG]
    found = [("allison", recordings.load(file)) for file in files if file is not None]
    found += [("book reader", recordings.load(file)) for file in sorted(_BOOK.glob("*.wav"))]
    return [(person, wave[: 12 * RATE]) for person, wave in found if len(wave) > 2 * RATE]


def _padded(wave: Floats) -> Floats:
    return np.pad(wave, (RATE // 5, RATE // 5))
