"""Every way of getting a source sentence and the target saying the same at the same times."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pyopenjtalk
import soundfile
from numpy.typing import NDArray

from training import phones as ph
from training import sentences
from training.features import RATE as SOURCE_RATE
from training.phones import Blend, Segment
from training.sources import espeak, festival, flite, recordings
from training.target import (
    RATE,
    BorrowedContexts,
    Spoken,
    Target,
    labels_of,
    phone_of,
    speak_segments,
    voiced_everywhere,
)

# Held out: never trained on, heard by the quality harness alone.
HELD_OUT_FLITE = ("rms",)
HELD_OUT_FESTIVAL = ("pc_diphone",)
HELD_OUT_ESPEAK = ("m3", "f2", "klatt3", "anika", "pablo", "grandma")

FLITE = ("kal16", "awb", "slt")
# A Japanese man, from the package hts-voice-nitech-jp-atr503-m001; left out where it is not there.
NITECH = Path("/usr/share/hts-voice/nitech-jp-atr503-m001/nitech_jp_atr503_m001.htsvoice")
ESPEAK = (
    "", "m1", "m2", "m4", "m5", "m6", "m7", "m8", "f1", "f3", "f4", "f5", "klatt", "klatt2",
    "klatt4", "klatt6", "croak", "Andrea", "Andy", "Denis", "Alicia", "Annie", "Diogo", "Gene",
    "Hugo", "Jacky", "Lee", "Marco", "Mario", "Michael", "Nguyen", "aunty", "adam", "antonio",
    "belinda", "boris", "caleb", "david", "ed", "edward", "grandpa", "gustave", "iven", "john",
    "kaukovalta", "linda", "marcelo", "max", "michel", "miguel", "norbert", "paul", "pedro",
    "quincy", "rob", "robert", "sandro", "shelby", "steph", "steph3", "travis", "victor", "zac",
    "whisper",
)  # fmt: skip
FESTIVAL_TABLES = {
    "kal_diphone": ("en", ph.ARPABET),
    "ked_diphone": ("en", ph.ARPABET),
    "cmu_us_slt_arctic_hts": ("en", ph.ARPABET),
    "lp_diphone": ("it", ph.ITALIAN),
    "pc_diphone": ("it", ph.ITALIAN),
    "czech_dita": ("cs", ph.CZECH),
    "czech_krb": ("cs", ph.CZECH),
    "czech_machac": ("cs", ph.CZECH),
    "czech_ph": ("cs", ph.CZECH),
    "hy_fi_mv_diphone": ("fi", ph.FINNISH),
    "suo_fi_lj_diphone": ("fi", ph.FINNISH),
    "upc_ca_ona_hts": ("ca", ph.CATALAN),
    "msu_ru_nsh_clunits": ("ru", ph.RUSSIAN),
}
# Japanese phones in the phone sets of the voices that can be told phones; several are alternatives.
_TO_ARPABET = {
    "a": "aa", "i": "iy", "u": "uw|uh", "e": "eh", "o": "ow|ao", "N": "n|ng", "k": "k",
    "ky": "k y", "s": "s", "sh": "sh", "t": "t", "ty": "t y", "ch": "ch", "ts": "t s", "n": "n",
    "ny": "n y", "h": "hh", "hy": "hh y", "f": "f|hh w", "m": "m", "my": "m y", "y": "y",
    "r": "r|l|d|l", "ry": "r y|l y", "w": "w", "g": "g", "gy": "g y", "z": "z", "j": "jh|zh",
    "d": "d", "dy": "d y", "b": "b", "by": "b y", "p": "p", "py": "p y", "v": "v", "kw": "k w",
    "gw": "g w", "sil": "pau", "pau": "pau",
}  # fmt: skip
_TO_MRPA = _TO_ARPABET | {
    "a": "aa|a|uh",
    "i": "ii|i",
    "u": "uu|u",
    "e": "e",
    "o": "oo|o",
    "h": "h",
    "hy": "h y",
    "f": "f|h w",
    "sil": "#",
    "pau": "#",
}
_TO_ITALIAN = {
    "a": "a|a1", "i": "i|i1", "u": "u|u1", "e": "e|e1|E1", "o": "o|o1|O1", "N": "n", "k": "k",
    "ky": "k j", "s": "s", "sh": "S", "t": "t", "ty": "t j", "ch": "tS", "ts": "ts", "n": "n",
    "ny": "J", "h": "f", "hy": "S", "f": "f", "m": "m", "my": "m j", "y": "j", "r": "r|l",
    "ry": "r j|L", "w": "w", "g": "g", "gy": "g j", "z": "z", "j": "dZ", "d": "d", "dy": "d j",
    "b": "b", "by": "b j", "p": "p", "py": "p j", "v": "v", "kw": "k w", "gw": "g w", "sil": "#",
    "pau": "#",
}  # fmt: skip
_TO_CZECH = {
    "a": "a|a:", "i": "i|i:", "u": "u|u:", "e": "e|e:", "o": "o|o:", "N": "n", "k": "k",
    "ky": "k j", "s": "s", "sh": "s~", "t": "t", "ty": "t~", "ch": "c~", "ts": "c", "n": "n",
    "ny": "n~", "h": "h|ch", "hy": "ch j", "f": "f", "m": "m", "my": "m j", "y": "j", "r": "r|l",
    "ry": "r j|l j", "w": "u|v", "g": "g", "gy": "g j", "z": "z", "j": "z~|d~", "d": "d",
    "dy": "d~", "b": "b", "by": "b j", "p": "p", "py": "p j", "v": "v", "kw": "k v", "gw": "g v",
    "sil": "#", "pau": "#",
}  # fmt: skip
_TO_FINNISH = {
    "a": "a|a:", "i": "i|i:", "u": "u|u:", "e": "e|e:", "o": "o|o:", "N": "n|N", "k": "k",
    "ky": "k j", "s": "s", "sh": "s j", "t": "t", "ty": "t j", "ch": "t s j", "ts": "t s",
    "n": "n", "ny": "n j", "h": "h", "hy": "h j", "f": "f", "m": "m", "my": "m j", "y": "j",
    "r": "r|l", "ry": "r j|l j", "w": "u|v", "g": "g", "gy": "g j", "z": "s", "j": "d j",
    "d": "d", "dy": "d j", "b": "b", "by": "b j", "p": "p", "py": "p j", "v": "v", "kw": "k v",
    "gw": "g v", "sil": "#", "pau": "#",
}  # fmt: skip
_TO_TELUGU = {
    "a": "a|aa", "i": "ih|iy", "u": "uh|uw", "e": "eh|ee", "o": "oh|oo", "N": "n|m", "k": "k",
    "ky": "k y", "s": "s", "sh": "sh", "t": "th", "ty": "th y", "ch": "ch", "ts": "th s", "n": "n",
    "ny": "n y", "h": "h", "hy": "h y", "f": "f", "m": "m", "my": "m y", "y": "y", "r": "r|l",
    "ry": "r y|l y", "w": "v", "g": "g", "gy": "g y", "z": "s", "j": "j", "d": "dh", "dy": "dh y",
    "b": "b", "by": "b y", "p": "p", "py": "p y", "v": "v", "kw": "k v", "gw": "g v", "sil": "pau",
    "pau": "pau",
}  # fmt: skip
SINGERS = {
    "kal_diphone": (_TO_ARPABET, 105.0),
    "ked_diphone": (_TO_ARPABET, 110.0),
    "rab_diphone": (_TO_MRPA, 110.0),
    "lp_diphone": (_TO_ITALIAN, 185.0),
    "pc_diphone": (_TO_ITALIAN, 115.0),
    "czech_dita": (_TO_CZECH, 190.0),
    "czech_krb": (_TO_CZECH, 240.0),
    "czech_machac": (_TO_CZECH, 110.0),
    "czech_ph": (_TO_CZECH, 105.0),
    "hy_fi_mv_diphone": (_TO_FINNISH, 105.0),
    "suo_fi_lj_diphone": (_TO_FINNISH, 190.0),
    "telugu_NSK_diphone": (_TO_TELUGU, 110.0),
}
_ESPEAK_NONSENSE = ("it", "es", "cs", "fi", "ca", "de", "fr", "ru", "pl")
_OTHER_LETTERS = ("pt", "ro", "hu", "hr", "sk", "sv", "nl", "id", "tr", "sw", "eo", "la", "et")


@dataclass(frozen=True)
class Pair:
    """One sentence of a source speaker and of the target, with the same times.

    Attributes:
        speaker: who, such as ``"festival/ked_diphone/ja"``.
        waves: source recordings as (float32 samples, rate); all have the target's times.
        spoken: the target.
        phones: the target's phones, one per entry of ``spoken.ends``.
    """

    speaker: str
    waves: list[tuple[NDArray[np.float32], int]]
    spoken: Spoken
    phones: list[str]


class Studio:
    """Makes pairs with one random stream; one per process.

    Args:
        scratch: folder for temporary files.
        seed: makes the stream.
        dictionary: a CMU pronouncing dictionary, for English words.
        russian: folder of the Festival voice msu_ru_nsh_clunits, whose natural recordings
            and labels are read; None leaves them out.
    """

    def __init__(self, scratch: Path, seed: int, dictionary: Path, russian: Path | None) -> None:
        self.random = Random(seed)
        self.scratch = scratch
        self.target = Target(scratch)
        self._nitech = Target(scratch, NITECH)
        self.contexts = BorrowedContexts(self.random)
        self._words = sentences.dictionary_words(dictionary)
        self._espeak = espeak.Espeak()
        self._russian = sorted((russian / "wav").glob("*.wav")) if russian else []
        self.random.shuffle(self._russian)
        self._russian_index = 0
        self._readings: dict[str, list[tuple[NDArray[np.float32], list[Segment]]]] = {}

    def mei_altered(self) -> Iterator[Pair]:
        """The target herself, and three of her with other vocal tracts, pitches and voicings."""
        choose, between = self.random.choice, self.random.uniform
        labels = labels_of(sentences.japanese(self.random))
        rate, semitones = between(0.8, 1.25), between(-4, 3)
        spoken = self.target.speak(labels, options={"r": rate, "fm": semitones})
        waves = [_floats(spoken.wave)]
        for _ in range(2):
            options = {
                "r": rate, "fm": semitones + between(-17, 5), "a": between(0.44, 0.67),
                "jm": between(0.3, 1.2), "b": choose([0, 0, 0.2, 0.4]),
                "u": choose([0.5, 0.5, 0.3, 0.7]),
            }  # fmt: skip
            waves.append(_floats(self.target.speak(labels, options=options).wave))
        yield Pair("mei", waves, spoken, [phone_of(label) for label in labels])

    def nitech_japanese(self) -> Iterator[Pair]:
        """A Japanese man at his own times, in half of the cases with another vocal tract."""
        between = self.random.uniform
        labels = labels_of(sentences.japanese(self.random))
        options = {"r": between(0.75, 1.25), "fm": between(-5, 7), "jm": between(0.5, 1.0)}
        if self.random.random() < 0.5:
            options |= {"a": between(0.47, 0.63), "u": self.random.choice([0.5, 0.3, 0.7])}
        said = self._nitech.speak(labels, options=options)
        times = list(zip([0.0, *said.ends[:-1]], said.ends, strict=True))
        spoken = self.target.speak(labels, times)
        yield Pair("hts/nitech/ja", [_floats(said.wave)], spoken, [phone_of(x) for x in labels])

    def flite_japanese(self, voice: str) -> Iterator[Pair]:
        """A flite voice told Japanese phones; the target takes over its durations."""
        labels = voiced_everywhere(labels_of(sentences.japanese(self.random)))
        names = [phone_of(label) for label in labels]
        sequence, owners = self._spell(names, _TO_ARPABET)
        said = flite.speak(
            self.scratch, voice, self.random.uniform(0.75, 1.2), phones=" ".join(sequence)
        )
        if len(said.phones) != len(sequence):
            return
        ends = [0.0] * len(labels)
        for (_, end), owner in zip(said.phones, owners, strict=True):
            ends[owner] = end
        times = list(zip([0.0, *ends[:-1]], ends, strict=True))
        spoken = self.target.speak(labels, times)
        yield Pair(f"flite/{voice}/ja", [(said.wave, said.rate)], spoken, names)

    def flite_english(self, voice: str) -> Iterator[Pair]:
        """A flite voice speaking English words."""
        text = sentences.english(self.random, self._words)
        said = flite.speak(self.scratch, voice, self.random.uniform(0.8, 1.25), text=text)
        yield self._foreign(f"flite/{voice}/en", said, ph.ARPABET)

    def festival_japanese(self, voices: list[str]) -> Iterator[Pair]:
        """Diphone voices of Festival told Japanese phones, times and melody of the target."""
        prepared = []
        orders: list[festival.Text | festival.Score] = []
        for voice in voices:
            table, pitch = SINGERS[voice]
            labels = voiced_everywhere(labels_of(sentences.japanese(self.random)))
            names = [phone_of(label) for label in labels]
            options = {"r": self.random.uniform(0.75, 1.2)}
            spoken = self.target.speak(labels, options=options)
            orders.append(festival.Score(voice, self._score(names, spoken, table, pitch)))
            prepared.append((voice, spoken, names))
        said = festival.speak(self.scratch, orders)
        for (voice, spoken, names), speech in zip(prepared, said, strict=True):
            if speech is not None and abs(len(speech.wave) / speech.rate - spoken.ends[-1]) < 0.1:
                yield Pair(f"festival/{voice}/ja", [(speech.wave, speech.rate)], spoken, names)

    def festival_native(self, voices: list[str]) -> Iterator[Pair]:
        """Voices of Festival speaking (invented) words of their own language."""
        orders: list[festival.Text | festival.Score] = [
            festival.Text(voice, self._text(FESTIVAL_TABLES[voice][0])) for voice in voices
        ]
        said = festival.speak(self.scratch, orders)
        for voice, speech in zip(voices, said, strict=True):
            if speech is not None:
                language, table = FESTIVAL_TABLES[voice]
                yield self._foreign(f"festival/{voice}/{language}", speech, table)

    def espeak_japanese(self, variant: str) -> Iterator[Pair]:
        """espeak-ng reading Japanese."""
        kana = pyopenjtalk.g2p(sentences.japanese(self.random), kana=True)
        yield from self._espeak_says("ja", variant, kana)

    def espeak_other(self, variant: str) -> Iterator[Pair]:
        """espeak-ng reading English or invented words in one of many languages."""
        if self.random.random() < 0.4:
            language = self.random.choice(["en-us", "en-us", "en-gb-scotland", "en-gb-x-rp"])
            text = self._text("en")
        elif self.random.random() < 0.6:
            language = self.random.choice(_ESPEAK_NONSENSE)
            text = self._text(language)
        else:
            language = self.random.choice(_OTHER_LETTERS)
            text = self._text("it")
        yield from self._espeak_says(language, variant, text)

    def russian_recording(self) -> Iterator[Pair]:
        """A piece of natural Russian speech (one man), with the labels that come with it."""
        file = self._russian[self._russian_index % len(self._russian)]
        self._russian_index += 1
        wave, rate = soundfile.read(file, dtype="float32")
        labels = festival.read_labels(file.parent.parent / "lab" / f"{file.stem}.lab")
        for first, last in _pieces(labels, 7.0):
            start = labels[first - 1][1] if first else 0.0
            piece = [(name, end - start) for name, end in labels[first:last]]
            samples = wave[int(start * rate) : int(labels[last - 1][1] * rate)]
            speech = flite.TimedSpeech(samples, rate, piece)
            yield self._foreign("natural/ru_nsh", speech, ph.RUSSIAN)

    def prompt_words(self, reader: recordings.Reader) -> Iterator[Pair]:
        """Single words read by a person, several in a row with pauses between them."""
        if reader.name not in self._readings:
            self._readings[reader.name] = self._align(reader)
        readings = self._readings[reader.name]
        if len(readings) < 5:
            return
        waves: list[NDArray[np.float32]] = []
        segments: list[Segment] = []
        time = 0.0
        for wave, timed in self.random.sample(readings, 5):
            gap = np.zeros(int(self.random.uniform(0.05, 0.35) * SOURCE_RATE), np.float32)
            segments.append(Segment(Blend.pure("pau"), time, time + len(gap) / SOURCE_RATE))
            time += len(gap) / SOURCE_RATE
            segments += [Segment(s.blend, time + s.start, time + s.end) for s in timed]
            time += len(wave) / SOURCE_RATE
            waves += [gap, wave]
        speech = (np.concatenate(waves), SOURCE_RATE)
        yield self._pair(f"words/{reader.name}", speech, segments)

    def _align(self, reader: recordings.Reader) -> list[tuple[NDArray[np.float32], list[Segment]]]:
        aligner = recordings.Aligner()
        readings = []
        for prompt, text in recordings.words(reader.language).items():
            file = recordings.find(reader, prompt)
            if file is None:
                continue
            symbols = espeak.pronounce(self._espeak, text, reader.language)
            blends = [b for symbol in symbols if symbol != "ʲ" for b in ph.from_ipa(symbol)]
            wave = recordings.load(file)
            segments = aligner.align(wave, blends)
            if segments is not None:
                readings.append((wave, segments))
        return readings

    def _text(self, language: str) -> str:
        if language == "en":
            return sentences.english(self.random, self._words)
        return sentences.nonsense(self.random, language)

    def _spell(self, names: list[str], table: dict[str, str]) -> tuple[list[str], list[int]]:
        """Phones of another set, and for each of them the index of the phone that it spells."""
        sequence: list[str] = []
        owners: list[int] = []
        for index, name in enumerate(names):
            following = names[index + 1] if index + 1 < len(names) else "t"
            if name == ph.CLOSURE:
                heard = table.get(following, "t").split("|")[0].split()[0]
                spelled = (
                    heard if following not in {"pau", "sil"} and heard in {"k", "p", "s"} else "t"
                )
            else:
                key = name.lower() if name in ph.DEVOICED else name
                spelled = self.random.choice(table[key].split("|"))
            for phone in spelled.split():
                sequence.append(phone)
                owners.append(index)
        return sequence, owners

    def _score(
        self, names: list[str], spoken: Spoken, table: dict[str, str], pitch: float
    ) -> list[tuple[str, float, float]]:
        sequence, owners = self._spell(names, table)
        starts = np.concatenate([[0.0], spoken.ends[:-1]])
        log_f0 = spoken.log_f0
        mean = log_f0[log_f0 > 0].mean()
        lift = np.log(pitch * self.random.uniform(0.8, 1.35))
        notes = []
        for phone, owner in zip(sequence, owners, strict=True):
            share = owners.count(owner)
            seconds = (spoken.ends[owner] - starts[owner]) / share
            frame = min(int((starts[owner] + spoken.ends[owner]) * 50), len(log_f0) - 1)
            value = log_f0[frame]
            notes.append(
                (phone, float(seconds), float(np.exp(value - mean + lift)) if value else 0.0)
            )
        return notes

    def _foreign(self, speaker: str, said: flite.TimedSpeech, table: dict[str, str]) -> Pair:
        segments: list[Segment] = []
        start = 0.0
        for name, end in said.phones:
            segments += _split(ph.from_table(name, table), start, max(end, start + 1e-3))
            start = max(end, start + 1e-3)
        return self._pair(speaker, (said.wave, said.rate), segments)

    def _espeak_says(self, language: str, variant: str, text: str) -> Iterator[Pair]:
        between = self.random.randint
        voice = f"{language}+{variant}" if variant else language
        said = self._espeak.speak(text, voice, between(120, 210), between(10, 90), between(25, 80))
        total = len(said.wave) / said.rate
        ends = [start for start, _ in said.phonemes[1:]] + [total]
        segments: list[Segment] = []
        for (start, symbol), end in zip(said.phonemes, ends, strict=True):
            if symbol.startswith("(") or end <= start:
                continue
            blends = ph.from_ipa(symbol)
            if symbol == "ʲ":
                continue
            segments += _split(blends or [Blend.pure("pau")], start, end)
        if segments and total > 0.5:
            lead = Segment(Blend.pure("pau"), 0.0, segments[0].start)
            head = [lead] if lead.end > 0.01 else []
            yield self._pair(f"espeak/{voice}", (said.wave, said.rate), head + segments)

    def _pair(
        self, speaker: str, wave: tuple[NDArray[np.float32], int], segments: list[Segment]
    ) -> Pair:
        cleaned = _with_silent_ends(_merged(segments))
        spoken = speak_segments(self.target, self.contexts, cleaned)
        return Pair(speaker, [wave], spoken, [s.blend.phone for s in cleaned])


def _floats(wave: NDArray[np.int16]) -> tuple[NDArray[np.float32], int]:
    return (wave / 32768).astype(np.float32), RATE


def _split(blends: list[Blend], start: float, end: float) -> list[Segment]:
    step = (end - start) / max(len(blends), 1)
    return [Segment(b, start + i * step, start + (i + 1) * step) for i, b in enumerate(blends)]


def _merged(segments: list[Segment]) -> list[Segment]:
    """Neighbouring pauses become one, as do geminates, which the target has no label for."""
    result: list[Segment] = []
    for segment in segments:
        previous = result[-1] if result else None
        if (
            previous is not None
            and previous.blend == segment.blend
            and segment.blend.phone not in ph.VOWELS
        ):
            result[-1] = Segment(previous.blend, previous.start, segment.end)
        else:
            start = previous.end if previous is not None else segment.start
            result.append(Segment(segment.blend, start, max(segment.end, start + 1e-3)))
    return result


def _with_silent_ends(segments: list[Segment]) -> list[Segment]:
    silence = Blend.pure(ph.SILENCE)
    first, last = segments[0], segments[-1]
    if first.blend.phone == ph.PAUSE:
        segments[0] = Segment(silence, 0.0, first.end)
    else:
        segments.insert(0, Segment(silence, 0.0, max(first.start, 0.005)))
    if last.blend.phone == ph.PAUSE:
        segments[-1] = Segment(silence, segments[-1].start, last.end)
    else:
        segments.append(Segment(silence, last.end, last.end + 0.05))
    return segments


def _pieces(labels: list[tuple[str, float]], longest: float) -> list[tuple[int, int]]:
    """Cuts an utterance at pauses into pieces of at most about `longest` seconds."""
    pieces, first, start = [], 0, 0.0
    for index, (name, end) in enumerate(labels):
        is_last = index + 1 == len(labels)
        if is_last or (name == "pau" and end - start > longest / 2):
            if end - start < longest * 2 and index + 1 - first > 5:
                pieces.append((first, index + 1))
            first, start = index + 1, end
    return pieces


def scratch_folder() -> Path:
    """Memory-backed where the system has it: the synthesisers talk through files."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
