"""The forms of a manifest's fields, each with the words that describe it.

pydantic says of a wrong text which pattern it does not match; a person wants to know what is
expected. `Expected` replaces pydantic's messages by such words.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from annotated_types import GroupedMetadata
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from shared.runtime.quoting import printable, quoted

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


UNEXPECTED = "unexpected"
"""The type of the errors whose context says, under `expected`, what was expected."""

_NOT_BLANK = r"[^\s\x1c-\x1f]"

# Results carry these texts in XML, terminals and pages show them: no control characters but those
# of lines, nothing that turns the text around it, no non-characters.
_UNSEEN = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff"
_IS_UNSEEN = re.compile(f"[{_UNSEEN}]")
_SEEN_TEXT = rf"^[^{_UNSEEN}]*[^\s{_UNSEEN}][^{_UNSEEN}]*$"


@dataclass(frozen=True)
class Expected:
    """The words for any value that the annotated type refuses."""

    words: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._check, handler(source))

    def _check(self, value: object, check: ValidatorFunctionWrapHandler) -> object:
        try:
            return check(value)
        except ValidationError:
            raise unexpected(self.words) from None


def unexpected(expected: str, found: str | None = None) -> PydanticCustomError:
    """Return the error of a field; `found` replaces the value itself in the message."""
    context = {"expected": expected} if found is None else {"expected": expected, "found": found}
    return PydanticCustomError(UNEXPECTED, "expected {expected}", context)


class Form(GroupedMetadata):
    """A text of a certain form: its pattern, its greatest length, and the words for it."""

    def __init__(self, pattern: str, longest: int, expected: str, *more: object) -> None:
        length = StringConstraints(pattern=pattern, max_length=longest)
        self._parts = (length, Expected(expected), *more)

    def __iter__(self) -> Iterator[object]:
        return iter(self._parts)


class ShortText(Form):
    """A visible text of at most `longest` characters."""

    def __init__(self, longest: int, noun: str = "a text") -> None:
        expected = f"{noun} of 1 to {longest} characters"
        super().__init__(_SEEN_TEXT, longest, expected, BeforeValidator(_require_seen))


class LongText(Form):
    """A text of many lines and any characters."""

    def __init__(self, longest: int) -> None:
        super().__init__(_NOT_BLANK, longest, f"a text of 1 to {longest} characters")


@dataclass(frozen=True)
class Number(GroupedMetadata):
    """A number within limits, both included."""

    low: float
    high: float

    def __iter__(self) -> Iterator[object]:
        yield Field(ge=self.low, le=self.high)
        yield Expected(f"a number from {self.low:g} to {self.high:g}")


@dataclass(frozen=True)
class WholeNumber(GroupedMetadata):
    """A whole number within limits, both included; in JSON, 1.0 is the whole number 1."""

    low: int
    high: int

    def __iter__(self) -> Iterator[object]:
        yield Field(ge=self.low, le=self.high)
        yield BeforeValidator(_whole)
        yield Expected(f"a whole number from {self.low} to {self.high}")


@dataclass(frozen=True)
class Entries(GroupedMetadata):
    """The number of entries of an object, both limits included, and a noun for them."""

    least: int
    most: int
    noun: str

    def __iter__(self) -> Iterator[object]:
        yield Field(min_length=self.least, max_length=self.most)
        yield BeforeValidator(self._check)

    def _check(self, value: object) -> object:
        if isinstance(value, Mapping) and not self.least <= len(value) <= self.most:
            raise unexpected(f"{self.least} to {self.most} {self.noun}", str(len(value)))
        return value


def in_range(value: float, low: float, high: float) -> float:
    """Return a number whose limits follow from other fields; refuse one outside of them."""
    if not low <= value <= high:
        raise unexpected(f"a number from {low:g} to {high:g}")
    return value


def _require_seen(value: object) -> object:
    if isinstance(value, str) and (unseen := _IS_UNSEEN.search(value)):
        raise unexpected("a text without control characters", ascii(unseen[0]))
    return value


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


_LONGEST_SHOWN = 80
_NOT_AN_OBJECT = frozenset({"dict_type", "mapping_type", "model_attributes_type", "model_type"})


def sentence(error: "ValidationError", model: type[BaseModel]) -> str:
    """Return one sentence about the first field that a model of a manifest refuses."""
    details = error.errors(include_url=False)[0]
    names = [str(name) for name in details["loc"]]
    expected, found = _expected_and_found(details, model, names)
    where = f"field {quoted('.'.join(names))}: " if names else ""
    return f"{where}expected {expected}, found {found}."


def _expected_and_found(
    details: "ErrorDetails", model: type[BaseModel], names: list[str]
) -> tuple[str, str]:
    kind, found = details["type"], _shown(details["input"])
    if kind == "missing":
        return "a value", "nothing"
    if kind == "extra_forbidden":
        return f"only the fields {_fields_beside(model, names)}", _shown(names[-1])
    if kind in _NOT_AN_OBJECT:
        return "an object", found
    if kind == UNEXPECTED:
        return details["ctx"]["expected"], details["ctx"].get("found", found)
    return f"another value ({printable(details['msg'])})", found


def _fields_beside(model: type[BaseModel], names: list[str]) -> str:
    """List the fields of the object to which the last of some names was given."""
    for name in names[:-1]:
        if name in model.model_fields:
            model = _model_in(model.model_fields[name].annotation) or model
    known = (field.alias or name for name, field in model.model_fields.items())
    return ", ".join(map(quoted, known))


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a field's type names, if it names one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = printable(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
