"""Counting the addresses that are signed in this process, as the embedded local cloud does."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shared.google.cloud_storage import Signer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from google.cloud.storage import Blob


@contextmanager
def counted_signatures() -> Iterator[Counter[str]]:
    """Count what `Signer` signs, by the method of the request that is signed for.

    In the local cloud it signs with a key; where IAM signs, each of these is a call of signBlob.
    """
    counts: Counter[str] = Counter()
    sign_url = Signer.sign_url

    def counting(signer: Signer, blob: Blob, method: str, expires_at: datetime, **more: Any) -> str:
        counts[method] += 1
        return sign_url(signer, blob, method, expires_at, **more)

    Signer.sign_url = counting  # type: ignore[assignment, method-assign] # the services make their own signers
    try:
        yield counts
    finally:
        Signer.sign_url = sign_url  # type: ignore[method-assign]
