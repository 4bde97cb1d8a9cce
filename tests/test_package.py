"""The package as a whole: what imports what, and what an import costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import version
from pathlib import Path

import pytest

import bigdag

SOURCE = Path(bigdag.__file__).parent

# The rooms in the order of the data: a module imports from its own room or from those above it;
# what stands in one line may import from each other.
ROOMS = [
    ["errors"],
    ["compiled", "interrupts", "notebook", "resources", "terminal", "writing"],
    ["data", "transforms"],
    ["engine"],
    ["page"],
    ["graph"],
    ["knowledge"],
    ["model"],
    ["search"],
    ["learners"],
    ["evaluation", "metrics"],
    ["simulate"],
    ["experiments"],
    ["cli", "__main__"],
]
ROOM = {name: depth for depth, names in enumerate(ROOMS) for name in names}

TABLE_FILES = {f"data.{name}" for name in ("tables", "text", "columns", "arrays", "labels")}

# What a room must not even reach by a detour.
NEVER = {
    "engine": TABLE_FILES | {"graph.files", "metrics", "evaluation", "learners"},
    "search": TABLE_FILES | {"metrics", "evaluation", "learners"},
    "learners": TABLE_FILES | {"metrics", "evaluation", "graph.draw", "simulate"},
    "evaluation": TABLE_FILES | {"graph.draw", "simulate"},
}

HEAVY = {"dask", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "torch"}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = sorted(name for path in SOURCE.rglob("*.py") if (name := module_name(path)) != "__init__")


@cache
def imports_of(module: str) -> frozenset[str]:
    """Return the modules of bigdag that a module imports when it runs, at any place in it."""
    path = SOURCE.joinpath(*module.split("."))
    tree = ast.parse(
        (path.with_suffix(".py") if not path.is_dir() else path / "__init__.py").read_text()
    )
    for_types_only = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in for_types_only:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            source = node.module or ""
            if source == "bigdag":
                found |= {alias.name for alias in node.names}
            elif source.startswith("bigdag."):
                inside = source.removeprefix("bigdag.")
                parts = {f"{inside}.{alias.name}" for alias in node.names} & set(MODULES)
                found |= parts or {inside}
        elif isinstance(node, ast.Import):
            found |= {
                alias.name.removeprefix("bigdag.")
                for alias in node.names
                if alias.name.startswith("bigdag.")
            }
    return frozenset(found - {"__version__"})


@cache
def reached_from(module: str) -> frozenset[str]:
    """Return all modules of bigdag that importing and using a module may load."""
    seen, waiting = set(), [module]
    while waiting:
        for found in imports_of(waiting.pop()):
            name = bigdag._HOME.get(found, "").removeprefix("bigdag.") or found
            if name in MODULES and name not in seen:
                seen.add(name)
                waiting.append(name)
    return frozenset(seen - {module})


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module):
    room = module.split(".")[0]
    assert room in ROOM, f"say in ROOMS where {module} belongs"
    for imported in imports_of(module):
        if imported in bigdag._HOME:
            # Experiments and what is below them use the public names; above, modules are named.
            assert ROOM[room] >= ROOM["simulate"], f"{module} must name the module of {imported}"
            continue
        assert ROOM[imported.split(".")[0]] <= ROOM[room], f"{module} must not import {imported}"


@pytest.mark.parametrize("module", MODULES)
def test_what_a_room_must_not_reach(module):
    forbidden = NEVER.get(module.split(".")[0], set())
    for reached in reached_from(module):
        assert reached not in forbidden, f"{module} reaches {reached}"
        assert reached.split(".")[0] not in forbidden, f"{module} reaches {reached}"


def test_every_folder_is_a_room():
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert folders <= set(ROOM)


def test_no_module_imports_itself_by_a_detour():
    order = list(TopologicalSorter({m: imports_of(m) for m in MODULES}).static_order())
    assert set(MODULES) <= set(order)


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "code",
    [
        "import bigdag",
        "from bigdag.cli import app",
        "from bigdag.learners.methods import find_method; find_method('optimas')",
    ],
)
def test_a_light_import_is_silent_and_loads_nothing_heavy(code):
    result = run(f"import sys; {code}; print(*sorted({HEAVY} & set(sys.modules)))")
    assert (result.stdout, result.stderr) == ("\n", "")


def test_a_learner_without_torch_does_not_load_it():
    code = "import sys; from bigdag import ProxiMAS, OptiMAS, NOTEARS, GOLEM, metrics"
    result = run(f"{code}; print(*sorted({{'torch', 'matplotlib', 'dask'}} & set(sys.modules)))")
    assert (result.stdout, result.stderr) == ("\n", "")


@pytest.mark.parametrize("name", bigdag.__all__)
def test_public_names_load(name):
    assert getattr(bigdag, name) is not None
    assert name in dir(bigdag)


def test_the_door_in_loads_what_is_asked_for():
    from bigdag import data

    assert data.as_dataset([[1.0, 2.0], [2.0, 1.0], [4.0, 3.0]]).n_features == 2
    with pytest.raises(AttributeError, match="no attribute 'as_data'"):
        _ = data.as_data


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Proximas'"):
        _ = bigdag.Proximas


def test_the_version_is_that_of_the_installed_package():
    assert version("bigdag") == bigdag.__version__
