"""Imports FastAPI without building the models of its OpenAPI description.

Building them takes 5 % of the api's start, and only `/openapi.json` needs them. Pydantic builds a
model with `defer_build` when it is first used. Import this module before anything imports FastAPI.
"""

from __future__ import annotations

from pydantic import BaseModel

BaseModel.model_config["defer_build"] = True
try:
    import fastapi.openapi.models  # noqa: F401 - see above
finally:
    # Models that are defined later are built at once again.
    del BaseModel.model_config["defer_build"]
