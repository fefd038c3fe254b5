"""Explains a faulty manifest in one sentence: the field, what was expected, what was found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from shared.characters.fields import UNEXPECTED
from shared.process.quoting import printable, quoted

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_LONGEST_SHOWN = 80
_NOT_AN_OBJECT = frozenset({"dict_type", "mapping_type", "model_attributes_type", "model_type"})


def sentence(error: ValidationError, model: type[BaseModel]) -> str:
    """Return one sentence about the first field that a model of a manifest refuses."""
    details = error.errors(include_url=False)[0]
    names = [str(name) for name in details["loc"]]
    expected, found = _expected_and_found(details, model, names)
    where = f"field {quoted('.'.join(names))}: " if names else ""
    return f"{where}expected {expected}, found {found}."


def _expected_and_found(
    details: ErrorDetails, model: type[BaseModel], names: list[str]
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
    """List the fields that the object has to which the last of some names was given."""
    for name in names[:-1]:
        if name in model.model_fields:
            model = _model_in(model.model_fields[name].annotation) or model
    known = (field.alias or name for name, field in model.model_fields.items())
    return ", ".join(map(quoted, known))


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Find the model that a field's type names, if it names one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return _cut(printable(json.dumps(value, ensure_ascii=False)))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
