"""The ports to the buckets, the topics, the tokens and the traces."""

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
    """One bucket: of recordings, of converted audio, or of characters.

    Objects are named by bucket, name and generation, so that exactly the object is read that an
    event was about. Every method raises `StorageUnavailableError` when the storage does not answer.
    """

    @property
    def name(self) -> str: ...

    async def connect(self) -> None:
        """Open a connection ahead of time, so that the first real call does not wait for it."""

    async def sign_upload(
        self, name: str, *, content_type: str, max_bytes: int, lifetime: timedelta
    ) -> SignedUpload:
        """Sign the address of one upload of at most `max_bytes` to an unused name."""

    async def sign_download(
        self, name: str, *, lifetime: timedelta, filename: str
    ) -> tuple[str, datetime]:
        """Return an address to read an object from, and the time at which it expires.

        A browser that downloads the object saves it as `filename`.
        """

    async def read(self, name: str, generation: int, *, max_bytes: int) -> bytes:
        """Read up to `max_bytes + 1` bytes of a generation; `ObjectMissingError` if it is gone."""

    async def write(
        self,
        name: str,
        content: BinaryIO,
        *,
        content_type: str,
        size: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectFacts:
        """Write an object of an unused name.

        Args:
            content: read from its current position to its end.
            size: in bytes, if known.
            metadata: fields that its notification repeats.

        Raises:
            ObjectExistsError: the name is used.
        """

    async def find(self, name: str) -> ObjectFacts:
        """Return the facts of an object; `ObjectMissingError` if it does not exist."""

    async def list(self, prefix: str = "", *, most: int | None = None) -> Sequence[ObjectFacts]:
        """Return the first `most` objects whose names begin with `prefix`, sorted by name."""

    async def delete(self, name: str, generation: int | None = None) -> None:
        """Delete an object, or one generation of it, if it exists."""

    async def empty(self, name: str, generation: int | None = None) -> None:
        """Replace an object's content, or one generation of it, by nothing.

        The name stays used. After a deletion, an address that was signed for one upload to an
        unused name would work again. Without a generation, the object need not exist; with one that
        is gone, nothing happens.
        """

    async def delete_all(self, prefix: str, *, except_for: str = "") -> None:
        """Delete every object whose name begins with `prefix`, except the one named.

        If it raises, some of them may be deleted.
        """


class Publisher(Protocol):
    """Publishes messages to one topic."""

    async def publish(self, data: bytes, attributes: Mapping[str, str]) -> None:
        """Return when the topic has stored the message; `PublishError` if it did not."""

    async def aclose(self) -> None: ...


class TokenRefusedError(Exception):
    """A request's identity token does not prove what it must; the message says why."""


class CertificatesUnavailableError(PassingError):
    """The certificates that verify tokens could not be fetched."""


class TokenVerifier(Protocol):
    async def verify(self, authorization: str | None) -> Mapping[str, Any]:
        """Return the claims of the token in an `Authorization` header.

        Raises:
            TokenRefusedError: the header is missing or proves nothing.
            CertificatesUnavailableError: the token could not be checked now.
        """


class NoTokenNeeded:
    """A `TokenVerifier` that accepts every request, for the local cloud, which has no tokens."""

    async def verify(self, authorization: str | None) -> Mapping[str, Any]:  # noqa: ARG002 - the port's form
        return {}


Fact: TypeAlias = "str | bool | int | float"


@dataclass(slots=True)
class TraceStep:
    """A step under way: its facts, and the error with which it failed."""

    facts: dict[str, Fact] = field(default_factory=dict)
    error: str | None = None


class Traces(Protocol):
    """Records the steps of voices. A voice has one trace, whichever deployables work on it."""

    def step(self, voice_id: str, name: str) -> AbstractContextManager[TraceStep]:
        """Record the body of the `with` statement as a step; steps inside it are its parts.

        If an error leaves it, the step has failed.
        """

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
        """Record a step that is over.

        Args:
            begin: seconds since 1970, or a time in RFC 3339; if it is unreadable, nothing is added.
            end: None for now.
            is_first: whether all other steps of the voice belong to this one.
        """


class NoTraces:
    def step(self, _voice_id: str, _name: str) -> AbstractContextManager[TraceStep]:
        return nullcontext(TraceStep())

    def add(self, *_step: Any, **_facts: Any) -> None: ...


NO_TRACES: Final = NoTraces()
