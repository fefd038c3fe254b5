"""Makes the JSON Schema of character manifests for editors.

python -m shared.characters.schema > characters/character.schema.json
"""

import json
import sys
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import CoreSchema

from shared.characters.manifest import Manifest


class _WithoutTitles(GenerateJsonSchema):
    """Leaves out the titles that only repeat the names of the fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Say that no field has a title."""
        del schema
        return False

    def generate(self, schema: CoreSchema, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """Say which dialect of JSON Schema this is."""
        return {"$schema": self.schema_dialect, **super().generate(schema, mode)}


def render_schema() -> str:
    """Return the schema as the text of `characters/character.schema.json`."""
    schema = Manifest.model_json_schema(schema_generator=_WithoutTitles)
    schema["title"] = "Character manifest (character.json)"
    return json.dumps(schema, ensure_ascii=False, indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render_schema())
