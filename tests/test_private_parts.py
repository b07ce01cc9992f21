"""A library whose private parts we use has an upper bound.

Private parts change in any version, and pip and pipx ignore our lock files.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.cases import cases

ROOT = Path(__file__).parents[1]
UNDOCUMENTED = (
    "chdb.state",
    "clickhouse_connect.driver.httputil",
    "litestar.routes",
    "uvicorn.middleware",
    "uvicorn.protocols",
)
"""Modules that their libraries do not document."""
PRIVATE = re.compile(rf"(^|\.)_(?!_)|^({'|'.join(map(re.escape, UNDOCUMENTED))})(\.|$)")
OURS = {"penstock", "penstock_sdk", *sys.stdlib_module_names}


def names_of_others(source: str) -> Iterator[str]:
    """Yield the full names in other libraries that a module imports, or reads from an import."""
    nodes, imported = list(ast.walk(ast.parse(source))), dict[str, str]()
    for node in nodes:
        if isinstance(node, ast.Import):
            imported |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {
                alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
            }
    yield from imported.values()
    for node in nodes:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in imported
        ):
            yield f"{imported[node.value.id]}.{node.attr}"


def private_names(source: str) -> set[str]:
    return {
        name
        for name in names_of_others(source)
        if name.partition(".")[0] not in OURS and PRIVATE.search(name)
    }


@cache
def used(project: Path) -> set[tuple[str, str]]:
    """Return each file of a project and each private name that it uses."""
    return {
        (str(path.relative_to(project)), name)
        for path in (project / "src").rglob("*.py")
        for name in private_names(path.read_text("utf-8"))
    }


def bounded(project: Path) -> set[str]:
    """Return the distributions for which a project has an upper bound."""
    described = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
    extras = described.get("optional-dependencies", {}).values()
    requirements = [*described["dependencies"], *(each for extra in extras for each in extra)]
    return {re.split(r"[^\w.-]", each)[0] for each in requirements if "<" in each.partition(";")[0]}


@pytest.mark.parametrize("project", [ROOT, ROOT / "sdk" / "python"], ids=["server", "sdk"])
def test_a_library_whose_private_parts_are_used_has_an_upper_bound(project: Path) -> None:
    bounds = bounded(project)
    unbounded = [
        f"{path} uses {name}: give {distribution} an upper bound in pyproject.toml"
        for path, name in sorted(used(project))
        if (distribution := name.partition(".")[0].replace("_", "-")) not in bounds
    ]
    assert unbounded == []


def test_every_undocumented_module_is_used() -> None:
    names = [name for _, name in used(ROOT)]
    assert [each for each in UNDOCUMENTED if not any(name.startswith(each) for name in names)] == []


@cases(
    ("source", "names"),
    [
        ("from psycopg import errors\nerrors._WaitTimeout", {"psycopg.errors._WaitTimeout"}),
        ("from psycopg._queries import x", {"psycopg._queries.x"}),
        ("import psycopg._queries", {"psycopg._queries"}),
        ("import psycopg\npsycopg._encodings", {"psycopg._encodings"}),
        ("import chdb.state", {"chdb.state"}),
        ("from uvicorn.protocols.http import h11_impl", {"uvicorn.protocols.http.h11_impl"}),
        ("import sys\nsys._getframe", set()),
        ("from penstock.core import _x", set()),
        ("import uvicorn\nuvicorn.__version__\nuvicorn.Server", set()),
    ],
)
def test_private_names_are_found(source: str, names: set[str]) -> None:
    assert private_names(source) == names
