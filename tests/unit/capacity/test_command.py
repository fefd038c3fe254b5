from __future__ import annotations

from pathlib import Path

import hcl2
import pytest

from tests.unit.capacity.planning import PARAMETERS
from tools.capacity.__main__ import MINUTES, PAGE, main
from tools.capacity.report import calls, check_variables_file, quotas, with_part

DEPLOYMENT = Path(__file__).parents[3] / "infra" / "terraform" / "deployment" / "variables.tf"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    return capsys.readouterr().err.strip()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--per-day", "many"], "'many' is no number"),
        (["--per-day", "-5"], "--per-day is -5; it must be from 0.001 to"),
        (["--per-day", "10", "--target", "fast"], 'write it like "p95 <= 1.0 s"'),
        (
            ["--per-day", "9", "--live", "0.7", "--texts", "0.4"],
            "--texts is 0.4; it must be from 0 to",
        ),
        (["--per-day", "9", "--min-instances", "5", "--max-instances", "3"], "must be from 0 to 3"),
        (["--arrivals", "nobody.csv"], "nobody.csv cannot be read"),
        (["--arrivals", "nobody.csv", "--per-day", "3"], "--arrivals says who comes"),
        (["--visitors", "3"], "--help shows what can be said"),
        ([], "either --per-day N or --peak R"),
    ],
)
def test_wrong_input_gets_one_clear_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    message = said(capsys, *arguments)
    assert sentence in message
    assert "\n" not in message


def test_a_plan_is_printed_drawn_and_written_as_variables_that_the_deployment_has(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, picture = tmp_path / "capacity.auto.tfvars", tmp_path / "picture.svg"
    arguments = ["--peak", "2", "--minutes", "1", "--target", "p95 <= 1.5 s"]
    arguments += ["--picture", str(picture), "--write-tfvars", str(file)]

    assert main(arguments) == 0

    check_variables_file(file)  # a file of the planner's own may be written again
    assert "visitors a second" in picture.read_text()
    printed = capsys.readouterr().out
    assert "Terraform reads it after terraform.tfvars" in printed
    for expected in ("with minimum instances", "cheapest that keeps the target", "together"):
        assert expected in printed
    written = hcl2.loads(file.read_text())
    # The root that an operator applies.
    (names,) = hcl2.loads(DEPLOYMENT.read_text())["locals"]
    for group, settings in written.items():
        if not group.startswith("__"):  # the parser's own
            known = {name.strip('"') for name in names["settings"][group]}
            assert {name for name in settings if not name.startswith("__")} <= known, group
    assert {"api", "convert", "on_upload", "quota", "signing", "storage"} <= written.keys()


def test_variables_of_somebody_else_are_not_overwritten(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mine = tmp_path / "mine.auto.tfvars"
    mine.write_text('project_id = "mine"\n')
    arguments = ["--per-day", "10", "--target", "p95 <= 1.5 s", "--write-tfvars"]

    assert "they would be lost" in said(capsys, *arguments, str(mine))
    assert mine.read_text() == 'project_id = "mine"\n'
    assert "would not read" in said(capsys, *arguments, str(tmp_path / "plan.txt"))
    assert "is not a folder" in said(capsys, *arguments, str(tmp_path / "no" / "plan.auto.tfvars"))
    without_target = ["--per-day", "10", "--write-tfvars", str(tmp_path / "plan.tfvars")]
    assert "needs a --target" in said(capsys, *without_target)


def test_the_calls_and_quotas_on_the_page_are_those_of_the_parameters() -> None:
    page = PAGE.read_text()

    for name, part in (("calls", calls(PARAMETERS, MINUTES)), ("quotas", quotas(PARAMETERS))):
        assert with_part(page, name, part) == page
