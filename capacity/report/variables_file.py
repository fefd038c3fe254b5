"""Writing found settings into a file that Terraform reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from capacity.model.errors import PlanningError

if TYPE_CHECKING:
    from pathlib import Path

    from capacity.choice.search import Found

NOTICE: Final = "# Written by nox -s capacity; a later call with --write-tfvars writes it anew.\n"


def check_variables_file(path: Path) -> None:
    """Refuse a file that must not be written.

    Raises:
        PlanningError: Terraform would not read it, its folder is missing, or somebody else's
            variables are in it.
    """
    if path.suffix != ".tfvars":
        raise PlanningError(
            f"{path} does not end with .tfvars, so Terraform would not read it; "
            "name it capacity.auto.tfvars."
        )
    if not path.parent.is_dir():
        raise PlanningError(f"{path.parent} is not a folder; make it, or name another one.")
    if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(NOTICE):
        raise PlanningError(
            f"{path} has variables that the planner did not write, and they would be lost; "
            "name another file beside it, such as capacity.auto.tfvars."
        )


def write_variables(path: Path, title: str, found: Found) -> str:
    """Write the settings that were found, and return what the operator has to know about it.

    Args:
        path: the file; `check_variables_file` has seen it.
        title: for whom the settings are.
        found: what the search came to.
    """
    summary = found.summary
    if not found.holds:
        return f"{path} is not written: no settings that were tried keep the target."
    lifted = "".join(f"# Needs a higher quota: {quota}.\n" for quota in found.in_the_way)
    settings = summary.settings.terraform(summary.most_instances)
    path.write_text(f"{NOTICE}# {title}.\n{lifted}\n{settings}\n", encoding="utf-8")
    if path.name.endswith(".auto.tfvars"):
        return f"{path}: Terraform reads it after terraform.tfvars, so its values hold."
    if path.name == "terraform.tfvars":
        return f"{path}: Terraform reads it by itself."
    return f'{path}: Terraform reads it with -var-file="{path.name}".'
