"""Reading a Dockerfile, as much of it as functions/convert/Dockerfile uses."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

KNOWN: Final = frozenset(
    {"CMD", "COPY", "ENV", "EXPOSE", "FROM", "RUN", "USER", "WORKDIR"},
)


class DockerfileError(ValueError):
    """The Dockerfile has an instruction that cannot be carried out here."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its name in capitals and the rest of its line."""

    name: str
    rest: str


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a build.

    Attributes:
        base: the image it begins with, or the stage.
        name: what later stages call it; empty if nothing.
        instructions: what is done, in order.
    """

    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def find(self, name: str) -> list[str]:
        """Return the rest of every instruction of this name."""
        return [one.rest for one in self.instructions if one.name == name]

    @property
    def environment(self) -> dict[str, str]:
        """What ENV sets."""
        return dict(re.fullmatch(r"(\w+)=(\S*)", rest).groups() for rest in self._settings())  # type: ignore[union-attr,misc]

    @property
    def command(self) -> list[str]:
        """The command that a container runs, in its list form."""
        commands = self.find("CMD")
        if len(commands) != 1 or not commands[0].startswith("["):
            raise DockerfileError('a stage needs exactly one CMD ["program", "argument"]')
        return [str(part) for part in json.loads(commands[0])]

    @property
    def user(self) -> int:
        """The number of the user that a container runs as."""
        users = self.find("USER")
        if not users or not re.fullmatch(r"\d+(:\d+)?", users[-1]):
            raise DockerfileError("USER must be numbers: Cloud Run cannot check a name for root")
        return int(users[-1].partition(":")[0])

    def _settings(self) -> list[str]:
        for rest in (settings := self.find("ENV")):
            if not re.fullmatch(r"\w+=\S*", rest):
                raise DockerfileError(f"ENV {rest}: write one NAME=value without quotes a line")
        return settings


def read(path: Path) -> list[Stage]:
    """Read a Dockerfile into its stages.

    Raises:
        DockerfileError: an instruction is unknown here; the message names its line.
    """
    stages: list[Stage] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, rest = line.partition(" ")
        if name not in KNOWN or rest.endswith("\\"):
            raise DockerfileError(f"{path.name}, line {number}: {line[:60]!r} is not understood")
        if name == "FROM":
            base, _, alias = rest.partition(" AS ")
            stages.append(Stage(base, alias, ()))
            continue
        last = stages.pop()
        added = (*last.instructions, Instruction(name, rest))
        stages.append(Stage(last.base, last.name, added))
    return stages
