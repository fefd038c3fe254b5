"""The engine `style_bert_vits2`: speaks any text with one voice of Style-Bert-VITS2 (JP-Extra)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from speech.bundles.bundle import Graph
from speech.engines.interface.delivery import Piece, deliver, to_full_scale
from speech.engines.interface.text_engine import (
    SpeechOptions,
    TextError,
    TextErrorCode,
    check_length,
    nothing_to_say,
    sentences_of,
)
from speech.engines.style_bert_vits2.aivm import AivmxFacts
from speech.engines.style_bert_vits2.encoder import CONTRACT as BERT_CONTRACT
from speech.engines.style_bert_vits2.encoder import BertEncoder
from speech.engines.style_bert_vits2.synthesis import CONTRACT as SYNTHESIS_CONTRACT
from speech.engines.style_bert_vits2.synthesis import Inference, Synthesis
from speech.engines.style_bert_vits2.voice import Speaker, Style, StyleBertVoice
from speech.networks.session import shared_session
from speech.networks.settings import SessionSettings
from speech.signal.arrays import Samples
from speech.signal.pitch.prosody import change_pitch
from speech.text.duration import estimate_seconds
from speech.text.normalisation import normalise
from speech.text.phones.accents import AccentPhrase, accent_phrases, phonemes_of
from speech.text.phones.phonemes import Phonemes, phonemes
from speech.text.phones.tokens import Vocabulary
from speech.text.reading import Reading, ReadsText
from speech.text.sentences import read_sentences, split_sentences

_LEAST_SPEED = 0.1
_PAUSE_SECONDS = 0.2
_LONGEST_WHOLE = 250
_TRIAL = "あ"


@dataclass(frozen=True, eq=False)
class VoiceBundle:
    """What a voice is built from.

    Attributes:
        voice: what is known of it.
        synthesis: its own graph.
        encoder: the graph of the BERT that it was trained with.
        vocabulary: of the BERT.
    """

    voice: StyleBertVoice
    synthesis: Graph
    encoder: Graph
    vocabulary: Vocabulary


def build_voice(
    bundle: VoiceBundle,
    reader: ReadsText,
    settings: SessionSettings,
    facts: AivmxFacts | None = None,
) -> "StyleBertVits2Engine":
    """Build the engine of a voice, and let it try its graphs.

    Args:
        bundle: what the voice is built from.
        reader: of the texts.
        settings: of the graphs; voices built with the same settings share their encoder.
        facts: what the voice's file says, None where there is none.

    Raises:
        BundleError: a graph does not fit its contract, does not load, or does not give what it
            must.
    """
    BERT_CONTRACT.check(bundle.encoder)
    SYNTHESIS_CONTRACT.check(bundle.synthesis)
    encoder = BertEncoder(shared_session(bundle.encoder, settings), bundle.vocabulary)
    encoder.try_out(bundle.encoder)
    voice = Synthesis(bundle.voice, shared_session(bundle.synthesis, settings), encoder)
    voice.try_out(phonemes(reader.read(_TRIAL)), bundle.synthesis.file)
    return StyleBertVits2Engine(bundle.voice, voice, reader, facts)


class StyleBertVits2Engine:
    """Speaks text with one voice; see TextEngine.

    Args:
        voice: what is known of the voice.
        synthesis: its graph and its encoder.
        reader: of the texts.
        facts: what the voice's file says, None where there is none.
    """

    def __init__(
        self,
        voice: StyleBertVoice,
        synthesis: Synthesis,
        reader: ReadsText,
        facts: AivmxFacts | None = None,
    ) -> None:
        self.facts = facts
        self._voice = voice
        self._synthesis = synthesis
        self._reader = reader

    @property
    def sample_rate(self) -> int:
        """Sample rate of the speech in Hz."""
        return self._voice.sample_rate

    def read(self, text: str) -> Phonemes:
        """Find the phones of a text as the voice has learnt them."""
        return phonemes(self._reader.read(normalise(text)))

    def infer(self, text: str, inference: Inference) -> Samples:
        """Speak a text in one piece and as it comes from the graph: float32 [samples].

        This is what Style-Bert-VITS2 does, up to its normalisation to the peak.
        """
        return self._synthesis.speak(self.read(text), inference)

    def estimate(self, text: str, options: SpeechOptions) -> float:
        """Estimate how long the speech of a text is; see TextEngine."""
        self.inference(options)
        sentences = self._sentences_of(text)
        phones = (phone for sentence in sentences for phone in sentence.phones)
        pauses = (len(sentences) - 1) * _PAUSE_SECONDS * options.pauses
        return options.around(estimate_seconds(phones) + pauses, max(options.speed, _LEAST_SPEED))

    def speak(self, text: str, options: SpeechOptions) -> Iterator[Samples]:
        """Speak a text sentence by sentence; see TextEngine."""
        inference = self.inference(options)
        return self.speak_phonemes(self._sentences_of(text), inference, options)

    def _sentences_of(self, text: str) -> list[Phonemes]:
        """Find the sentences of a text; raise what `speak` raises."""
        check_length(text)
        sentences = self._sentences(text)
        if not sentences:
            raise nothing_to_say(text)
        return sentences

    def _sentences(self, text: str) -> list[Phonemes]:
        return [sentence for sentence in map(phonemes, self._read(text)) if sentence.has_sound]

    def _read(self, text: str) -> Iterator[Reading]:
        normalised = (normalise(sentence) for sentence in split_sentences(text))
        return read_sentences(self._reader, normalised)

    def read_phrases(self, text: str) -> list[AccentPhrase]:
        """Find the accent phrases of a text; see PhraseEngine."""
        check_length(text)
        if len(text) <= _LONGEST_WHOLE:
            return accent_phrases(self._reader.read(normalise(text)))
        return [phrase for reading in self._read(text) for phrase in accent_phrases(reading)]

    def speak_phrases(
        self, phrases: Sequence[AccentPhrase], text: str | None, options: SpeechOptions
    ) -> Iterator[Samples]:
        """Speak accent phrases; see PhraseEngine.

        The features of BERT come from the text where there is one that is spoken in one piece, and
        else from the kana.
        """
        inference = self.inference(options)
        if text is not None and list(phrases) == self.read_phrases(text):
            return self.speak_phonemes(self._sentences(text), inference, options)
        if text is None or max(len(text), _count_phones(phrases)) > _LONGEST_WHOLE:
            spoken = [phonemes_of(sentence) for sentence in sentences_of(phrases)]
        else:
            spoken = [phonemes_of(phrases, self.read(text))]
        return self.speak_phonemes(
            [sentence for sentence in spoken if sentence.has_sound], inference, options
        )

    def speak_phonemes(
        self, sentences: Sequence[Phonemes], inference: Inference, options: SpeechOptions
    ) -> Iterator[Samples]:
        """Speak sentences whose phones are known, one after the other; see TextEngine.

        Args:
            sentences: in order.
            inference: how they are spoken.
            options: what else is asked for; its speed and style are not looked at.
        """
        rate = self.sample_rate
        waves = (self._synthesis.speak(sentence, inference) for sentence in sentences)
        pause = _PAUSE_SECONDS / max(options.speed, _LEAST_SPEED)
        pieces = (
            Piece(change_pitch(wave, rate, options.pitch, 1.0), pause)
            for wave in to_full_scale(waves)
        )
        return deliver(pieces, rate, options)

    def inference(self, options: SpeechOptions) -> Inference:
        """Translate options to the voice's terms, as AivisSpeech Engine maps them.

        Raises:
            TextError: the voice has no such style.
        """
        speaker, style = self._find_style(options.style)
        return Inference(
            speaker=speaker.local_id,
            style=style.local_id,
            style_weight=_style_weight(options.intonation),
            sdp_ratio=_sdp_ratio(options.tempo_dynamics),
            length_scale=1.0 / max(options.speed, _LEAST_SPEED),
            seed=options.seed,
        )

    def _find_style(self, style_id: int) -> tuple[Speaker, Style]:
        if style_id == 0:  # nobody asked for one
            speaker = self._voice.speakers[0]
            return speaker, speaker.styles[0]
        found = self._voice.find_style(style_id)
        if found is None:
            raise TextError(
                TextErrorCode.UNKNOWN_STYLE,
                f"The voice has no style {style_id}; ask for one of those that it lists.",
            )
        return found


def _count_phones(phrases: Iterable[AccentPhrase]) -> int:
    morae = (mora for phrase in phrases for mora in phrase.morae)
    return sum(len(mora.sound.phones) if mora.sound else 1 for mora in morae)


def _style_weight(intonation: float) -> float:
    return intonation if intonation <= 1 else 1 + (intonation - 1) * 9


def _sdp_ratio(tempo_dynamics: float) -> float:
    if tempo_dynamics <= 1:
        return 0.2 * tempo_dynamics
    return 0.2 + (min(tempo_dynamics, 2.0) - 1) * 0.8
