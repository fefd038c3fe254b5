"""Makes the JSON Schema of character manifests for editors.

python -m shared.characters.manifest_schema > characters/character.schema.json
"""

import ast
import inspect
import json
import sys
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import CoreSchema

from shared.characters import manifest
from shared.characters.manifest import Manifest


class _WithoutTitles(GenerateJsonSchema):
    """Leaves out the titles that only repeat the names of the fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False

    def generate(self, schema: CoreSchema, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        return {"$schema": self.schema_dialect, **super().generate(schema, mode)}


def render_schema() -> str:
    schema = Manifest.model_json_schema(schema_generator=_WithoutTitles)
    schema["title"] = "Character manifest (character.json)"
    for model, fields in _described_fields().items():
        part = schema if model == Manifest.__name__ else schema["$defs"].get(model, {})
        for name, description in fields.items():
            properties = part.get("properties", {})
            if name in properties:
                described = {**properties[name], "description": description}
                properties[name] = dict(sorted(described.items()))
    return json.dumps(schema, ensure_ascii=False, indent=2) + "\n"


def _described_fields() -> dict[str, dict[str, str]]:
    """Collect the texts below the fields, by model and field.

    Pydantic can read them, too, but then it reads the source at every start of a service.
    """
    tree = ast.parse(inspect.getsource(manifest))

    def name_in_json(model: str, field: str) -> str:
        fields = getattr(manifest, model).model_fields
        return fields[field].alias or field if field in fields else field

    return {
        model.name: {
            name_in_json(model.name, field.target.id): inspect.cleandoc(text.value.value)
            for field, text in zip(model.body, model.body[1:], strict=False)
            if isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        }
        for model in tree.body
        if isinstance(model, ast.ClassDef)
    }


if __name__ == "__main__":
    sys.stdout.write(render_schema())
