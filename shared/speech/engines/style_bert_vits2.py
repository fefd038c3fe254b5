"""The engine `style_bert_vits2`: text to speech with the models of AivisSpeech.

The role `synthesis` is the model's own graph, with the metadata of an AIVMX file. The role `bert`
is the encoder that characters share, with its vocabulary in the metadata.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared.characters.bundle_files import BundleError
from shared.characters.manifest import MANIFEST
from shared.speech.engines.aivmx import AivmxError, AivmxFacts, StyleBertVoice, read_facts
from shared.speech.engines.delivery import SpeechPiece, deliver, to_full_scale
from shared.speech.engines.style_bert_graphs import (
    BERT_CONTRACT,
    SYNTHESIS_CONTRACT,
    BertEncoder,
    Inference,
    StyleBertSynthesis,
    Vocabulary,
    VocabularyError,
    read_vocabulary,
)
from shared.speech.engines.text_interface import (
    SpeechOptions,
    TextError,
    TextErrorCode,
    check_length,
    divide_as_asked,
    divide_text,
    nothing_to_say,
    sentences_of,
)
from shared.speech.graphs.bundle import CharacterBundle, Contract, Graph
from shared.speech.graphs.sessions import SessionSettings, shared_session
from shared.speech.signal.pitch_shift import change_pitch
from shared.speech.signal.sound import Samples
from shared.speech.text.accents import AccentPhrase, accent_phrases, phonemes_of
from shared.speech.text.duration import estimate_seconds
from shared.speech.text.front_end import JapaneseReader, Reading, read_sentences, split_sentences
from shared.speech.text.languages import JAPANESE, Division
from shared.speech.text.normalisation import normalise
from shared.speech.text.phonemes import Phonemes, phonemes
from shared.speech.text.spoken_form import write_out

_LEAST_SPEED = 0.1
_PAUSE_SECONDS = 0.2
_LONGEST_WHOLE = 250
_TRIAL = "あ"


@dataclass(frozen=True, eq=False)
class StyleBertGraphs:
    voice: StyleBertVoice
    synthesis: Graph
    encoder: Graph
    vocabulary: Vocabulary


_NUMBERED = re.compile("[\\d²³¹¼-¾⁰-₉⅐-↉①-⓿❶-➓㉈-㋋㍘-㏾]")


def written(sentence: str) -> str:
    """Write out what the reference's normalisation drops beside numbers, such as signs and units.

    Sentences of words alone stay as the reference has them.
    """
    if _NUMBERED.search(sentence):
        sentence = write_out(sentence).replace("%", "パーセント")
    return normalise(sentence)


class StyleBertVits2Engine:
    def __init__(
        self,
        voice: StyleBertVoice,
        synthesis: StyleBertSynthesis,
        reader: JapaneseReader,
        facts: AivmxFacts | None = None,
    ) -> None:
        self.sample_rate = voice.sample_rate
        self.languages = (JAPANESE,)
        self.facts = facts
        self._voice = voice
        self._synthesis = synthesis
        self._reader = reader

    def read(self, text: str) -> Phonemes:
        return phonemes(self._reader.read(normalise(text)))

    def infer(self, text: str, inference: Inference) -> Samples:
        """Speak a text in one piece, as Style-Bert-VITS2 does before it normalises the peak."""
        return self._synthesis.speak(self.read(text), inference)

    def divide(self, text: str, options: SpeechOptions) -> Division:
        return divide_as_asked(text, self.languages, options)

    def estimate(self, text: str, options: SpeechOptions) -> float:
        self.inference(options)
        sentences = self._sentences_of(text, options)
        phones = (phone for sentence in sentences for phone in sentence.phones)
        pauses = (len(sentences) - 1) * _PAUSE_SECONDS * options.pauses
        return options.around(estimate_seconds(phones) + pauses, max(options.speed, _LEAST_SPEED))

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        inference = self.inference(options)
        return self.speak_phonemes(self._sentences_of(text, options), inference, options)

    def _sentences_of(self, text: str, options: SpeechOptions) -> list[Phonemes]:
        read = divide_text(self, text, options).text
        sentences = [each for each in map(phonemes, self._read(read)) if each.has_sound]
        if not sentences:
            raise nothing_to_say(text, self.languages)
        return sentences

    def _read(self, text: str) -> Iterator[Reading]:
        return read_sentences(self._reader, map(written, split_sentences(text)))

    def read_phrases(self, text: str) -> list[AccentPhrase]:
        check_length(text)
        if len(text) <= _LONGEST_WHOLE:
            return accent_phrases(self._reader.read(written(text)))
        return [phrase for reading in self._read(text) for phrase in accent_phrases(reading)]

    def speak_phrases(
        self, phrases: Sequence[AccentPhrase], text: str | None, options: SpeechOptions
    ) -> Iterator[Samples]:
        inference = self.inference(options)
        morae = [mora for phrase in phrases for mora in phrase.morae]
        phones = sum(len(mora.sound.phones) if mora.sound else 1 for mora in morae)
        if text is not None and list(phrases) == self.read_phrases(text):
            spoken = list(map(phonemes, self._read(text)))
        elif text is None or max(len(text), phones) > _LONGEST_WHOLE:
            spoken = list(map(phonemes_of, sentences_of(phrases)))
        else:
            spoken = [phonemes_of(phrases, self.read(text))]
        return self.speak_phonemes(spoken, inference, options)

    def speak_phonemes(
        self, sentences: Iterable[Phonemes], inference: Inference, options: SpeechOptions
    ) -> Iterator[Samples]:
        spoken = (sentence for sentence in sentences if sentence.has_sound)
        waves = (self._synthesis.speak(sentence, inference) for sentence in spoken)
        pause = _PAUSE_SECONDS / max(options.speed, _LEAST_SPEED)
        pieces = (
            SpeechPiece(change_pitch(wave, self.sample_rate, options.pitch, 1.0), pause)
            for wave in to_full_scale(waves)
        )
        return deliver(pieces, self.sample_rate, options)

    def inference(self, options: SpeechOptions) -> Inference:
        found = self._voice.find_style(options.style)
        if options.style == 0:  # nobody asked for one
            found = self._voice.speakers[0], self._voice.speakers[0].styles[0]
        if found is None:
            raise TextError(
                TextErrorCode.UNKNOWN_STYLE,
                f"The voice has no style {options.style}; ask for one of those that it lists.",
            )
        speaker, style = found
        dynamics, intonation = min(options.tempo_dynamics, 2.0), options.intonation
        return Inference(
            speaker=speaker.local_id,
            style=style.local_id,
            style_weight=intonation if intonation <= 1 else 1 + (intonation - 1) * 9,
            sdp_ratio=0.2 * dynamics if dynamics <= 1 else 0.2 + (dynamics - 1) * 0.8,
            length_scale=1.0 / max(options.speed, _LEAST_SPEED),
            seed=options.seed,
        )


def build_from_graphs(
    bundle: StyleBertGraphs,
    reader: JapaneseReader,
    settings: SessionSettings,
    facts: AivmxFacts | None = None,
) -> StyleBertVits2Engine:
    """Build an engine and let it try its graphs; `facts` is None without an AIVMX file."""
    BERT_CONTRACT.check(bundle.encoder)
    SYNTHESIS_CONTRACT.check(bundle.synthesis)
    encoder = BertEncoder(shared_session(bundle.encoder, settings), bundle.vocabulary)
    encoder.try_out(bundle.encoder)
    voice = StyleBertSynthesis(bundle.voice, shared_session(bundle.synthesis, settings), encoder)
    voice.try_out(phonemes(reader.read(_TRIAL)), bundle.synthesis.file)
    return StyleBertVits2Engine(bundle.voice, voice, reader, facts)


def build(character: CharacterBundle, settings: SessionSettings) -> StyleBertVits2Engine:
    manifest = character.manifest
    voice, encoder = character.graphs[SYNTHESIS], character.graphs[BERT]
    # Both sessions are kept by their engine, which finds them by the graphs.
    speaking, encoding = shared_session(voice, settings), shared_session(encoder, settings)
    try:
        facts = read_facts(speaking.metadata)
    except AivmxError as error:
        raise BundleError(f"{voice.file}: {error}") from error
    try:
        vocabulary = read_vocabulary(encoding.metadata)
    except VocabularyError as error:
        raise BundleError(f"{encoder.file}: {error}") from error
    if facts.voice.sample_rate != manifest.sample_rate:
        raise BundleError(
            f"{MANIFEST}: field 'sample_rate': expected {facts.voice.sample_rate}, as the voice"
            f" has, found {manifest.sample_rate}."
        )
    bundle = StyleBertGraphs(facts.voice, voice, encoder, vocabulary)
    return build_from_graphs(bundle, settings.front_end, settings, facts)


SYNTHESIS, BERT = "synthesis", "bert"
CONTRACTS: Mapping[str, Contract] = {SYNTHESIS: SYNTHESIS_CONTRACT, BERT: BERT_CONTRACT}
