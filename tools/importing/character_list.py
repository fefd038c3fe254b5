"""Lists, changes, renames and deletes the characters of a folder.

nox -s character -- list
nox -s character -- set ID [--name NAME] [--name-ja NAME] [--portrait FILE]
nox -s character -- rename ID NEW
nox -s character -- delete ID

Characters that come with the service stay as they are. A running `nox -s serve` notices what
comes and what goes; it must be started again to offer what has changed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shared.characters.manifest import (
    BUILT_IN,
    ENCODERS,
    MANIFEST,
    ManifestError,
    bundle_folders,
    parse_manifest,
    read_content,
    read_manifest,
)
from shared.runtime.process import plain_text, write_whole
from tools.bundles.files import VoiceFileError
from tools.bundles.portraits import read_portrait

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType
    from rich.style import StyleType


class PlainTable(Table):
    """A table that shows every text as it is, in one line: no markup, nothing that steers."""

    def add_row(
        self,
        *cells: RenderableType | None,
        style: StyleType | None = None,
        end_section: bool = False,
    ) -> None:
        shown = [
            Text(plain_text(cell).replace("\n", " ")) if isinstance(cell, str) else cell
            for cell in cells
        ]
        super().add_row(*shown, style=style, end_section=end_section)


CHARACTERS: Final = Path("characters")
PORTRAIT: Final = "portrait.svg"
_MEGABYTE: Final = 1_000_000


def main(arguments: Sequence[str], ask: Callable[[str], str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.command == "list":
            Console().print(_table(options.into))
        elif options.command == "set":
            _set(options)
        elif options.command == "rename":
            _rename(options)
        else:
            _delete(options, ask)
    except (ManifestError, VoiceFileError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="character", description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    every = commands.add_parser("list", help="list the characters")
    change = commands.add_parser("set", help="change a character's name or portrait")
    change.add_argument("--name", help="shown to visitors")
    change.add_argument("--name-ja", help="the same in Japanese")
    change.add_argument("--portrait", type=Path, metavar="FILE", help="a picture, PNG or JPEG")
    rename = commands.add_parser("rename", help="give a character another id")
    delete = commands.add_parser("delete", help="delete a character from the folder")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    for each in (change, rename, delete):
        each.add_argument("character", metavar="ID", help="its id")
    rename.add_argument("new", metavar="NEW", help="its new id")
    for each in (every, change, rename, delete):
        each.add_argument("--into", type=Path, default=CHARACTERS, help="folder of the characters")
    return parser


def _table(folder: Path) -> Table:
    table = PlainTable("id", "name", "engine", "takes", "MB", "from")
    for each in bundle_folders(folder):
        try:
            manifest = read_manifest(each)
        except ManifestError as error:
            table.add_row(each.name, f"does not load: {error}", "", "", "", "")
            continue
        size = sum(graph.bytes for graph in manifest.graphs.values()) / _MEGABYTE
        origin = "the service" if manifest.id in BUILT_IN else "you"
        name, engine, takes = manifest.name.en, manifest.engine, manifest.takes
        table.add_row(manifest.id, name, engine, takes, f"{size:.1f}", origin)
    return table


def _set(options: argparse.Namespace) -> None:
    folder = own_folder(options.into, options.character)
    said = read(folder)
    names = {"en": options.name, "ja": options.name_ja}
    said["name"] |= {language: name for language, name in names.items() if name is not None}
    if options.portrait is not None:
        said["preview"] = {**said["preview"], "portrait": PORTRAIT}
        drawing = read_portrait(options.portrait, said["preview"]["colour"])
    checked(said, folder)
    if options.portrait is not None:
        write_whole(folder / PORTRAIT, drawing)
    _write(folder, said)
    _say(f"{options.character} is changed.")


def _rename(options: argparse.Namespace) -> None:
    folder = own_folder(options.into, options.character)
    new: Path = options.into / options.new
    if new.exists() or options.new == ENCODERS:
        raise ManifestError(f"{options.new}: expected an id that is free, found {new}.")
    said = read(folder) | {"id": options.new}
    checked(said, folder)
    # The folder first: a bundle whose folder is not named by its id is refused, not served.
    folder.rename(new)
    _write(new, said)
    _say(f"{options.character} is {options.new} now; a link to the old id finds nothing.")


def _delete(options: argparse.Namespace, ask: Callable[[str], str]) -> None:
    folder = own_folder(options.into, options.character)
    question = f"Delete {folder} for good? [y/N] "
    try:
        is_wanted = options.yes or ask(question).strip().lower() in {"y", "yes"}
    except EOFError:
        raise VoiceFileError(
            f"delete {options.character}: expected an answer, found no terminal; add --yes."
        ) from None
    if not is_wanted:
        _say("nothing is deleted.")
        return
    shutil.rmtree(folder)
    _say(f"{options.character} is deleted. Encoders that voices share stay in {ENCODERS}/.")


def own_folder(characters: Path, character: str) -> Path:
    folder = characters / character
    if character in BUILT_IN and (folder / MANIFEST).is_file():
        raise ManifestError(f"{character}: comes with the service and stays as it is.")
    if Path(character).name != character or not (folder / MANIFEST).is_file():
        known = ", ".join(path.name for path in bundle_folders(characters))
        raise ManifestError(f"{character}: expected one of {known}.")
    return folder


def read(folder: Path) -> dict[str, Any]:
    content = read_content(folder / MANIFEST)
    parse_manifest(content, folder)
    said: dict[str, Any] = json.loads(content)
    return said


def checked(said: dict[str, Any], folder: Path) -> bytes:
    content = (json.dumps(said, ensure_ascii=False, indent=2) + "\n").encode("utf-8")
    parse_manifest(content, folder)
    return content


def _write(folder: Path, said: dict[str, Any]) -> None:
    write_whole(folder / MANIFEST, checked(said, folder))


def _say(sentence: str) -> None:
    sys.stdout.write(f"{plain_text(sentence)}\n")
