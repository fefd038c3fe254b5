"""Signs of a result's provenance: a spoken notice that it is synthetic, and a signed statement."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import Field, SecretStr, model_validator

from shared.runtime.settings import CommaSeparated, EnvironmentSettings, WebAddress
from shared.speech.engines.text_interface import SpeechOptions
from shared.speech.results.credentials import CredentialsError
from shared.speech.results.statement import SIGNED_MEDIA_TYPES, describe
from shared.speech.signal.samples import resample

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from shared.characters.manifest import CharacterManifest
    from shared.speech.engines.text_interface import PhraseEngine
    from shared.speech.results.audio_files import EncodedResult
    from shared.speech.results.credentials import CredentialSigner
    from shared.speech.results.statement import Marking
    from shared.speech.signal.sound import Samples

    RunInThread = Callable[[Callable[[PhraseEngine], Samples], PhraseEngine], Awaitable[Samples]]


_LOG = logging.getLogger(__name__)

# The time for which a signer that failed is not asked again: results go out unsigned at once.
SIGNING_PAUSE_SECONDS: Final = 30.0

_THREADS: Final = 4
_KMS_KEY: Final = (
    r"^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+/cryptoKeyVersions/[0-9]+$"
)

NoticePlace = Literal["off", "before", "after"]

TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {"ja": "これは、合成音声です。", "en": "This is a synthetic voice."}
)

# The pause between the notice and the result, and between two languages.
NOTICE_PAUSE_SECONDS: Final = 0.3


class NoticeSettings(EnvironmentSettings):
    """Settings of the spoken notice.

    Attributes:
        notice_languages: its languages in their order, separated by commas: ja, en.
    """

    notice: NoticePlace = "off"
    notice_languages: Annotated[CommaSeparated, Field(min_length=1)] = ("ja", "en")

    @model_validator(mode="after")
    def _check_notice_languages(self) -> Self:
        unknown = set(self.notice_languages) - TEXTS.keys()
        if unknown:
            raise ValueError(
                f"NOTICE_LANGUAGES knows {', '.join(TEXTS)}, found {', '.join(sorted(unknown))}"
            )
        return self


class SpokenNotice:
    """The notice in results; each character speaks it once."""

    def __init__(self, place: Literal["before", "after"], languages: Sequence[str]) -> None:
        self._place: Literal["before", "after"] = place
        self._texts = [TEXTS[language] for language in languages]
        # A character that is unloaded takes its notice along.
        self._spoken: WeakKeyDictionary[PhraseEngine, Samples] = WeakKeyDictionary()
        self._one_at_a_time = asyncio.Lock()

    async def add(
        self, samples: Samples, sample_rate: int, engine: PhraseEngine | None, run: RunInThread
    ) -> tuple[Samples, NoticePlace]:
        """Return a result with the notice, and the place of the notice.

        Args:
            samples: the result, float32 [N].
            sample_rate: in Hz.
            engine: the character's; None if it takes no text, so that there is no notice.

        Raises:
            TextError: the character cannot say it.
        """
        if engine is None:
            return samples, "off"
        async with self._one_at_a_time:
            spoken = self._spoken.get(engine)
            if spoken is None:
                spoken = self._spoken[engine] = await run(self.speak, engine)
        heard = resample(spoken, engine.sample_rate, sample_rate)
        pause = np.zeros(round(NOTICE_PAUSE_SECONDS * sample_rate), np.float32)
        parts = [heard, pause, samples] if self._place == "before" else [samples, pause, heard]
        return np.concatenate(parts), self._place

    def speak(self, engine: PhraseEngine) -> Samples:
        """Return the notice in all languages, at the engine's sample rate."""
        pause = np.zeros(round(NOTICE_PAUSE_SECONDS * engine.sample_rate), np.float32)
        pieces: list[Samples] = []
        for text in self._texts:
            # Without a voice's seed, so that all results of a character say it alike.
            pieces += [*engine.speak(text, SpeechOptions()), pause]
        return np.concatenate(pieces[:-1])


def open_notice(config: NoticeSettings) -> SpokenNotice | None:
    if config.notice == "off":
        return None
    return SpokenNotice(config.notice, config.notice_languages)


class CredentialSettings(EnvironmentSettings):
    """Settings of signed statements (C2PA); without certificates nothing is signed.

    Attributes:
        c2pa_key: the signer's private key, as PEM (PKCS 8, curve P-256), from Secret Manager.
        c2pa_time_stamp_url: of an RFC 3161 time-stamp authority; None for no time stamp.
    """

    c2pa_certificates: str = ""
    c2pa_key: SecretStr | None = None
    c2pa_kms_key: Annotated[str, Field(pattern=_KMS_KEY)] | None = None
    c2pa_time_stamp_url: WebAddress | None = None
    c2pa_earlier_certificates: str = ""
    c2pa_seconds: Annotated[float, Field(gt=0, le=10)] = 1.0

    @model_validator(mode="after")
    def _check_c2pa(self) -> Self:
        keys = sum(key is not None for key in (self.c2pa_key, self.c2pa_kms_key))
        if keys != (1 if self.c2pa_certificates else 0):
            raise ValueError(
                "C2PA_CERTIFICATES needs one of C2PA_KEY and C2PA_KMS_KEY, and neither can be set"
                " without it"
            )
        return self

    @property
    def c2pa_own_certificates(self) -> str:
        """The certificates of all signers of the deployment, as PEM; may be empty."""
        return "\n".join(filter(None, (self.c2pa_certificates, self.c2pa_earlier_certificates)))


class ResultCredentials:
    """The signed statements in results; without one in time they go out unsigned."""

    def __init__(
        self,
        signer: CredentialSigner,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._signer = signer
        self._seconds = seconds
        self._clock = clock
        self._paused_until = 0.0
        # Its own threads: one that waits for a signer which does not answer delays no conversion.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="signing")

    def load(self) -> None:
        self._threads.submit(self._signer.load)

    async def add(
        self,
        encoded: EncodedResult,
        manifest: CharacterManifest,
        marking: Marking,
        notice: NoticePlace = "off",
    ) -> EncodedResult:
        """Return a result with a signed statement; without one if nobody signs it in time."""
        if encoded.content_type.partition(";")[0] not in SIGNED_MEDIA_TYPES:
            return encoded
        if self._clock() < self._paused_until:
            return self._unsigned(encoded, "the signer failed a moment ago")
        statement = describe(manifest, marking, datetime.now(UTC), notice=notice)
        loop = asyncio.get_running_loop()
        signing = loop.run_in_executor(
            self._threads,
            self._signer.add_credentials,
            encoded.data,
            encoded.content_type,
            statement,
        )
        try:
            return replace(encoded, data=await asyncio.wait_for(signing, self._seconds))
        except TimeoutError:
            reason = f"no signature within {self._seconds:g} s"
        except CredentialsError as error:
            reason = str(error)
        self._paused_until = self._clock() + SIGNING_PAUSE_SECONDS
        return self._unsigned(encoded, reason)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _unsigned(self, encoded: EncodedResult, reason: str) -> EncodedResult:
        # Terraform counts these in the metric `results_unsigned`.
        _LOG.warning("result without a signature: %s", reason, extra={"event": "result_unsigned"})
        return encoded
