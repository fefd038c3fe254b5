"""Which graphs a voice of Style-Bert-VITS2 has, and how its engine is built from them.

The role `synthesis` is the voice's own graph, whose metadata says what an AIVMX file says. The role
`bert` is the encoder that voices share, whose metadata holds its vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.characters.manifest import MANIFEST
from speech.bundles.files import BundleError
from speech.engines.style_bert_vits2.aivm import read_facts
from speech.engines.style_bert_vits2.aivm_media import AivmxError
from speech.engines.style_bert_vits2.encoder import CONTRACT as BERT_CONTRACT
from speech.engines.style_bert_vits2.encoder import read_vocabulary
from speech.engines.style_bert_vits2.engine import StyleBertVits2Engine, VoiceBundle, build_voice
from speech.engines.style_bert_vits2.synthesis import CONTRACT as SYNTHESIS_CONTRACT
from speech.networks.session import shared_session
from speech.text.phones.tokens import VocabularyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from speech.bundles.bundle import Character
    from speech.bundles.contracts import Contract
    from speech.networks.settings import SessionSettings

SYNTHESIS, BERT = "synthesis", "bert"
CONTRACTS: Mapping[str, Contract] = {SYNTHESIS: SYNTHESIS_CONTRACT, BERT: BERT_CONTRACT}


def build(character: Character, settings: SessionSettings) -> StyleBertVits2Engine:
    """Build the engine of a character, and let it try its graphs.

    Raises:
        BundleError: a graph does not load, does not give what it must, or its metadata or the
            manifest do not fit it.
    """
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
    bundle = VoiceBundle(facts.voice, voice, encoder, vocabulary)
    return build_voice(bundle, settings.front_end, settings, facts)
