"""The engine `japanese`: text to speech with an HTS voice, such as Mei's.

Its speech is not converted. Measured on Mei, that takes half as long again and brings it no nearer
to converted recordings (7.4 dB between the long-term spectra instead of 7.0), so only register,
bandwidth and level are aligned. With the settings in her manifest, typed sentences have a median of
339 Hz and a level of -12.9 dB, converted recordings 340 Hz and -13.2 dB.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from shared.characters.manifest import CharacterManifest
from shared.speech.engines.delivery import SpeechPiece, bounded_speed, deliver, deliver_marked
from shared.speech.engines.interface import Mark, MarkedPiece
from shared.speech.engines.text_interface import (
    SpeechOptions,
    check_length,
    divide_as_asked,
    divide_text,
    nothing_to_say,
    refuse_styles,
    sentences_of,
    text_numbers,
)
from shared.speech.graphs.sessions import SessionSettings
from shared.speech.signal.pitch_shift import change_pitch
from shared.speech.signal.samples import resample
from shared.speech.signal.sound import Samples
from shared.speech.text.accents import AccentPhrase, accent_phrases, labels_of, words_of_phones
from shared.speech.text.duration import estimate_seconds, phone_of
from shared.speech.text.front_end import Reading, TextReader, read_text
from shared.speech.text.languages import JAPANESE, Division
from shared.speech.text.spoken_form import write_out

_LOG = logging.getLogger(__name__)

MEDIAN_HZ: Final = 350.0  # the median of the fundamental frequency of Mei's voice

_FULL_SCALE = 32_768.0
_UNBOUNDED = 1e6
_LOUDEST = 4.0  # twice the highest peak of usual sentences
_LOUDEST_BEGINNING = 40.0  # of a syllable that is spoken alone; what is not stable grows beyond
_SILENCES = frozenset({"sil", "pau"})
# The first is the pause that VOICEVOX makes at a comma.
_BREATH_SECONDS, _SENTENCE_SECONDS = 0.3, 0.45
_MOST_REPEATED = 6
_FRAME_PERIOD = re.compile(rb"FRAME_PERIOD:\d+")


class HtsVoice:
    """An HTS voice, Mei's without a path; each thread that speaks at once has a synthesiser."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._idle: SimpleQueue[Any] = SimpleQueue()
        self._idle_counters: SimpleQueue[Any] = SimpleQueue()
        self._rate = 0
        self._frame_period = 0

    @property
    def sample_rate(self) -> int:
        if not self._rate:
            self._idle.put(self._load())
        return self._rate

    def synthesise(self, labels: Sequence[str], speed: float, semitones: float) -> Samples:
        """Speak full-context labels: float32 [samples] at the voice's sample rate."""
        pieces = without_held(labels)
        return np.concatenate([self._speak_piece(each, speed, semitones) for each in pieces])

    def _speak_piece(self, labels: Sequence[str], speed: float, semitones: float) -> Samples:
        """Speak labels at once, or apart from those that are too loud for a stable filter."""
        wave = self._synthesise(labels, speed, semitones)
        if len(labels) == 1 or np.abs(wave).max(initial=0.0) <= _LOUDEST:
            return wave
        waves = []
        for part in loud_apart(labels, self.durations(labels), wave):
            spoken = self._synthesise(part, speed, semitones)
            if len(part) > 1 and np.abs(spoken).max(initial=0.0) > _LOUDEST_BEGINNING:
                waves += [self._synthesise([label], speed, semitones) for label in part]
            else:
                waves.append(spoken)
        return np.concatenate(waves)

    def durations(self, labels: Sequence[str]) -> list[float]:
        """Measure the seconds of each label at the voice's own tempo.

        The model of durations knows each label alone (T. Yoshimura et al., "Duration modeling for
        HMM-based speech synthesis", ICSLP 1998). The library does not report them: each label is
        spoken with one sample per frame, which takes a twentieth of the time of speaking.
        """
        try:
            counter = self._idle_counters.get_nowait()
        except Empty:
            counter = self._load(counts_frames=True)
        try:
            frames = [len(counter.synthesize([label])) for label in labels]
        finally:
            self._idle_counters.put(counter)
        rate = self.sample_rate
        return [each * self._frame_period / rate for each in frames]

    def _synthesise(self, labels: Sequence[str], speed: float, semitones: float) -> Samples:
        try:
            engine = self._idle.get_nowait()
        except Empty:
            engine = self._load()
        try:
            engine.set_speed(speed)
            engine.add_half_tone(semitones)
            wave = engine.synthesize(list(labels))
        finally:
            self._idle.put(engine)
        # Where its filter is not stable, it may grow beyond what float32 holds.
        bounded = np.nan_to_num(np.clip(wave / _FULL_SCALE, -_UNBOUNDED, _UNBOUNDED))
        samples: Samples = bounded.astype(np.float32)
        return samples

    def _load(self, *, counts_frames: bool = False) -> Any:
        """Load the voice, or with one sample per frame; the library reads only files."""
        import pyopenjtalk  # noqa: PLC0415 - see front_end.Reader
        from pyopenjtalk.htsengine import HTSEngine  # noqa: PLC0415 - likewise

        file = self._path or Path(pyopenjtalk.DEFAULT_HTS_VOICE.decode())
        if counts_frames:
            with TemporaryDirectory() as folder:
                copy = Path(folder) / "frames.htsvoice"
                copy.write_bytes(_FRAME_PERIOD.sub(b"FRAME_PERIOD:1", file.read_bytes(), 1))
                return HTSEngine(bytes(copy))
        engine = HTSEngine(bytes(file))
        self._rate = engine.get_sampling_frequency()
        self._frame_period = engine.get_fperiod()
        return engine


def without_held(labels: Sequence[str]) -> list[Sequence[str]]:
    """Cut labels, each alone, where one sound lasts longer than the voice's filter is stable."""
    cuts = {0, len(labels)}
    begin = 0
    for _, run in groupby(labels, key=phone_of):
        end = begin + len(list(run))
        if end - begin > _MOST_REPEATED:
            cuts.update(range(begin, end + 1))
        begin = end
    return [labels[begin:end] for begin, end in pairwise(sorted(cuts))]


def loud_apart(
    labels: Sequence[str], seconds: Sequence[float], wave: Samples
) -> list[Sequence[str]]:
    ends = np.rint(np.cumsum(seconds) * (len(wave) / sum(seconds))).astype(int)
    cuts = {0, len(labels)}
    for place, (begin, end) in enumerate(pairwise([0, *ends])):
        if np.abs(wave[begin:end]).max(initial=0.0) > _LOUDEST:
            cuts |= {place, place + 1}
    return [labels[begin:end] for begin, end in pairwise(sorted(cuts))]


class JapaneseEngine:
    """Speaks Japanese text with an HTS voice, whose speech is `gain` times louder."""

    def __init__(
        self,
        voice: HtsVoice,
        front_end: TextReader,
        *,
        sample_rate: int,
        semitones: float = 0.0,
        gain: float = 1.0,
    ) -> None:
        self.sample_rate = sample_rate
        self.languages = (JAPANESE,)
        self._voice = voice
        self._front_end = front_end
        self._semitones = semitones
        self._gain = np.float32(gain)

    def divide(self, text: str, options: SpeechOptions) -> Division:
        own = self._front_end.put_own_words(text)
        return divide_as_asked(own, self.languages, options)

    def estimate(self, text: str, options: SpeechOptions) -> float:
        breaths = _breaths(reading.labels for reading in self._sentences(text, options))
        phones = (phone_of(label) for labels, _ in breaths for label in labels)
        pauses = sum(pause for _, pause in breaths[1:]) * options.pauses
        return options.around(estimate_seconds(phones) + pauses, bounded_speed(options))

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        readings = self._sentences(text, options)
        return self._speak_labels((reading.labels for reading in readings), options)

    def speak_marked(self, text: str, options: SpeechOptions) -> Iterator[MarkedPiece]:
        """Speak with marks, which takes a twentieth more time.

        At other tempos than the voice's own they are right within 20 ms. Where marks fail, the rest
        of the text is spoken without them.
        """
        readings = self._sentences(text, options)
        return deliver_marked(self._marked(readings, options), self.sample_rate, options)

    def _sentences(self, text: str, options: SpeechOptions) -> list[Reading]:
        refuse_styles(options)
        readings = self._read(divide_text(self, text, options))
        if not any(split_breaths(reading.labels) for reading in readings):
            raise nothing_to_say(text, self.languages)
        return readings

    def _marked(self, readings: Iterable[Reading], options: SpeechOptions) -> Iterator[SpeechPiece]:
        speed = bounded_speed(options)
        is_marked = True
        for reading in readings:
            words = words_of_phones(reading)
            for labels, pause in _breaths([reading.labels]):
                samples = self._breathe(labels, speed, options)
                marks: list[Mark] = []
                if is_marked:
                    try:
                        marks = self._marks(labels[1:-1], words, len(samples) / self.sample_rate)
                    except Exception:  # noqa: BLE001 - in any case the text is spoken
                        _LOG.exception("speech without marks", extra={"event": "marks_left_out"})
                        is_marked = False
                yield SpeechPiece(samples, pause / speed, tuple(marks))

    def _marks(
        self, labels: Sequence[str], words: Iterator[tuple[int, str]], seconds: float
    ) -> list[Mark]:
        usual = self._voice.durations(labels)
        tempo = seconds / sum(usual)
        marks: list[Mark] = []
        begin, before = 0.0, -1
        for label, lasts, (number, text) in zip(labels, usual, words, strict=False):
            if number != before:
                marks.append(Mark("word", text, begin))
                before = number
            marks.append(Mark("phone", phone_of(label), begin))
            begin += lasts * tempo
        return marks

    def read_phrases(self, text: str) -> list[AccentPhrase]:
        check_length(text)
        return [phrase for reading in self._read_all(text) for phrase in accent_phrases(reading)]

    def speak_phrases(
        self, phrases: Sequence[AccentPhrase], text: str | None, options: SpeechOptions
    ) -> Iterator[Samples]:
        refuse_styles(options)
        if text is not None and list(phrases) == self.read_phrases(text):
            return self._speak_labels([reading.labels for reading in self._read_all(text)], options)
        return self._speak_labels(map(labels_of, sentences_of(phrases)), options)

    def _read_all(self, text: str) -> list[Reading]:
        return self._read(self.divide(text, SpeechOptions()))

    def _read(self, division: Division) -> list[Reading]:
        return read_text(self._front_end, write_out(division.text))

    def _speak_labels(
        self, sentences: Iterable[Sequence[str]], options: SpeechOptions
    ) -> Iterator[Samples]:
        speed = bounded_speed(options)
        pieces = (
            SpeechPiece(self._breathe(labels, speed, options), pause / speed)
            for labels, pause in _breaths(sentences)
        )
        return deliver(pieces, self.sample_rate, options)

    def _breathe(self, labels: Sequence[str], speed: float, options: SpeechOptions) -> Samples:
        wave = self._voice.synthesise(labels[1:-1], speed, self._semitones + options.pitch)
        spoken = resample(wave, self._voice.sample_rate, self.sample_rate) * self._gain
        return change_pitch(spoken, self.sample_rate, 0.0, options.intonation)


def _breaths(sentences: Iterable[Sequence[str]]) -> list[tuple[Sequence[str], float]]:
    return [
        (breath, _SENTENCE_SECONDS if number == 0 else _BREATH_SECONDS)
        for labels in sentences
        for number, breath in enumerate(split_breaths(labels))
    ]


def split_breaths(labels: Sequence[str]) -> list[tuple[str, ...]]:
    silences = [place for place, label in enumerate(labels) if phone_of(label) in _SILENCES]
    return [tuple(labels[begin : end + 1]) for begin, end in pairwise(silences) if end - begin > 1]


def build(manifest: CharacterManifest, settings: SessionSettings) -> JapaneseEngine:
    """Build the engine; `text.settings` may set `semitones` and `gain` over the HTS voice."""
    numbers = text_numbers(manifest, semitones=0.0, gain=1.0)
    return JapaneseEngine(
        HtsVoice(), settings.front_end, sample_rate=manifest.sample_rate, **numbers
    )


def built_in(settings: SessionSettings) -> JapaneseEngine:
    voice = HtsVoice()
    return JapaneseEngine(voice, settings.front_end, sample_rate=voice.sample_rate)
