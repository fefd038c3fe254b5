"""Follows docs/deploy.md to the letter, with stand-ins for the programs that would reach Google."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hcl2
import pathspec
import pytest

from tests.unit.terraform.reading import MODULE, ROOT, plain

GUIDE = ROOT / "docs/deploy.md"
DEPLOYMENT = "infra/terraform/deployment"
SECTIONS = (
    "The first deployment",
    "Page and api under a domain of your own",
    "From CI, and with less than Owner",
    "Taking it down, and building it again",
)

# Notes each call and answers what the commands after it need.
STAND_IN = """\
#!/bin/sh
printf '%s\\t%s\\t%s\\n' "$PWD" "$(basename "$0")" "$*" >> "$CALLS"
case "$(basename "$0") $*" in
    "gcloud billing accounts list"*) echo billingAccounts/012345-6789AB-CDEF01 ;;
    "terraform output -raw api_url") printf https://api.example.com ;;
    "terraform"*"output -raw page_configuration") printf '{"api": "https://api.example.com"}' ;;
    "terraform output -raw load_balancer_address") printf 203.0.113.7 ;;
    "curl"*" --json "*) printf \
        '{"voice_id": "v", "upload": {"url": "https://u.example.com", "headers": {"a": "b"}}}' ;;
    "curl"*/conversion/v) printf '{"result": {"url": "https://r.example.com"}}' ;;
    "gh "*) printf 4711 ;;
    "npm run build") printf %s "$PAGE_CONFIG" > built-with.json ;;
esac
"""


@dataclass(frozen=True)
class Call:
    folder: str
    program: str
    arguments: str


@dataclass(frozen=True)
class Followed:
    """The checkout afterwards, and every program that was called, in order."""

    checkout: Path
    calls: list[Call]

    def of(self, program: str, beginning: str = "") -> list[Call]:
        return [
            call
            for call in self.calls
            if call.program == program and call.arguments.startswith(beginning)
        ]

    def settings(self) -> dict[str, Any]:
        """Return what the operator's file says in the end."""
        with (self.checkout / DEPLOYMENT / "terraform.tfvars").open() as file:
            values: dict[str, Any] = plain(hcl2.load(file))
        return values


def commands(section: str) -> str:
    """Return a section's commands, as somebody copies them from the page."""
    parts = re.split(r"^##? (.+)\n", GUIDE.read_text(), flags=re.MULTILINE)
    text = dict(zip(parts[1::2], parts[2::2], strict=True))[section]
    # In a numbered step four spaces are its own text, and eight a command.
    indent = 8 if re.search(r"^1\.  ", text, re.MULTILINE) else 4
    blocks = re.findall(rf"(?:^ {{{indent}}}.*\n)+", text, re.MULTILINE)
    return "\n".join(textwrap.dedent(block) for block in blocks)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    folder = tmp_path_factory.mktemp("guide")
    checkout = folder / "checkout"
    for needed in (DEPLOYMENT, "infra/local/samples"):
        ignored = shutil.ignore_patterns(".terraform*", "*.tfvars*", "*.tfstate*")
        shutil.copytree(ROOT / needed, checkout / needed, ignore=ignored)
    (checkout / "web").mkdir()
    shutil.copy(MODULE / "deployer-roles.txt", checkout / "infra/terraform")
    programs = folder / "programs"
    programs.mkdir()
    for name in ("curl", "gcloud", "gh", "git", "npm", "npx", "terraform"):
        (programs / name).write_text(STAND_IN)
        (programs / name).chmod(0o755)
    (calls := folder / "calls").touch()
    bash = shutil.which("bash")
    assert bash
    exported = f"{programs}:/usr/local/bin:/usr/bin:/bin"
    for section in SECTIONS:
        done = subprocess.run(
            [bash, "-eu", "-o", "pipefail", "-c", commands(section)],
            cwd=checkout,
            env={
                "PATH": exported,
                "CALLS": str(calls),
                "HOME": str(folder),
                "PROJECT": "p",
                "REGION": "r",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in calls.read_text().splitlines()]
    return Followed(
        checkout,
        [
            Call(Path(where).relative_to(checkout).as_posix(), program, arguments)
            for where, program, arguments in lines
        ],
    )


def test_everything_that_an_apply_needs_is_written_down_before_the_first_one(
    followed: Followed,
) -> None:
    settings = followed.settings()

    assert settings["project_id"] == "my-voice-avatar"
    assert settings["region"] == "us-central1"
    assert settings["allowed_origins"] == ["https://my-voice-avatar.web.app"]
    with (MODULE / "deployment/variables.tf").open() as file:
        variables = {
            name: body
            for block in plain(hcl2.load(file))["variable"]
            for name, body in block.items()
        }
    required = {name for name, body in variables.items() if "default" not in body}
    assert required == {"project_id", "region", "allowed_origins"}
    assert settings.keys() <= variables.keys()


def test_terraform_is_let_in_before_its_first_apply(followed: Followed) -> None:
    order = [f"{call.program} {call.arguments}" for call in followed.calls]
    first = order.index("terraform apply")

    enabled = next(
        index for index, one in enumerate(order) if one.startswith("gcloud services enable")
    )
    assert "cloudresourcemanager.googleapis.com" in order[enabled]
    assert "serviceusage.googleapis.com" in order[enabled]
    assert order.index("gcloud auth application-default login") < first
    assert enabled < order.index("terraform init") < first
    assert {call.folder for call in followed.of("terraform", "init")} == {DEPLOYMENT}


def test_the_page_is_built_for_what_was_applied_and_hosted_for_free(followed: Followed) -> None:
    hosting = json.loads((followed.checkout / "firebase.json").read_text())["hosting"]

    assert hosting == {"public": "web/page/dist"}
    assert {call.folder for call in followed.of("npm")} == {"web"}
    deployed = followed.of("npx")[-1]
    assert (deployed.folder, "deploy --only hosting" in deployed.arguments) == (".", True)


def test_under_a_domain_the_page_is_built_for_its_own_origin_before_the_apply(
    followed: Followed,
) -> None:
    config = json.loads((followed.checkout / "web/built-with.json").read_text())

    assert config == {"api": "https://voice.example.com", "firebase": {}}
    assert followed.settings()["domain"]["name"] == "voice.example.com"
    order = [f"{call.program} {call.arguments}" for call in followed.calls]
    last_build = len(order) - 1 - order[::-1].index("npm run build")
    assert "terraform apply" in order[last_build:]


def test_only_one_workflow_of_one_branch_may_deploy(followed: Followed) -> None:
    (provider,) = followed.of("gcloud", "iam workload-identity-pools providers")
    (enabled,) = followed.of("gcloud", "services enable iamcredentials")

    assert "assertion.repository_id == '4711' && " in provider.arguments
    workflow = "my-name/voice-avatar/.github/workflows/deploy.yml@refs/heads/main"
    assert f"assertion.workflow_ref == '{workflow}'" in provider.arguments
    assert "sts.googleapis.com" in enabled.arguments


def test_the_state_moves_into_a_bucket_that_keeps_versions_before_ci_begins(
    followed: Followed,
) -> None:
    buckets = [call.arguments for call in followed.of("gcloud", "storage buckets")]

    assert "--public-access-prevention" in buckets[0]
    assert buckets[1].endswith("gs://p-state --versioning")
    assert 'bucket = "p-state"' in (followed.checkout / DEPLOYMENT / "backend.tf").read_text()
    assert followed.of("terraform", "init -migrate-state")


def test_a_destroy_comes_after_the_protection_was_taken_away_by_an_apply(
    followed: Followed,
) -> None:
    order = [call.arguments for call in followed.of("terraform")]
    destroy = order.index("destroy")

    assert order[destroy - 1] == "apply"
    assert order[destroy + 1] == "apply"
    # For the apply after it, the protection is back.
    assert "deletion_protection" not in followed.settings()
    assert "echo 'deletion_protection = false' >> terraform.tfvars" in GUIDE.read_text()


def test_the_operators_lock_file_is_kept_and_state_is_not_committed() -> None:
    paths = {
        f"{DEPLOYMENT}/.terraform.lock.hcl": False,
        f"{DEPLOYMENT}/terraform.tfstate": True,
        f"{DEPLOYMENT}/terraform.tfstate.backup": True,
        f"{DEPLOYMENT}/terraform.tfvars": True,
        f"{DEPLOYMENT}/.build/api.zip": True,
        "infra/terraform/tests/trial.tfvars": False,
    }
    rules = (ROOT / ".gitignore").read_text().splitlines()
    for rule in (MODULE / ".gitignore").read_text().splitlines():
        if rule and not rule.startswith("#"):
            kept = "!" if rule.startswith("!") else ""
            rules.append(f"{kept}/infra/terraform/{rule.lstrip('!/')}")
    spec = pathspec.GitIgnoreSpec.from_lines(rules)

    assert {path: spec.match_file(path) for path in paths} == paths
