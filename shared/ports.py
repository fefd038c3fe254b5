"""The port to one bucket: of recordings, of converted audio, or of characters.

Objects are named by bucket, name and generation, so that exactly the object is read that an event
was about.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, TypeAlias

from shared.voices.voice import PassingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from shared.voices.objects import ObjectFacts, SignedUpload


class Bucket(Protocol):
    """One bucket.

    Every method raises `StorageUnavailableError` when the storage does not answer.
    """

    @property
    def name(self) -> str:
        """The bucket's name."""
        ...

    async def connect(self) -> None:
        """Open a connection ahead of time, so that the first real call does not wait for it."""
        ...

    async def sign_upload(
        self, name: str, *, content_type: str, max_bytes: int, lifetime: timedelta
    ) -> SignedUpload:
        """Make the address for one upload of at most `max_bytes` to a name not yet used."""
        ...

    async def sign_download(
        self, name: str, *, lifetime: timedelta, filename: str
    ) -> tuple[str, datetime]:
        """Return an address to read an object from, and when that address expires.

        A browser that downloads the object saves it as `filename`.
        """
        ...

    async def read(self, name: str, generation: int, *, max_bytes: int) -> bytes:
        """Read one generation of an object, at most `max_bytes + 1` bytes of it.

        Raises:
            ObjectMissingError: this generation does not exist.
        """
        ...

    async def write(
        self,
        name: str,
        content: BinaryIO,
        *,
        content_type: str,
        size: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectFacts:
        """Write an object of a name not yet used.

        Args:
            name: the object's name.
            content: the object's content, from its current position to its end.
            content_type: its media type.
            size: its size in bytes, if known.
            metadata: what its notification shall also say.

        Raises:
            ObjectExistsError: the name is used.
        """
        ...

    async def find(self, name: str) -> ObjectFacts:
        """Find the facts of an object.

        Raises:
            ObjectMissingError: there is none of this name.
        """
        ...

    async def list(self, prefix: str = "", *, most: int | None = None) -> Sequence[ObjectFacts]:
        """Return the objects whose names begin with `prefix`, in the order of the names.

        Args:
            prefix: of the names.
            most: after how many objects the others are left out; None for all.
        """
        ...

    async def delete(self, name: str, generation: int | None = None) -> None:
        """Delete an object, or one generation of it; it is no error if it does not exist."""
        ...

    async def empty(self, name: str, generation: int | None = None) -> None:
        """Replace an object's content by nothing, so that its name stays used.

        An address that was signed for one upload to a name not yet used would work again if the
        object were deleted.

        Args:
            name: the object's name; without a generation there need not be one of this name.
            generation: which content; if it is gone, nothing is done.
        """
        ...

    async def delete_all(self, prefix: str, *, except_for: str = "") -> None:
        """Delete every object whose name begins with `prefix`, except the one named.

        If it raises, some of them may be deleted.
        """
        ...


class Publisher(Protocol):
    """Publishes messages to one topic."""

    async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
        """Publish a message; returns when the topic has stored it.

        Raises:
            PublishError: the topic did not accept it.
        """
        ...

    async def aclose(self) -> None:
        """Close the publisher's connections."""
        ...


class TokenRefusedError(Exception):
    """A request's identity token does not prove what it must; the message says what is wrong."""


class CertificatesUnavailableError(PassingError):
    """The certificates that tokens are checked with could not be fetched."""


class TokenVerifier(Protocol):
    """Decides whether an `Authorization` header proves that the right party sent the request."""

    async def verify(self, authorization: str | None) -> Mapping[str, Any]:
        """Return the token's claims.

        Args:
            authorization: the header, None if there is none.

        Raises:
            TokenRefusedError: the header is missing or proves nothing.
            CertificatesUnavailableError: the token could not be checked now.
        """
        ...


class NoTokenNeeded:
    """A `TokenVerifier` that accepts every request, because the local cloud sends no tokens."""

    async def verify(self, authorization: str | None) -> Mapping[str, Any]:  # noqa: ARG002 - the port's form
        """Return no claims."""
        return {}


Fact: TypeAlias = "str | bool | int | float"


@dataclass(slots=True)
class TraceStep:
    """A step that is under way.

    Attributes:
        facts: what is said of it.
        error: why it failed, if it did.
    """

    facts: dict[str, Fact] = field(default_factory=dict)
    error: str | None = None


class Traces(Protocol):
    """Takes the steps of voices. Every voice has one trace, whichever deployables work on it."""

    def step(self, voice_id: str, name: str) -> AbstractContextManager[TraceStep]:
        """Take what happens inside for a step; steps that begin inside are parts of it.

        If an error leaves it, the step has failed.
        """
        ...

    def add(
        self,
        voice_id: str,
        name: str,
        begin: float | str,
        end: float | None = None,
        *,
        facts: Mapping[str, Fact] | None = None,
        is_first: bool = False,
    ) -> None:
        """Add a step that is over.

        Args:
            voice_id: whose step.
            name: what it is called.
            begin: when it began, in seconds since 1970 or as RFC 3339 has it; a step whose begin
                cannot be read is left out.
            end: when it ended; None for now.
            facts: what is said of it.
            is_first: whether it is the voice's first step, to which all others belong.
        """
        ...


class NoTraces:
    """Takes nothing."""

    def step(self, _voice_id: str, _name: str) -> AbstractContextManager[TraceStep]:
        """Do nothing."""
        return nullcontext(TraceStep())

    def add(
        self,
        voice_id: str,
        name: str,
        begin: float | str,
        end: float | None = None,
        *,
        facts: Mapping[str, Fact] | None = None,
        is_first: bool = False,
    ) -> None:
        """Do nothing."""


NO_TRACES: Final = NoTraces()
"""For whoever is given no traces."""
