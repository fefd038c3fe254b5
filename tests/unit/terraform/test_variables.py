"""Values that an operator might well type, each refused by its own name, as Terraform says it."""

from __future__ import annotations

import copy
import itertools
import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import pytest

from infra.terraform.generation import earlier_names, read_blocks
from tests.unit.terraform.reading import MODULE, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from tests.unit.terraform.reading import TerraformModule

Plan: TypeAlias = "Callable[[Mapping[str, object]], list[str]]"
"""Plans values, and answers what Terraform says of them."""


class Case(NamedTuple):
    """Values, a part of what is said of them, and the only setting that is wrong."""

    values: dict[str, Any]
    sentence: str
    setting: str = ""


GROUPS: Final = {
    one.name: one for one in read_blocks("variable", (MODULE / "variables.tf").read_text())
}
NEEDED: Final = {
    "allowed_origins": ["https://voice.example.com"],
    "project_id": "demo-project",
    "region": "europe-west1",
}
WITH: Final[dict[str, dict[str, Any]]] = {
    "app_check": {"app_id": "page", "site_key": ""},
    "characters.own": {"pytorch_index": "https://packages.example/cpu"},
    "content_credentials": {"certificates": "-----BEGIN CERTIFICATE-----"},
    "operator": {"name": "Ada's Museum"},
    "vpc": {"network": "office", "subnetwork": "voices"},
}
"""What a group cannot do without."""

TEXTS: Final[dict[str, list[Any]]] = {
    "characters.default": ["Mei Takahashi"],
    "characters.own.image": ["europe-west1-docker.pkg.dev/demo-project/voice-avatar/train:latest"],
    "characters.own.pytorch_index": ["http://packages.example/cpu", "https://a,b"],
    "compat.keys": [["a=b"]],
    "content_credentials.certificates": ["signer.pem"],
    "content_credentials.kms_key_version": ["projects/p/locations/l/keyRings/r/cryptoKeys/k"],
    "content_credentials.time_stamp_url": ["timestamp.example"],
    "convert.cpu": ["3"],
    "convert.gpu": ["nvidia-h100"],
    "convert.gpu_regions": [["us-central1", "us-central1-a"]],
    "convert.image": ["europe-west1-docker.pkg.dev/demo-project/voice-avatar/convert:latest"],
    "convert.memory": ["1", "256Mi", "511Mi", "0Gi"],
    "domain.additional": [["https://voice.example.org"]],
    "domain.name": ["https://voice.example.com", "localhost"],
    "images.attestation": ["on"],
    "images.build_region": ["global"],
    "images.repository": ["shared"],
    "live.cpu": ["3"],
    "live.memory": ["2"],
    "monitoring.channels": [["operator@example.com"]],
    "monitoring.emails": [["operator"]],
    "monitoring.log_level": ["verbose"],
    "notice.languages": [["fr"]],
    "notice.position": ["within"],
    "operator.privacy": ["museum.example/privacy"],
    "signing.method": ["rsa"],
    "storage.database_id": ["A Database"],
    "storage.firestore_location": ["eu"],
    "storage.kms_key": ["key"],
    "vpc.egress": ["NONE"],
    "vpc.network": [""],
    "vpc.subnetwork": [""],
}
NAMED: Final = {"api", "live", "name", "project_id", "region"}
OWN: Final = {"pytorch_index": "https://packages.example/cpu"}
OTHERS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"allowed_origins": []}, "allowed_origins must name at least"),
    ({"allowed_origins": ["*"]}, "allowed_origins must name at least"),
    ({"allowed_origins": ["http://voice.example.com"]}, "allowed_origins must name at least"),
    ({"allowed_origins": ["https://voice.example.com/page"]}, "allowed_origins must name at least"),
    ({"app_check": WITH["app_check"]}, "app_check needs the page's app_id"),
    (
        {"canary": {"percent": 100, "stable_revision": "voice-avatar-convert-00012-abc"}},
        "canary needs percent",
    ),
    ({"canary": {"percent": 10, "stable_revision": "another-00012-abc"}}, "canary needs percent"),
    ({"characters": {"bucket": {"memory_mib": 0.5}}}, "characters.bucket.memory_mib must be"),
    ({"characters": {"bucket": {"memory_mib": 512}}}, "characters.bucket.memory_mib must be"),
    ({"characters": {"own": OWN}}, "characters.own needs the bucket"),
    ({"characters": {"bucket": {}, "own": {}}}, "characters.own needs pytorch_index"),
    ({"compat": {}}, "compat is served by live"),
    ({"compat": {"voicevox_alone": True}, "live": {}}, "compat.voicevox_alone needs"),
    (
        {"compat": {"voicevox_speakers": {"one": "mei"}}, "live": {}},
        "compat.openai_voices must lead",
    ),
    ({"compat": {"openai_voices": {"a,b": "mei"}}, "live": {}}, "compat.openai_voices must lead"),
    ({"content_credentials_key": "signer.key"}, "content_credentials_key must be"),
    ({"convert": {"gpu": "nvidia-l4"}}, "convert.min_instances must be written"),
    (
        {"convert": {"busy_hours": {"Bad Name": {"from": 1, "to": 2, "min_instances": 1}}}},
        "convert.busy_hours needs names",
    ),
    (
        {
            "convert": {
                "busy_hours": {
                    "noon": {"days": "weekdays", "from": 11, "to": 13, "min_instances": 1}
                }
            }
        },
        "convert.busy_hours needs names",
    ),
    (
        {"convert": {"busy_hours": {"night": {"from": 22, "to": 6, "min_instances": 1}}}},
        "convert.busy_hours needs full",
    ),
    (
        {"convert": {"busy_hours": {"noon": {"from": 11, "to": 13, "min_instances": -1}}}},
        "convert.busy_hours needs full",
    ),
    ({"domain": {"additional": ["voice.example.org"]}}, "domain.additional needs domain.name"),
    (
        {
            "domain": {
                "name": "a.example",
                "additional": [f"voice{number}.example.org" for number in range(100)],
            }
        },
        "domain.additional needs domain.name",
    ),
    ({"domain": {"name": "a.example", "page_folder": "."}}, "domain.page_folder has no index.html"),
    ({"domain": {"page_folder": "page"}}, "domain.page_folder needs domain.name"),
    (
        {"domain": {"name": "a.example", "page_folder": "page", "external_load_balancer": True}},
        "domain.page_folder needs domain.name",
    ),
    (
        {
            "domain": {"name": "a.example", "page_folder": "page"},
            "api": {"domain_restricted_sharing": True},
        },
        "domain.page_folder needs domain.name",
    ),
    ({"firebase_authentication": {"anonymous": False}}, "firebase_authentication leaves no way"),
    ({"labels": {"Cost Center": "1"}}, "labels must be made"),
    ({"limits": {"recording_seconds": {"min": 0}}}, "limits.recording_seconds needs"),
    ({"limits": {"recording_seconds": {"max": 61}}}, "limits.recording_seconds needs"),
    ({"limits": {"recording_seconds": {"min": 10, "max": 5}}}, "limits.recording_seconds needs"),
    ({"live": {"hearings": 11, "sockets": 10}}, "live.hearings must be"),
    ({"live": {"hearings": 0.5}}, "live.hearings must be"),
    ({"name": "Voice Avatar"}, "name must be"),
    ({"name": "a-name-that-is-too-long"}, "name must be"),
    ({"notice": {"languages": []}}, "notice.languages must name"),
    ({"project_id": "Demo Project"}, "project_id must be"),
    ({"project_id": "123456789012"}, "project_id must be"),
    ({"quota": {"cpus": 0}}, "quota must be"),
    ({"region": "europe-west1-b"}, "region must be"),
    ({"region": "eu"}, "region must be"),
    (
        {"storage": {"kms_key": "projects/p/locations/us-east1/keyRings/r/cryptoKeys/k"}},
        "storage.kms_key must lie in",
    ),
    (
        {
            "storage": {
                "firestore_location": "eur3",
                "kms_key": "projects/p/locations/europe-west1/keyRings/r/cryptoKeys/k",
            }
        },
        "storage.kms_key must lie in",
    ),
    ({"watermark": {"character_bits": {"mei": 65536}}}, "watermark.character_bits must be"),
]
"""What depends on several settings, or is no rule of rules.tf."""


def planning(folder: Path) -> Plan:
    """Return what plans values in a folder, which has variables alone, and what it answers."""
    if (terraform := shutil.which("terraform")) is None:
        pytest.skip("needs terraform")
    subprocess.run([terraform, "init"], cwd=folder, check=True, capture_output=True)

    def plan(values: Mapping[str, object]) -> list[str]:
        (folder / "tried.auto.tfvars.json").write_text(json.dumps(NEEDED | dict(values)))
        command = [terraform, "plan", "-json", "-input=false"]
        done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
        said = [json.loads(line) for line in done.stdout.splitlines()]
        answers = [one["diagnostic"] for one in said if one["type"] == "diagnostic"]
        found = [one for one in answers if one["severity"] == "error"]
        assert {one["summary"] for one in found} <= {"Invalid value for variable"}, found
        return [one["detail"] for one in found]

    return plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("module")
    for name in ("rules.tf", "variables.tf"):
        shutil.copy(MODULE / name, folder)
    shutil.copytree(MODULE / "tests/page", folder / "page")
    return planning(folder)


def placed(path: str, value: object) -> dict[str, Any]:
    """Return the value of a setting in its group, with what that cannot do without."""
    group, _, rest = path.partition(".")
    if rest.startswith("own."):
        own = {**WITH["characters.own"], rest.removeprefix("own."): value}
        return {group: {"bucket": {}, "own": own}}
    return {group: {**WITH.get(group, {}), rest: value}}


def tried(cases: Iterable[Case], plan: Plan) -> list[str]:
    """Plan all cases, of which many go into one plan, and return the sentences that are missing.

    Another variable's rule is not looked at when one that it names is refused.
    """
    batches: list[list[Case]] = []
    for case in cases:
        for batch in batches:
            if all(apart(case, other) for other in batch):
                batch.append(case)
                break
        else:
            batches.append([case])
    missing: list[str] = []
    for batch in batches:
        values: dict[str, Any] = {}
        for case in batch:
            merge(values, case.values)
        said = plan(values)
        missing += [one.sentence for one in batch if not any(one.sentence in each for each in said)]
    return missing


def apart(one: Case, other: Case) -> bool:
    """Return whether two cases can be in one plan."""
    if bool(NAMED & one.values.keys()) != bool(NAMED & other.values.keys()):
        return False
    needed = {f"{group}.{name}" for group, values in WITH.items() for name in values}
    if {one.setting, other.setting} & {"", *needed}:
        return not one.values.keys() & other.values.keys()
    return one.setting != other.setting


def merge(values: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(values.get(name), dict):
            merge(values[name], value)
        else:
            values[name] = copy.deepcopy(value)


def rules_of(terraform: TerraformModule) -> dict[str, list[Any]]:
    """Return the rules by the paths of their settings."""
    return {
        f"{group.replace('own_characters', 'characters.own')}.{name}": rule
        for group, rules in terraform.locals["rules"].items()
        for name, rule in rules.items()
    }


def test_a_number_out_of_range_is_refused_by_its_name(
    terraform: TerraformModule, plan: Plan
) -> None:
    cases: list[Case] = []
    for path, (least, most, *more) in rules_of(terraform).items():
        if not isinstance(least, str):
            bad = [0.9 * least, 2 * most] if more else [least - 1, most + 1, most - 0.5]
            kind = "a number" if more else "a whole number"
            sentence = f"{path} must be {kind} from {least} to {most}."
            cases += [Case(placed(path, value), sentence, path) for value in bad]

    assert tried(cases, plan) == []


def test_a_text_that_nothing_understands_is_refused_by_its_name(
    terraform: TerraformModule, plan: Plan
) -> None:
    rules = rules_of(terraform)
    cases = [
        Case(placed(path, value), f"{path} must be {rules[path][1]}.", path)
        for path, bad in TEXTS.items()
        for value in bad
    ]

    assert TEXTS.keys() == {path for path, rule in rules.items() if isinstance(rule[0], str)}
    assert tried(cases, plan) == []


def test_what_does_not_fit_together_is_refused_in_a_sentence(plan: Plan) -> None:
    assert tried(itertools.starmap(Case, OTHERS), plan) == []


def test_the_defaults_are_accepted(plan: Plan) -> None:
    groups: dict[str, object] = {
        name: {} for name, one in GROUPS.items() if one.settings() and name not in {*WITH, "canary"}
    }

    assert plan({}) == []
    assert plan(groups) == []


def test_each_rule_of_a_group_is_tried(terraform: TerraformModule) -> None:
    for name, variable in terraform.variables.items():
        sentences = [
            rule["error_message"]
            for rule in variable.get("validation", [])
            if not rule["error_message"].startswith("join(")
        ]
        shown = {sentence for _, sentence in OTHERS}
        assert all(any(one.startswith(each) for each in shown) for one in sentences), name


def test_every_setting_has_an_effect_and_a_description() -> None:
    files = [path for path in MODULE.glob("*.tf") if path.name != "variables.tf"]
    used = "".join(path.read_text() for path in files).replace("traffic.value.", "var.canary.")
    for name, group in GROUPS.items():
        assert re.search(rf"\bvar\.{name}\b", used), name
        for setting in group.settings():
            path = f"var.{name}.{setting.path}".replace("var.convert.busy_hours.*", "hours")
            assert re.search(rf"\b{re.escape(path)}\b", used), path
            assert setting.description[-1:] == ".", path


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("deployment")
    shutil.copy(MODULE / "deployment/variables.tf", folder)
    return folder, planning(folder)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"convert": {"memroy": "2Gi"}}, "convert has no memroy; it has busy_hours, "),
        ({"characters": {"own": {"perday": 1}}}, "characters has no own.perday; it has bucket, "),
        ({"limits": {"recording_seconds": {"most": 9}}}, "limits has no recording_seconds.most; "),
        (
            {"convert": {"busy_hours": {"noon": {"form": 11}}}},
            "convert has no busy_hours.*.form; it has ",
        ),
        ({"traces": {"rate": 1}}, "traces has no rate; it has ratio."),
    ],
)
def test_a_name_that_a_group_does_not_have_is_refused(
    deployment: tuple[Path, Any], values: dict[str, object], sentence: str
) -> None:
    _, plan = deployment

    assert any(one.startswith(sentence) for one in plan(values))
    assert plan({"convert": {"cpu": "4", "busy_hours": {"noon": {"from": 11}}}, "live": {}}) == []


def test_names_of_an_earlier_version_are_refused_and_are_in_the_guide(
    deployment: tuple[Path, Any],
) -> None:
    folder, plan = deployment
    earlier = earlier_names((ROOT / "docs/deploy.md").read_text())
    settings = {f"{name}.{one.path}" for name, group in GROUPS.items() for one in group.settings()}

    assert set(earlier.values()) <= settings
    assert earlier["custom_domain"] == "domain.name"
    (folder / "terraform.tfvars").write_text('custom_domain = "voice.example.com"\n')
    assert any("version: custom_domain. docs/deploy.md" in one for one in plan({}))
    (folder / "terraform.tfvars").write_text('domain = {\n  name = "voice.example.com"\n}\n')
    assert plan({}) == []
