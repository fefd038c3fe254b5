"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import os
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

ROOT = Path(__file__).parents[2]
OUTSIDE = {"node_modules", "dist", "__pycache__"}
DEPLOYABLES = sorted(
    str(path.parent.relative_to(ROOT / "functions"))
    for path in (ROOT / "functions").rglob("main.py")
)
FLOORS = ("requirements", "shared", "functions", "infra", "tools", "tests")
"""The top-level packages from the bottom to the top; each imports only what stands below it."""

PRODUCT = FLOORS[:-1]


def sources(*folders: str) -> list[Path]:
    found = []
    for folder in folders:
        for parent, children, names in os.walk(ROOT / folder):
            # Not even looked into: npm may be filling them just now.
            children[:] = [name for name in children if name not in OUTSIDE]
            found += [Path(parent) / name for name in names if name.endswith(".py")]
    return sorted(found)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> frozenset[str]:
    return frozenset(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{named(path)} imports relatively"
            module = node.module or ""
            yield module
            # `from functions import api` imports functions.api.
            yield from (f"{module}.{alias.name}" for alias in node.names)


def ours(path: Path) -> set[str]:
    return {name for name in imports(path) if name.partition(".")[0] in FLOORS}


def offending(found: Mapping[Path, Collection[str]]) -> dict[str, Collection[str]]:
    """The files in which something was found that may not be there, and what."""
    return {named(path): names for path, names in found.items() if names}


def module_of(path: Path) -> str:
    """The dotted name of a file's module; a package has the name of its folder."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_graph(files: list[Path]) -> dict[str, set[str]]:
    """The modules that each module imports, anywhere in the file."""
    modules = {module_of(path) for path in files}
    return {module_of(path): (ours(path) & modules) - {module_of(path)} for path in files}


def circles(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """The first circle of modules that import each other, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [tuple(error.args[1])]
    return []


def test_every_top_level_package_is_known() -> None:
    # Caches have names that begin with a dot; `nox -s mutants` leaves copies.
    folders = [
        path
        for path in ROOT.iterdir()
        if path.is_dir() and path.name[0] != "." and not (path / "pyvenv.cfg").exists()
    ]
    found = {folder.name for folder in folders if sources(folder.name)} - {"mutants"}

    assert found == set(FLOORS)


def test_arrows_between_floors_point_downwards() -> None:
    upwards = {
        path: {name for name in ours(path) if name.partition(".")[0] in FLOORS[height + 1 :]}
        for height, floor in enumerate(FLOORS)
        for path in sources(floor)
    }

    assert offending(upwards) == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(module_graph(sources(*FLOORS))) == []


def deployable_of(module: str) -> str | None:
    """The deployable that a module belongs to; None for a module of all or of none."""
    path = module.replace(".", "/").removeprefix("functions/")
    found = [name for name in DEPLOYABLES if f"{path}/".startswith(f"{name}/")]
    return found[0] if found and module.startswith("functions.") else None


def test_a_deployable_imports_no_other_deployable() -> None:
    others: dict[Path, set[str]] = {}
    for path in sources("functions"):
        own = deployable_of(module_of(path))
        # It is the composition root of several deployables in one process.
        if own != "live_and_compat":
            imported = map(deployable_of, ours(path))
            others[path] = {name for name in imported if name not in {own, None}}

    assert offending(others) == {}


def test_no_folder_is_deeper_than_three() -> None:
    deep = [named(path) for path in sources(*PRODUCT) if len(path.relative_to(ROOT).parts) > 4]

    assert deep == []


def test_no_module_has_the_name_of_its_folder() -> None:
    assert not [named(path) for path in sources(*PRODUCT) if path.stem == path.parent.name]


def folder_graph(files: list[Path]) -> dict[str, set[str]]:
    """The folders that the modules of each folder import from."""
    folders = {module_of(path): named(path.parent) for path in files}
    graph: dict[str, set[str]] = {folder: set() for folder in folders.values()}
    for path in files:
        own = named(path.parent)
        for imported in imported_modules(path, set(folders)):
            graph[own] |= {folders[imported]} - {own}
    return graph


def imported_modules(path: Path, modules: set[str]) -> Iterator[str]:
    """The modules that a file imports; a package counts only if no module of it is meant."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & modules
            yield from inner or ({node.module or ""} & modules)


def test_no_folders_import_each_other_in_a_circle() -> None:
    assert circles(folder_graph(sources(*PRODUCT))) == []


PURE = (
    ROOT / "shared" / "ports.py",
    ROOT / "shared" / "pipeline.py",
    ROOT / "shared" / "runtime" / "settings.py",
    *sources("shared/voices"),
)
CLIENTS = {"google", "grpc", "httpx", "requests", "starlette", "fastapi", "numpy", "onnxruntime"}


def test_a_pure_module_imports_no_client_library() -> None:
    found = {
        path: {module.partition(".")[0] for module in imports(path)} & CLIENTS for path in PURE
    }

    assert offending(found) == {}


def test_the_domain_of_shared_imports_no_adapter() -> None:
    domain = ("shared/voices", "shared/characters", "shared/speech")
    found = {
        path: {name for name in ours(path) if name.startswith("shared.google")}
        for path in sources(*domain)
    }

    assert offending(found) == {}


def test_only_composition_roots_open_adapters() -> None:
    found = {
        path: {name for name in ours(path) if name.startswith("shared.google")}
        for path in sources("functions", "shared/conversion", "shared/container")
        if path.name not in {"main.py", "composition.py"}
    }

    assert offending(found) == {}


def calls_at_import(tree: ast.Module) -> Iterator[ast.Call]:
    """Every call that runs when a module is imported, but for decorators."""
    pending: list[ast.AST] = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'")
    ]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.ClassDef):
            children = [child for child in children if child not in node.decorator_list]
        pending += children


def test_no_client_is_made_at_import() -> None:
    suspicious = {
        name
        for path in sources("functions", "shared")
        for call in calls_at_import(tree_of(path))
        for name in [ast.unparse(call.func)]
        if any(word in name for word in ("Client", "Session", "open_", "connect", "load("))
        or name.endswith((".run", ".start", ".default"))
    }

    assert not suspicious


def changing_globals(tree: ast.Module) -> Iterator[str]:
    """The globals of a module that its functions assign, and its lists and sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            names = ast.unparse(node).partition("=")[0]
            is_mutable = isinstance(node.value, ast.List | ast.ListComp | ast.Set | ast.SetComp)
            if is_mutable and "__all__" not in names:
                yield names


def test_no_module_keeps_a_global_that_changes() -> None:
    found = {
        path: set(changing_globals(tree_of(path)))
        for path in sources("functions", "shared", "infra")
    }

    assert offending(found) == {}


@pytest.mark.parametrize("name", DEPLOYABLES)
def test_every_deployable_has_its_settings_and_its_requirements(name: str) -> None:
    folder = ROOT / "functions" / name

    assert (folder / "settings.py").is_file()
    assert (folder / "requirements.in").is_file()
    assert (folder / "requirements.txt").is_file()


def test_only_composition_roots_read_the_environment() -> None:
    assert not [
        named(path)
        for name in DEPLOYABLES
        for path in sources(f"functions/{name}")
        if path.name not in {"main.py", "__main__.py"} and "os.environ" in path.read_text()
    ]
