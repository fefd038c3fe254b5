"""What the api leaves out of its start, and that nobody misses it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

DESCRIBE: Final = """
import json
from fastapi import FastAPI
from pydantic import BaseModel

class Wish(BaseModel):
    text: str

app = FastAPI(title="x", version="1")

@app.post("/wishes")
def wish(wish: Wish) -> Wish:
    return wish

print(json.dumps(app.openapi()))
"""


def said(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_start_builds_no_model_of_the_description_and_all_others_as_ever() -> None:
    program = (
        "import json, functions.api.main\n"
        "from pydantic import BaseModel\n"
        "from fastapi.openapi.models import OpenAPI\n"
        "class Later(BaseModel): pass\n"
        "print(json.dumps([OpenAPI.__pydantic_complete__, Later.__pydantic_complete__,"
        " BaseModel.model_config]))"
    )

    assert json.loads(said(program)) == [False, True, {}]


def test_the_description_is_the_same_when_it_is_built_later() -> None:
    later = said(f"import functions.api.described_later\n{DESCRIBE}")

    assert json.loads(later)["paths"]["/wishes"]["post"]
    assert later == said(DESCRIBE)
