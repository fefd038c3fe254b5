"""The consent of a voice's owner, which every import needs: asked, or read from a file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from shared.runtime.quoting import printable, quoted
from tools.bundles.files import VoiceFileError, read_file

if TYPE_CHECKING:
    from pathlib import Path

MAX_CONSENT_BYTES = 256 * 1024
_MOST_DOTS = 1_000
"""Of keys, whose parts the parser compares with one another: 50,000 take two minutes."""
# Ends are optional, so that what has none is read once and not from each of its quotes anew.
_STRINGS = re.compile(
    r'''"""(?:\\.|[^\\"]|"(?!""))*+(?:""")?|"(?:\\.|[^"\\\n])*+"?'''
    r"""|'{3}(?:[^']|'(?!''))*+(?:'{3})?|'[^'\n]*+'?|#[^\n]*+""",
    re.DOTALL,
)

Ask = Callable[[str], str]


_text = partial(StringConstraints, strip_whitespace=True, min_length=1)
Text = Annotated[str, _text(max_length=300)]
_HTTPS = r"https://[^\s/]+(/\S*)?"
_EMAIL = r"[^\s@:/]+@[^\s@]+"


def with_scheme(answer: object) -> object:
    if isinstance(answer, str) and re.fullmatch(_EMAIL, answer.strip()):
        return f"mailto:{answer.strip()}"
    return answer


Https = Annotated[str, StringConstraints(pattern=rf"^{_HTTPS}$", max_length=300)]
Contact = Annotated[
    str,
    StringConstraints(pattern=rf"^({_HTTPS}|mailto:[^\s@]+@[^\s@]+)$", max_length=300),
    BeforeValidator(with_scheme),
]
PRIVATE = "private"
"""The licence of a voice that nobody but its owner may use; it needs no terms."""


_REFUSED = "a voice of a minor, or of a public figure without their consent, is not imported"


class Consent(BaseModel):
    """The answers of a voice's owner to `QUESTIONS`; none may be left empty.

    The licence is an SPDX identifier whose text stands at `terms_url`, or has its whole text here,
    or is `private`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    owner: Text
    consent: Annotated[str, _text(max_length=1_500)]
    licence: Text
    licence_text: Annotated[str, _text(max_length=30_000)] | None = None
    """The whole text of a licence without an SPDX identifier."""
    terms_url: Https | None = Field(default=None, validate_default=True)
    """Where the terms stand; None only for a private voice."""
    credit: Text
    source: Text
    author: Annotated[str, _text(max_length=200)] | None = None
    contact: Contact
    commercial: bool
    redistribution: bool
    adult: bool
    politics: bool
    no_public_figure_no_minor: bool

    @field_validator("terms_url")
    @classmethod
    def _stand_somewhere(cls, address: str | None, info: ValidationInfo) -> str | None:
        if address is None and info.data.get("licence") != PRIVATE:
            raise ValueError("every licence but that of a private voice has terms")
        return address

    @model_validator(mode="after")
    def _is_given(self) -> Self:
        if not self.no_public_figure_no_minor:
            raise ValueError(_REFUSED)
        return self

    @property
    def spdx(self) -> str:
        """The SPDX identifier; one of the reserved kind where the licence has none."""
        if self.licence_text:
            return "LicenseRef-voice"
        return "LicenseRef-private" if self.licence == PRIVATE else self.licence


QUESTIONS: Mapping[str, str] = {
    "owner": "Who owns the voice: yourself, a named person, or a character and its rights holder?",
    "consent": (
        "How has the owner agreed to the training, to a conversion service and to this use, and"
        " where is that kept?"
    ),
    "licence": (
        "Under which licence may the voice be used? An SPDX identifier or a name;"
        f" {PRIVATE} if nobody but you may use it."
    ),
    "terms_url": "At which https address do the terms stand?",
    "credit": "Which line must be shown wherever the voice is used?",
    "source": "Where do the recordings or the file come from: an address, or who made them?",
    "contact": "Where is a use objected to: an e-mail address, or an https address?",
    "commercial": "Is commercial use allowed (yes/no)?",
    "redistribution": "May the voice be passed on (yes/no)?",
    "adult": "Is use in adult content allowed (yes/no)?",
    "politics": "Is use in politics allowed (yes/no)?",
    "no_public_figure_no_minor": (
        "Is it the voice of no minor, and of no public figure without their consent (yes/no)?"
    ),
}
EXAMPLES: Mapping[str, str] = {
    "owner": "Ada Example (myself)",
    "consent": "It is my own voice; I agreed on 2026-11-01, and keep that in consent.txt",
    "licence": f"CC-BY-4.0, or {PRIVATE}",
    "terms_url": "https://creativecommons.org/licenses/by/4.0/",
    "credit": "Voice: Ada Example",
    "source": "recorded by myself",
    "contact": "ada@example.org",
}
_ANSWERS = {"yes": True, "y": True, "no": False, "n": False}
_USES = ("commercial", "redistribution", "adult", "politics")
_YES_OR_NO = (*_USES, "no_public_figure_no_minor")
_MOST_TRIES = 5


def read_consent(path: Path) -> Consent:
    """Read the answers from a JSON or TOML file with the fields of `Consent`."""
    try:
        text = read_file(path, MAX_CONSENT_BYTES).decode("utf-8")
        answers = json.loads(text) if path.suffix == ".json" else read_toml(text)
    except VoiceFileError as error:
        raise VoiceFileError(f"{printable(path.name)}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise VoiceFileError(
            f"{printable(path.name)}: expected JSON or TOML in UTF-8, found {quoted(str(error))}."
        ) from error
    return _checked(answers, path.name)


def read_toml(text: str) -> dict[str, Any]:
    """Read TOML; its time grows with the square of a key's parts, so that they are limited."""
    if _STRINGS.sub("", text).count(".") > _MOST_DOTS:
        raise ValueError("keys of very many parts")
    return tomllib.loads(text)


_FIELDS: Mapping[str, TypeAdapter[Any]] = {
    name: TypeAdapter(
        Annotated[(info.annotation, *info.metadata)]  # type: ignore[arg-type]  # each is a type
        if info.metadata
        else info.annotation
    )
    for name, info in Consent.model_fields.items()
}


def ask_consent(ask: Ask, draft: Path | None = None) -> Consent:
    """Ask for every answer until it can be used.

    Args:
        draft: keeps the answers until all are there, so that whoever stops goes on with them; None
            keeps none.
    """
    answers = read_draft(draft)
    for name, question in QUESTIONS.items():
        if answers.get("licence") == PRIVATE:
            # Nobody else may use it, so there is nothing to allow.
            answers |= {"terms_url": None, **dict.fromkeys(_USES, False)}
        if name not in answers:
            answers[name] = ask_one(ask, name, question)
            write_draft(draft, answers)
    consent = _checked(answers, "consent")
    if draft is not None:
        draft.unlink(missing_ok=True)
    return consent


def ask_one(ask: Ask, name: str, question: str) -> object:
    complaint = ""
    for _ in range(_MOST_TRIES):
        text = ask(complaint + question).strip()
        answer = _ANSWERS.get(text.lower()) if name in _YES_OR_NO else text
        if name == "licence" and text.lower() == PRIVATE:
            answer = PRIVATE
        try:
            checked: object = _FIELDS[name].validate_python(answer)
        except ValidationError:
            expected = (
                "yes or no" if name in _YES_OR_NO else f"for example: {EXAMPLES.get(name, '')}"
            )
            complaint = f"This cannot be used; expected {expected}.\n"
            continue
        if name == "no_public_figure_no_minor" and not checked:
            raise VoiceFileError(f"consent: field {quoted(name)}: {_REFUSED}.")
        return checked
    raise VoiceFileError(f"consent: field {quoted(name)}: expected an answer to: {question}")


def read_draft(draft: Path | None) -> dict[str, object]:
    if draft is None or not draft.is_file():
        return {}
    try:
        kept = json.loads(read_file(draft, MAX_CONSENT_BYTES))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(kept, dict):
        return {}
    answers: dict[str, object] = {}
    for name in QUESTIONS.keys() & kept.keys():
        with suppress(ValidationError):
            answers[name] = _FIELDS[name].validate_python(kept[name])
    return answers


def write_draft(draft: Path | None, answers: dict[str, object]) -> None:
    if draft is None:
        return
    draft.parent.mkdir(parents=True, exist_ok=True)
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(answers), "utf-8")


def ask_at_terminal(question: str) -> str:
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
        what = (
            QUESTIONS.get(name, f"an answer for {quoted(name)}") if name else "the owner's consent"
        )
        raise VoiceFileError(
            f"{source}: field {quoted(name)}: expected an answer to: {what}"
            f" Found {quoted(first.get('input'))} ({printable(first['msg'].lower())})."
        ) from error
