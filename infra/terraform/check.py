"""Checks the Terraform module, the deployment and the example: formatting, validity, tests.

Where a provider registry can be reached, the real providers check them. Elsewhere a schema check
takes their place: a program that takes a folder, and with `--var-file` the values for a trial plan,
and that has the same exit codes as this one. It is looked for in this order:

1. the file that the environment variable TERRAFORM_CHECK names,
2. `check-terraform` on the PATH,
3. `shared/tools/*/check-terraform` beside the checkout, for tools that several checkouts share.

Without a registry and a schema check only the formatting is checked, and a message says so.

    python -m infra.terraform.check

Exit code: 0 nothing found, 1 something found, 2 it could not be checked.
"""
# ruff: noqa: S603, T201 - a command for a terminal, which runs terraform

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
MODULE: Final = ROOT / "infra/terraform"
FULL: Final = MODULE / "examples/full"
FOLDERS: Final = (MODULE, MODULE / "deployment", FULL)
TRIAL: Final = MODULE / "tests/trial.tfvars"
REGISTRY: Final = "https://registry.terraform.io/.well-known/terraform.json"
REGISTRY_SECONDS: Final = 5.0
SCHEMA_CHECK: Final = "check-terraform"
SHARED_TOOLS: Final = ROOT.parent / "shared" / "tools"
BESIDE_THE_MODULE: Final = (
    "infra/firestore.rules",
    "functions/__init__.py",
    "functions/*/requirements.txt",
    "functions/convert/Dockerfile",
)
"""The files that the tests of the module read, and one source for each archive."""
STEPS: Final = (
    ("init", "-backend=false", "-input=false", "-no-color"),
    ("validate", "-no-color"),
    ("test", "-no-color"),
)

PASSED, FOUND, NOT_CHECKED = 0, 1, 2

RunCommand = Callable[[Sequence[str], Mapping[str, str]], int]
"""Runs a command in the foreground with additional variables; returns its exit code."""


def check(
    *,
    terraform: str | None,
    registry_answers: Callable[[], bool],
    stand_in: Path | None,
    run: RunCommand,
) -> int:
    """Check everything with the best means that this machine has."""
    if terraform is None:
        print("NOT CHECKED: terraform is not on the PATH; install version 1.11 or newer.")
        return NOT_CHECKED
    if run([terraform, f"-chdir={MODULE}", "fmt", "-check", "-recursive", "-diff"], {}):
        print("FOUND: run terraform fmt -recursive in infra/terraform.")
        return FOUND
    if registry_answers():
        return check_with_providers(terraform, run)
    if stand_in is not None:
        print(f"No provider registry answers; checking with the schema check {stand_in.name}.")
        with tempfile.TemporaryDirectory() as scratch:
            return check_with_stand_in(stand_in, run, copy_of_module(Path(scratch)))
    print(
        "NOT CHECKED beyond the formatting: no provider registry answers, and there is no schema "
        f"check in its place. Run this again where {REGISTRY} can be reached, or set "
        "TERRAFORM_CHECK to a schema check."
    )
    return NOT_CHECKED


def find_stand_in(environment: Mapping[str, str], shared_tools: Path = SHARED_TOOLS) -> Path | None:
    """Return the schema check, None if there is none; the module says where it is looked for.

    Raises:
        FileNotFoundError: TERRAFORM_CHECK names a program that does not exist.
    """
    named = environment.get("TERRAFORM_CHECK")
    if not named:
        on_path = shutil.which(SCHEMA_CHECK, path=environment.get("PATH", ""))
        shared = sorted(shared_tools.glob(f"*/{SCHEMA_CHECK}"))
        return Path(on_path) if on_path else next(iter(shared), None)
    program = Path(named).absolute()
    if not program.is_file():
        raise FileNotFoundError(
            f"TERRAFORM_CHECK is {named}, but this file does not exist; correct or unset it"
        )
    return program


def check_with_providers(terraform: str, run: RunCommand) -> int:
    print("Checking with the real providers from the registry.")
    for folder in FOLDERS:
        # The lock file that `init` writes is deleted, unless the operator had one: that is theirs.
        lock = folder / ".terraform.lock.hcl"
        existed = lock.exists()
        try:
            with tempfile.TemporaryDirectory() as data:
                for step in STEPS:
                    print(f"== terraform {step[0]} in {folder.relative_to(ROOT)}", flush=True)
                    if run([terraform, f"-chdir={folder}", *step], {"TF_DATA_DIR": data}):
                        where = folder.relative_to(ROOT)
                        print(f"FOUND: terraform {step[0]} in {where}, see above.")
                        return FOUND
        finally:
            if not existed:
                lock.unlink(missing_ok=True)
    print("PASSED with the real providers.")
    return PASSED


def copy_of_module(tree: Path) -> Path:
    """Copy the module, and beside it only a few of the sources that it puts into archives.

    Each test plans these archives, which takes five times as long with all sources: longer than the
    schema check waits. The example is checked with all sources.
    """
    copied = tree / MODULE.relative_to(ROOT)
    shutil.copytree(MODULE, copied, ignore=shutil.ignore_patterns(".*"))
    for pattern in BESIDE_THE_MODULE:
        for path in ROOT.glob(pattern):
            target = tree / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return copied


def check_with_stand_in(program: Path, run: RunCommand, module: Path) -> int:
    environment = {"CHECK_TERRAFORM_PYTHON": sys.executable}
    for folder in FOLDERS:
        values = [] if folder == FULL else ["--var-file", str(TRIAL)]
        # The newest schemas that can be had without a registry are of an older version than the
        # module asks for; README.md says what was compared beside them.
        checked = folder if folder == FULL else module / folder.relative_to(MODULE)
        code = run([str(program), "--any-version", *values, str(checked)], environment)
        if code == NOT_CHECKED:
            print(f"NOT CHECKED: the schema check could not run in {folder.relative_to(ROOT)}.")
            return NOT_CHECKED
        if code:
            print(f"FOUND: in {folder.relative_to(ROOT)}, see above.")
            return FOUND
    print("PASSED with the schema check, which knows the providers' schemas and not Google's API.")
    return PASSED


def registry_answers() -> bool:
    try:
        with urllib.request.urlopen(REGISTRY, timeout=REGISTRY_SECONDS) as answer:
            return bool(answer.status == 200)  # noqa: PLR2004 - OK
    except (OSError, urllib.error.URLError):
        return False


def main() -> int:
    try:
        stand_in = find_stand_in(os.environ)
    except FileNotFoundError as error:
        print(f"FOUND: {error}.")
        return FOUND
    return check(
        terraform=shutil.which("terraform"),
        registry_answers=registry_answers,
        stand_in=stand_in,
        run=lambda command, more: subprocess.call(command, env={**os.environ, **more}),
    )


if __name__ == "__main__":
    sys.exit(main())
