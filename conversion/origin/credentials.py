"""Signed statements in results: who signs them, and what happens if nobody does."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import Field, SecretStr, model_validator

from shared.process.settings import EnvironmentSettings, WebAddress
from speech.results.credentials.signing import CredentialsError
from speech.results.credentials.statement import SIGNED_MEDIA_TYPES, describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from conversion.origin.notice import NoticePlace
    from shared.characters.manifest import CharacterManifest
    from speech.results.credentials.signing import CredentialSigner
    from speech.results.encoding import Encoded
    from speech.results.marking import Marking

_LOG = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 30.0
"""How long a signer that failed is not asked again: its results go out unsigned at once."""

_THREADS: Final = 4
_KMS_KEY: Final = (
    r"^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+/cryptoKeyVersions/[0-9]+$"
)


class CredentialSettings(EnvironmentSettings):
    """The settings of signed statements (C2PA); without certificates nothing is signed.

    Attributes:
        c2pa_certificates: of the signer and of those who vouch for it, as PEM, the signer's first.
        c2pa_key: the signer's private key, as PEM (PKCS 8, curve P-256), from Secret Manager.
        c2pa_kms_key: or the version of a key in Cloud KMS that signs; it never leaves it.
        c2pa_time_stamp_url: of an RFC 3161 time-stamp authority; None for no time stamp.
        c2pa_earlier_certificates: of signers that signed before, as PEM: what they signed is still
            the deployment's own.
        c2pa_seconds: how long a result waits for its signature; then it goes out without.
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
    """Puts signed statements into results, or lets them go out without in time.

    Args:
        signer: signs.
        seconds: how long a result waits.
        now: tells the time of day.
        clock: in seconds, never goes back.
    """

    def __init__(
        self,
        signer: CredentialSigner,
        seconds: float,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._signer = signer
        self._seconds = seconds
        self._now = now
        self._clock = clock
        self._paused_until = 0.0
        # Its own threads: one that waits for a signer which does not answer keeps no conversion.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="signing")

    def load(self) -> None:
        """Load the library in the background."""
        self._threads.submit(self._signer.load)

    async def add(
        self,
        encoded: Encoded,
        manifest: CharacterManifest,
        marking: Marking,
        notice: NoticePlace = "off",
    ) -> Encoded:
        """Return a result with a signed statement; without one if nobody signs it in time.

        Args:
            encoded: the result.
            manifest: of its character.
            marking: what the result's tags say.
            notice: where the result holds a spoken notice.
        """
        if encoded.content_type.partition(";")[0] not in SIGNED_MEDIA_TYPES:
            return encoded
        if self._clock() < self._paused_until:
            return self._unsigned(encoded, "the signer failed a moment ago")
        statement = describe(manifest, marking, self._now(), notice=notice)
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
        self._paused_until = self._clock() + PAUSE_SECONDS
        return self._unsigned(encoded, reason)

    def close(self) -> None:
        """End the threads that have nothing to do."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _unsigned(self, encoded: Encoded, reason: str) -> Encoded:
        # Terraform counts these in the metric `results_unsigned`.
        _LOG.warning("result without a signature: %s", reason, extra={"event": "result_unsigned"})
        return encoded
