"""Checks the owner's spoken consent: the same voice as the recordings, and the right words."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from shared.characters.consent import ConsentSentence
from shared.characters.own.own_character import TrainingErrorCode
from shared.speech.signal.samples import resample
from shared.speech.text.front_end import Reader
from shared.speech.text.spoken_form import write_out
from tools.training.decoder.features import RATE, Floats
from tools.training.judges.judgement import edits, units
from tools.training.judges.measures import Embedding, voice_of
from tools.training.judges.panel import Recogniser
from tools.training.recordings.comparison import join
from tools.training.recordings.selection import OWNER_LIKENESS
from tools.training.recordings.usable_speech import OwnerRecording, Utterance, read_pieces, screen
from tools.training.recordings.work_folder import RecordingsError

LEAST_SECONDS = 3.0
_MOST_CLIPS = 40
_MOST_WRONG = 0.25  # of a word's letters or sounds: a recogniser is wrong now and then, too
_LEAST_WORDS = 3
_YEAR = "ネン"  # stands before the month, so that the eleventh month is not taken for the first
_LONG_E = re.compile("(?<=[エケセテネヘメレゲゼデベペ])イ")
_LONG_O = re.compile("(?<=[オコソトノホモヨョロゴゾドボポ])ウ")


WITHOUT = "Without a spoken consent: nobody checked that the owner of the voice agrees."
"""What a character's consent says if none was asked for."""


def check_spoken_consent(
    recording: Path,
    sentence: ConsentSentence,
    owner: Sequence[Utterance],
    encoder: Embedding,
    recogniser: Recogniser | None,
) -> str:
    """Check a recording of the sentence; return a statement, or raise RecordingsError."""
    speech = speech_of(recording)
    seconds = len(speech) / RATE
    if seconds < LEAST_SECONDS:
        raise RecordingsError(
            f"{recording.name}: expected the spoken consent, found {seconds:.1f} s of usable"
            " speech; record the whole sentence again, close to the microphone and without noise.",
            TrainingErrorCode.CONSENT_REFUSED,
        )
    others = [utterance for utterance in owner if utterance.file != recording.name]
    clips = join(others)
    some = clips[:: -(-len(clips) // _MOST_CLIPS)]
    likeness = float(encoder.embed(speech) @ voice_of(some, encoder))
    if likeness < OWNER_LIKENESS:
        raise RecordingsError(
            f"{recording.name}: expected the voice of the recordings, found another one (likeness"
            f" {likeness:.2f}, at least {OWNER_LIKENESS:.2f} wanted); let the owner of the voice"
            " speak the sentence, with the same microphone.",
            TrainingErrorCode.CONSENT_REFUSED,
        )
    if recogniser is not None:
        heard = recogniser.understand(speech, sentence.language)
        missing = missing_parts(sentence, heard)
        if missing:
            raise RecordingsError(
                f"{recording.name}: expected to hear {', '.join(missing)}, found: {heard.strip()}."
                f" Record this sentence again: {sentence.text}",
                TrainingErrorCode.CONSENT_REFUSED,
            )
    words = "words not checked" if recogniser is None else "a recogniser heard the sentence"
    return (
        f"Spoken consent of {sentence.day.isoformat()}: in the voice of the recordings (likeness"
        f" {likeness:.2f}), {words}."
    )


def missing_parts(sentence: ConsentSentence, heard: str) -> list[str]:
    """Return which parts of a sentence were not heard; one of the four words may be missing.

    A recogniser writes words in its own way, so Japanese is compared by its sounds.
    """
    if sentence.language == "ja":
        read = sounds_reader()
        sounds = read(heard)
        words = {word: read(word) for word in sentence.words}
        missing = [
            word for word, read_ in words.items() if not is_one_of(read_, parts_like(read_, sounds))
        ]
        # As in English, the year may be misheard: four digits in a row often are.
        day = read(f"{sentence.day.month}月{sentence.day.day}日")
        is_dated = f"{_YEAR}{day}" in sounds
    else:
        said = units(heard, sentence.language)
        missing = [word for word in sentence.words if not is_one_of(word.lower(), said)]
        day = str(sentence.day.day)
        # Recognisers write 1st, 1er or 1º.
        is_day = any(re.fullmatch(rf"{day}(st|nd|rd|th|er|[oºª])?", each) for each in said)
        is_dated = is_day and is_one_of(sentence.month.lower(), said)
    enough = len(sentence.words) - len(missing) >= _LEAST_WORDS
    return ([] if is_dated else [sentence.date]) + ([] if enough else missing)


def sounds_reader() -> Callable[[str], str]:
    reader = Reader()

    def read(text: str) -> str:
        said = "".join(
            word.reading for word in reader.read(write_out(text)).words if word.reading != "、"
        )
        return _LONG_O.sub("ー", _LONG_E.sub("ー", said))

    return read


def is_one_of(wanted: str, said: Iterable[str]) -> bool:
    return any(edits(wanted, each) <= _MOST_WRONG * len(wanted) for each in said)


def parts_like(wanted: str, sounds: str) -> Iterator[str]:
    for length in range(max(1, len(wanted) - 1), len(wanted) + 2):
        yield from (sounds[at : at + length] for at in range(len(sounds)))


def speech_of(file: Path) -> Floats:
    waves: list[Floats] = []
    try:
        for piece in read_pieces(OwnerRecording(file, file.name)):
            kept, _ = screen(piece)
            waves += [resample(each.samples, each.rate, RATE) for each in kept]
    except RecordingsError as error:
        raise RecordingsError(
            f"{file.name}: expected the spoken consent, but {error}.",
            TrainingErrorCode.CONSENT_REFUSED,
        ) from error
    return np.concatenate(waves) if waves else np.zeros(0, np.float32)
