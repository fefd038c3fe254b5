"""Checks, imports and manages characters: `python -m tools.importing COMMAND`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: Final = {
    "check": "check a bundle and say how fast it is; FOLDER alone does the same",
    "import": "make a character of a voice that you have: .pth, .onnx, .index, .aivmx",
    "encoder": "add an encoder that voices share",
    "list": "list the characters of a folder",
    "set": "change a character's name or portrait",
    "rename": "give a character another id",
    "delete": "delete a character from the folder",
    "put": "put a bundle into the bucket of a running service",
    "remove": "remove a character from that bucket",
}


def main(arguments: Sequence[str]) -> int:
    """Do what is asked for; exit with 0 if it was done, otherwise 1 or 2."""
    if not arguments or arguments[0] in {"-h", "--help"}:
        sys.stdout.write(f"{_help()}\n")
        return 0
    # Each command is imported when it is asked for: some need Google's client, some large packages.
    if arguments[0] in {"import", "encoder"}:
        from tools.importing import importer  # noqa: PLC0415

        return importer.run(arguments)
    if arguments[0] in {"put", "remove"}:
        from tools.importing import publication  # noqa: PLC0415

        return publication.main(arguments)
    if arguments[0] in {"list", "set", "rename", "delete"}:
        from tools.importing import character_list  # noqa: PLC0415

        return character_list.main(arguments, input)
    from tools.importing import importer  # noqa: PLC0415

    return importer.check_command(arguments[1:] if arguments[0] == "check" else arguments)


def _help() -> str:
    lines = [f"  {name:8} {text}" for name, text in COMMANDS.items()]
    head = ["usage: nox -s character -- FOLDER | COMMAND ...", "", "commands:"]
    return "\n".join(
        [*head, *lines, "", "COMMAND --help says more of each; see characters/README.md."]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
