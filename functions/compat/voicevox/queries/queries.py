"""Between the bodies of VOICEVOX's clients and what the engines speak."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from functions.compat.voicevox.queries import models
from speech.engines.interface.text_engine import PhraseEngine, SpeechOptions
from speech.signal.arrays import Samples
from speech.signal.samples import resample
from speech.text.duration import estimate_seconds
from speech.text.phones.accents import AccentPhrase, Mora, mora_of

SAMPLE_RATE = 24_000
_PAUSE = "pau"
_CLOSURE = {"q": "cl"}
_COMMA = ","
_QUESTION = "?"
_USUAL_PAUSE_SECONDS = 0.3
_LOWEST_PITCH = 0.25
_SLOWEST, _FASTEST = 0.25, 4.0
_LONGEST_PAUSE_SECONDS = 0.45


def query_of(phrases: Sequence[AccentPhrase], text: str) -> models.AudioQuery:
    """Make the query that a client changes and sends back.

    Args:
        phrases: of the text.
        text: as the client sent it.
    """
    return models.AudioQuery(
        accent_phrases=[body_of(phrase) for phrase in phrases],
        speed_scale=1.0,
        pitch_scale=0.0,
        intonation_scale=1.0,
        volume_scale=1.0,
        pre_phoneme_length=0.1,
        post_phoneme_length=0.1,
        output_sampling_rate=SAMPLE_RATE,
        output_stereo=False,
        kana=text,
    )


def apply_preset(query: models.AudioQuery, preset: models.Preset) -> models.AudioQuery:
    """Make a query that asks for what a preset says."""
    settings = preset.model_dump(exclude={"id", "name", "speaker_uuid", "style_id"})
    return query.model_copy(update=settings)


def body_of(phrase: AccentPhrase) -> models.AccentPhrase:
    """Write an accent phrase as clients know it; lengths and pitch are the voice's, and stay 0."""
    return models.AccentPhrase(
        moras=[_mora_body(mora) for mora in phrase.morae],
        accent=phrase.accent,
        is_interrogative=phrase.is_question,
    )


def _mora_body(mora: Mora) -> models.Mora:
    consonant = mora.sound.consonant if mora.sound else None
    vowel = mora.sound.vowel if mora.sound else _PAUSE
    return models.Mora(
        text=mora.kana,
        consonant=consonant,
        consonant_length=None if consonant is None else 0.0,
        vowel=vowel.upper() if mora.is_devoiced else _CLOSURE.get(vowel, vowel),
        vowel_length=0.0,
        pitch=0.0,
    )


def phrases_of(bodies: Iterable[models.AccentPhrase]) -> list[AccentPhrase]:
    """Read accent phrases as clients send them, from VOICEVOX or from AivisSpeech."""
    return [_phrase_of(body) for body in bodies]


def _phrase_of(body: models.AccentPhrase) -> AccentPhrase:
    morae = [_read_mora(mora) for mora in body.moras]
    signs = {mora.kana for mora in morae if mora.sound is None}
    if body.is_interrogative and _QUESTION not in signs:
        morae.append(Mora(_QUESTION, None))
    if body.pause_mora is not None:
        morae.append(Mora(_COMMA, None))
    return AccentPhrase(tuple(morae), body.accent)


def _read_mora(body: models.Mora) -> Mora:
    mora = mora_of(body.text) or Mora(_COMMA, None)
    is_devoiced = mora.sound is not None and body.vowel in set("AIUEO")
    return replace(mora, is_devoiced=is_devoiced)


def options_of(query: models.AudioQuery, style: int, seed: int = 0) -> SpeechOptions:
    """Translate a query to the engines' options.

    Args:
        query: what the client asks for.
        style: of the engine.
        seed: of the chance in the voice.
    """
    pause = query.pause_length_scale
    if query.pause_length is not None:
        pause *= query.pause_length / _USUAL_PAUSE_SECONDS
    return SpeechOptions(
        speed=query.speed_scale,
        pitch=12 * math.log2(max(1 + query.pitch_scale, _LOWEST_PITCH)),
        intonation=query.intonation_scale,
        tempo_dynamics=query.tempo_dynamics_scale,
        volume=query.volume_scale,
        pauses=pause,
        silence_before=query.pre_phoneme_length / query.speed_scale,
        silence_after=query.post_phoneme_length / query.speed_scale,
        style=style,
        seed=seed,
    )


def characters_of(query: models.AudioQuery) -> int:
    """Count the characters that a query speaks: its morae and signs.

    The text that it says to come from counts only where it has more: some voices read it, too.
    """
    phrases = query.accent_phrases
    spoken = sum(len(each.moras) + (each.pause_mora is not None) for each in phrases)
    return max(spoken, len(query.kana or ""))


def seconds_of(query: models.AudioQuery) -> float:
    """Estimate how long a query takes, from its phones, before anything is spoken."""
    options = options_of(query, 0)
    speed = min(max(options.speed, _SLOWEST), _FASTEST)
    morae = [mora for phrase in query.accent_phrases for mora in phrase.moras]
    pauses = sum(mora.vowel == _PAUSE for mora in morae)
    pauses += sum(phrase.pause_mora is not None for phrase in query.accent_phrases)
    phones = (phone for mora in morae for phone in (mora.consonant, mora.vowel) if phone)
    spoken = estimate_seconds(phones) + _LONGEST_PAUSE_SECONDS * options.pauses * pauses
    return options.silence_before + options.silence_after + spoken / speed


def speak(
    engine: PhraseEngine, query: models.AudioQuery, style: int, *, raise_questions: bool = True
) -> Iterator[Samples]:
    """Speak a query, piece by piece.

    Args:
        engine: the voice.
        query: what the client asks for.
        style: of the engine.
        raise_questions: whether questions are spoken as such.

    Returns:
        Pieces at the query's sample rate, float32 [N], or [N, 2] in stereo.

    Raises:
        TextError: see PhraseEngine; before the first piece.
    """
    phrases = phrases_of(query.accent_phrases)
    if not raise_questions:
        phrases = [_as_statement(phrase) for phrase in phrases]
    pieces = engine.speak_phrases(phrases, query.kana, options_of(query, style))
    return (_as_asked(piece, engine.sample_rate, query) for piece in pieces)


def _as_statement(phrase: AccentPhrase) -> AccentPhrase:
    morae = (
        Mora(".", None) if mora.sound is None and mora.kana == _QUESTION else mora
        for mora in phrase.morae
    )
    return replace(phrase, morae=tuple(morae))


def _as_asked(piece: Samples, rate: int, query: models.AudioQuery) -> Samples:
    samples = resample(piece, rate, query.output_sampling_rate)
    return np.stack([samples, samples], axis=1) if query.output_stereo else samples
