"""Was this made here? The verdict on a file from its signed statement and its watermark."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from shared.speech.decoding.recording import DecodeLimits
from shared.speech.results.credentials import Credentials, read_credentials_apart
from shared.speech.results.statement import uses_for_people
from shared.speech.results.watermark_detection import MOST_CHANCE, find_watermark
from shared.voices.media import SNIFF_BYTES, sniff
from shared.voices.voice import ErrorCode, PassingError, VoiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from shared.speech.decoding.decoder import Decoder
    from shared.speech.results.credentials import CredentialsFinding
    from shared.speech.results.watermark import WatermarkKey
    from shared.speech.results.watermark_detection import WatermarkFinding


class ProvenanceVerdict(StrEnum):
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    COPY = "copy"
    SIGNED_BY_OTHERS = "signed_by_others"
    UNKNOWN = "unknown"


# Each verdict for people, in English and Japanese.
SENTENCES: Final[Mapping[ProvenanceVerdict, Mapping[str, str]]] = MappingProxyType(
    {
        ProvenanceVerdict.UNCHANGED: {
            "en": "This was made here: it is synthetic speech, and the file is as it was made.",
            "ja": "ここで作られた合成音声です。ファイルは作られたときのままです。",
        },
        ProvenanceVerdict.CHANGED: {
            "en": "This carries our signs, so it is synthetic speech; it was changed afterwards.",
            "ja": "ここの印がある合成音声です。ただし、作られた後に変更されています。",
        },
        ProvenanceVerdict.COPY: {
            "en": "This was made here: it carries our watermark, so it is synthetic speech. Its"
            " signed statement is gone, as in most copies.",
            "ja": "ここの電子透かしがあるので、ここで作られた合成音声です。署名は残っていません。"
            "コピーではよくあることです。",
        },
        ProvenanceVerdict.SIGNED_BY_OTHERS: {
            "en": "We find no watermark of ours. The file carries a valid statement of somebody"
            " else, whom we do not know.",
            "ja": "ここの電子透かしは見つかりません。ほかの人による有効な署名があります。",
        },
        ProvenanceVerdict.UNKNOWN: {
            "en": "We find no sign that this was made here. That does not prove that a person"
            " spoke it: signs can be removed, and others make synthetic speech, too.",
            "ja": "ここで作られたという印は見つかりません。ただし、人の声だという証明には"
            "なりません。印は消すことができ、合成音声はほかでも作られます。",
        },
    }
)

_FORBIDDEN: Final = MappingProxyType(
    {
        "en": (" The owner of the voice forbids: ", ", ", "."),
        "ja": ("声の持ち主が禁じている利用は、次のとおりです。", "、", "。"),
    }
)


@dataclass(frozen=True, slots=True)
class ProvenanceFinding:
    """The signs in a file; without a key, or in silence, no watermark was searched: None."""

    credentials: CredentialsFinding
    watermark: WatermarkFinding | None

    @property
    def verdict(self) -> ProvenanceVerdict:
        is_marked = self.watermark is not None and self.watermark.is_found
        match self.credentials.state:
            case Credentials.OURS:
                return ProvenanceVerdict.UNCHANGED
            case Credentials.CHANGED | Credentials.INVALID if is_marked:
                return ProvenanceVerdict.CHANGED
            case Credentials.VALID if not is_marked:
                return ProvenanceVerdict.SIGNED_BY_OTHERS
        return ProvenanceVerdict.COPY if is_marked else ProvenanceVerdict.UNKNOWN

    def to_answer(self) -> dict[str, Any]:
        sentences = dict(SENTENCES[self.verdict])
        if self.verdict is ProvenanceVerdict.UNCHANGED:
            # Only a statement that holds tells which uses the voice's owner forbids.
            for language, (before, between, after) in _FORBIDDEN.items():
                if uses := uses_for_people(self.credentials.forbidden_uses, language):
                    sentences[language] += f"{before}{between.join(uses)}{after}"
        mark = self.watermark
        watermark: dict[str, Any] = {"state": "not_found", "bits": None, "chance": None}
        if mark is None:
            watermark["state"] = "not_searched"
        elif mark.is_found:
            chance = min(step for step in _CHANCES if mark.chance <= step)
            watermark = {"state": "found", "bits": mark.payload, "chance": chance}
        return {
            "verdict": self.verdict.value,
            "sentences": sentences,
            "credentials": asdict(self.credentials) | {"state": self.credentials.state.value},
            "watermark": watermark,
        }


MOST_BYTES: Final = 20_000_000
LIMITS: Final = DecodeLimits(
    min_seconds=0.1, max_seconds=60.0, max_bytes=MOST_BYTES, takes_beginning=True
)
"""The watermark is searched in the first minute, the statement in every file."""

_CHANCES: Final = (MOST_CHANCE, MOST_CHANCE / 1e3, MOST_CHANCE / 1e6)
"""The steps of the chance that is told: the number itself would show how to wear a mark away."""

_MOST_WAITING: Final = 4


class VerifierBusyError(PassingError):
    """Too many files wait already."""


class Verifier:
    """A verifier of one file after the other, so that many leave conversions their time."""

    def __init__(
        self,
        decoder: Decoder,
        keys: Sequence[WatermarkKey],
        own_certificates: str,
        turn: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
    ) -> None:
        self._decoder = decoder
        self._keys = keys
        self._own_certificates = own_certificates
        self._take_turn = turn
        self._one_at_a_time = asyncio.Lock()
        self._admitted = 0

    async def verify(self, data: bytes) -> ProvenanceFinding:
        """Verify a file.

        Raises:
            VoiceError: it is too large, or no sound that can be decoded.
            VerifierBusyError: too many files wait already.
            DecoderUnavailableError: trying again may help.
        """
        if len(data) > MOST_BYTES:
            message = f"The file has more than the {MOST_BYTES} bytes accepted."
            raise VoiceError(ErrorCode.TOO_LARGE, message)
        if self._admitted > _MOST_WAITING:
            raise VerifierBusyError(f"{self._admitted} files are verified or wait")
        self._admitted += 1
        try:
            async with self._one_at_a_time, self._take_turn():
                watermark = await self._find_watermark(data)
                container = sniff(data[:SNIFF_BYTES])
                if container is None:
                    message = "The file is in no known audio format."
                    raise VoiceError(ErrorCode.UNSUPPORTED_FORMAT, message)
                credentials = await read_credentials_apart(data, container, self._own_certificates)
                return ProvenanceFinding(credentials, watermark)
        finally:
            self._admitted -= 1

    async def _find_watermark(self, data: bytes) -> WatermarkFinding | None:
        try:
            recording = await self._decoder.decode(data, limits=LIMITS)
        except VoiceError as error:
            if error.code is ErrorCode.SILENT:
                return None
            raise
        return await asyncio.to_thread(
            find_watermark, recording.samples, recording.sample_rate, self._keys
        )
