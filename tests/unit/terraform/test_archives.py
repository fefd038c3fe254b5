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
CONTAINERS = ("compat", "convert", "live", "live_and_compat")  # all of them from one image
JOBS = ("train",)  # from an image of its own

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


def unpack(terraform: TerraformModule, name: str, folder: Path) -> list[str]:
    """Make the folder that Cloud Functions unpacks a function's archive into."""
    files = [
        path.relative_to(ROOT).as_posix()
        for pattern in terraform.locals["archive_patterns"][name]
        for path in ROOT.glob(pattern)
    ]
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, folder / file)
    (folder / "main.py").write_text(entry_point(name))
    return files


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


def entry_point(name: str) -> str:
    """Return what Terraform writes into the archive's main.py."""
    text = (ROOT / "infra/terraform/functions.tf").read_text()
    found = re.search(r'archive_mains = {\n.*\n\s+name => "(.*)\\n"', text)
    assert found
    return found[1].replace("${name}", name).replace(r"\n", "\n")


def test_every_deployable_but_the_container_is_deployed_as_a_function(
    terraform: TerraformModule,
) -> None:
    there = {path.parent.name for path in ROOT.glob("functions/*/main.py")}

    assert there == {*FUNCTIONS, *CONTAINERS, *JOBS}
    assert terraform.locals["functions"].keys() == set(FUNCTIONS)
    assert terraform.locals["archive_patterns"].keys() == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_starts_from_nothing_but_its_archive(
    terraform: TerraformModule, tmp_path: Path, name: str
) -> None:
    unpack(terraform, name, tmp_path)

    done = load(name, tmp_path, ENVIRONMENT)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_with_wrong_settings_does_not_start_and_says_why(
    terraform: TerraformModule, tmp_path: Path, name: str
) -> None:
    unpack(terraform, name, tmp_path)
    wrong = {key: value for key, value in ENVIRONMENT.items() if key != "PROJECT_ID"}

    done = load(name, tmp_path, wrong | {"LOG_LEVEL": "LOUD"})

    assert done.returncode == 2
    assert "PROJECT_ID is not set\n" in done.stderr
    assert "LOG_LEVEL='LOUD' is wrong" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_archive_holds_no_other_deployable_and_no_packages(
    terraform: TerraformModule, tmp_path: Path, name: str
) -> None:
    files = unpack(terraform, name, tmp_path)
    own = re.compile(
        rf"functions/__init__\.py|functions/{name}/.*\.py|shared/.*\.py"
        r"|characters/[\w-]+/(character\.json|portrait\.svg)"
    )

    assert [file for file in files if not own.fullmatch(file)] == []
    assert not [file for file in files if "node_modules" in file or "/web/" in file]


def test_the_api_gets_every_character_that_the_container_has(
    terraform: TerraformModule, tmp_path: Path
) -> None:
    files = unpack(terraform, "api", tmp_path)
    there = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("characters/*/character.json")}

    assert {file for file in files if file.endswith("character.json")} == there


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_archive_has_the_functions_own_requirements(name: str) -> None:
    text = (ROOT / "infra/terraform/functions.tf").read_text()

    assert 'file("${local.source_root}/functions/${each.key}/requirements.txt")' in text
    assert (ROOT / f"functions/{name}/requirements.txt").is_file()
