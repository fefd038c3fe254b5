"""What a voice's owner has to say before the voice is imported: asked, or read from a file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from speech.importing.errors import VoiceFileError, shown

if TYPE_CHECKING:
    from pathlib import Path

MAX_CONSENT_BYTES = 256 * 1024

Ask = Callable[[str], str]


def _text(most: int) -> Any:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=most)


Text = Annotated[str, _text(300)]
Https = Annotated[str, StringConstraints(pattern=r"^https://[^\s/]+(/\S*)?$", max_length=300)]
Contact = Annotated[
    str,
    StringConstraints(pattern=r"^(https://[^\s/]+(/\S*)?|mailto:[^\s@]+@[^\s@]+)$", max_length=300),
]


class Consent(BaseModel):
    """The statement of a voice's owner; nothing in it may be left empty.

    The licence is an SPDX identifier whose text stands at `terms_url`, or has its whole text here.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    owner: Text
    """Who owns the voice: oneself, a named person, or a character and who holds its rights."""
    consent: Annotated[str, _text(1_500)]
    """The owner's agreement to training, to a conversion service and to this use, and where it is
    kept."""
    licence: Text
    """The licence's name, or its SPDX identifier."""
    licence_text: Annotated[str, _text(30_000)] | None = None
    """The whole text of a licence without an SPDX identifier."""
    terms_url: Https
    credit: Text
    """The line that must be shown wherever the voice is used."""
    source: Text
    """Where the file comes from: an address, or who has made it."""
    author: Annotated[str, _text(200)] | None = None
    contact: Contact
    """Where a use of the voice is objected to."""
    commercial: bool
    redistribution: bool
    adult: bool
    politics: bool
    no_public_figure_no_minor: bool = Field(
        description="The voice is that of no public figure without their consent, and of no minor."
    )

    @model_validator(mode="after")
    def _is_given(self) -> Self:
        if not self.no_public_figure_no_minor:
            raise ValueError(
                "a voice of a minor, or of a public figure without their consent, is not imported"
            )
        return self

    @property
    def spdx(self) -> str:
        """The SPDX identifier; one of the reserved kind where the licence has none."""
        return "LicenseRef-voice" if self.licence_text else self.licence


QUESTIONS: Mapping[str, str] = {
    "owner": "Who owns the voice (yourself, a named person, a character and its rights holder)?",
    "consent": (
        "How has the owner agreed to the training, to a conversion service and to this use, and"
        " where is that kept?"
    ),
    "licence": "Under which licence may the voice be used (SPDX identifier or name)?",
    "terms_url": "At which https address do the terms stand?",
    "credit": "Which line must be shown wherever the voice is used?",
    "source": "Where does the file come from (address or who made it)?",
    "contact": "Where is a use objected to (https or mailto address)?",
    "commercial": "Is commercial use allowed (yes/no)?",
    "redistribution": "May the voice be passed on (yes/no)?",
    "adult": "Is use in adult content allowed (yes/no)?",
    "politics": "Is use in politics allowed (yes/no)?",
    "no_public_figure_no_minor": (
        "Is it the voice of no minor, and of no public figure without their consent (yes/no)?"
    ),
}
_ANSWERS = {"yes": True, "y": True, "no": False, "n": False}
_YES_OR_NO = ("commercial", "redistribution", "adult", "politics", "no_public_figure_no_minor")


def read_consent(path: Path) -> Consent:
    """Read the answers from a JSON or TOML file with the fields of `Consent`.

    Raises:
        VoiceFileError: it cannot be read, or an answer is missing, empty or wrong.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CONSENT_BYTES + 1)
        if len(content) > MAX_CONSENT_BYTES:
            raise VoiceFileError(
                f"{path.name}: expected at most {MAX_CONSENT_BYTES} bytes, found more."
            )
        text = content.decode("utf-8")
        answers = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise VoiceFileError(
            f"{path.name}: expected a readable file, found none ({error.strerror})."
        ) from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, VoiceFileError):
            raise
        raise VoiceFileError(
            f"{path.name}: expected JSON or TOML in UTF-8, found {shown(str(error))}."
        ) from error
    return _checked(answers, path.name)


def ask_consent(ask: Ask) -> Consent:
    """Ask for every answer.

    Args:
        ask: shows a question and returns the answer.

    Raises:
        VoiceFileError: an answer is empty or wrong.
    """
    answers: dict[str, object] = {}
    for name, question in QUESTIONS.items():
        answer = ask(question).strip()
        answers[name] = _ANSWERS.get(answer.lower()) if name in _YES_OR_NO else answer
    return _checked(answers, "consent")


def ask_at_terminal(question: str) -> str:
    """Show a question and read the answer.

    Raises:
        VoiceFileError: nobody answers.
    """
    try:
        return input(f"{question}\n> ")
    except EOFError as error:
        raise VoiceFileError(
            "expected answers about the voice's owner, found none; answer the questions, or give a"
            " file with --consent."
        ) from error


def _checked(answers: object, source: str) -> Consent:
    try:
        return Consent.model_validate(answers)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        what = QUESTIONS.get(name, f"an answer for '{name}'") if name else "the owner's consent"
        raise VoiceFileError(
            f"{source}: field '{name}': expected an answer to: {what}"
            f" Found {shown(first.get('input'))} ({first['msg'].lower()})."
        ) from error
