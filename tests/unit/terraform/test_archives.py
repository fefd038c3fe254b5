from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.unit.terraform.reading import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.unit.terraform.reading import TerraformModule

FUNCTIONS = ("api", "dead_letter", "on_upload", "sweep")

# The least that each function needs in its environment.
ENVIRONMENT = {
    "PROJECT_ID": "p",
    "LOG_KEY": "k" * 64,
    "UPLOADS_BUCKET": "uploads",
    "RESULTS_BUCKET": "results",
    "CONVERSIONS_TOPIC": "conversions",
    "CONVERT_URL": "https://convert.example",
    "PUSH_AUDIENCE": "https://function.example",
    "PUSH_SERVICE_ACCOUNT": "pubsub@p.example",
    "SIGNING_SERVICE_ACCOUNT": "signer@p.example",
}

# What Cloud Functions does first: an error here is one that the deployment would end with.
LOAD = "from functions_framework.aio import create_asgi_app; create_asgi_app({name!r}, 'main.py')"


@pytest.fixture(params=FUNCTIONS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def files(terraform: TerraformModule, name: str) -> list[str]:
    patterns = terraform.locals["shared_patterns"] + terraform.locals["archive_patterns"][name]
    return [
        path.relative_to(ROOT).as_posix() for pattern in patterns for path in ROOT.glob(pattern)
    ]


@pytest.fixture
def archive(tmp_path: Path, name: str, files: list[str]) -> Path:
    """Return the folder that Cloud Functions unpacks a function's archive into."""
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, tmp_path / file)
    text = (ROOT / "infra/terraform/functions.tf").read_text()
    found = re.search(r'archive_mains = {\n.*\n\s+name => "(.*)\\n"', text)
    assert found
    (tmp_path / "main.py").write_text(found[1].replace("${name}", name).replace(r"\n", "\n"))
    return tmp_path


def load(
    name: str, folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LOAD.format(name=name)],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_function_starts_from_nothing_but_its_archive(archive: Path, name: str) -> None:
    done = load(name, archive, ENVIRONMENT)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["on_upload"])
def test_a_function_with_wrong_settings_does_not_start_and_says_why(
    archive: Path, name: str
) -> None:
    wrong = {key: value for key, value in ENVIRONMENT.items() if key != "PROJECT_ID"}

    done = load(name, archive, wrong | {"LOG_LEVEL": "LOUD"})

    assert done.returncode == 2
    assert "PROJECT_ID is not set\n" in done.stderr
    assert "LOG_LEVEL='LOUD' is wrong" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_archive_holds_no_other_deployable_and_every_character(
    files: list[str], name: str
) -> None:
    own = re.compile(
        rf"functions/__init__\.py|functions/{name}/.*\.py|shared/.*\.(py|txt|tsv)"
        r"|characters/[\w-]+/(character\.json|portrait\.svg)"
    )
    characters = {file for file in files if file.endswith("character.json")}

    assert [file for file in files if not own.fullmatch(file)] == []
    assert len(characters) == (name == "api") * len([*ROOT.glob("characters/*/character.json")])
