"""Every room uses the same file names.

Handlers are in `routes.py`, services in `service.py`, SQL statements in `store.py`, plain types
that a store exchanges with other modules in `model.py`, wire types in `schema.py`. A room is a
package. If it needs only functions and wire types, it may be one module with both.
"""

import ast
import tomllib
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

from tests.source_tree import SOURCE, nodes_of, tree_of

HANDLERS = {"asgi", "delete", "get", "patch", "post", "put", "question", "route", "slow_route"}
HANDLER_MODULES = ("litestar", "handlers", "cancellable", "request")
STATEMENTS = {"delete", "insert", "select", "text", "union", "union_all", "update"}
WIRE_BASES = {"BaseModel", "RootModel"}
PLAIN_TYPES = {"NamedTuple", "Struct", "dataclass"}

Rule = Callable[[Path], Iterator[str]]


def _imported(path: Path, *modules: str) -> set[str]:
    """Local names of everything imported from modules with one of these names or last parts."""
    return {
        alias.asname or alias.name
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and node.module
        if node.module in modules or node.module.rpartition(".")[2] in modules
        for alias in node.names
    }


def handlers(path: Path) -> Iterator[str]:
    """Functions with a decorator that makes them handlers."""
    decorators = _imported(path, *HANDLER_MODULES) & HANDLERS
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                function = decorator.func if isinstance(decorator, ast.Call) else decorator
                if isinstance(function, ast.Name) and function.id in decorators:
                    yield node.name


def services(path: Path) -> Iterator[str]:
    """Classes whose names end in `Service`. Other use cases have a name that says what they do."""
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Service"):
            yield node.name


def statements(path: Path) -> Iterator[str]:
    """Calls that build a statement of SQLAlchemy."""
    builders = _imported(path, "sqlalchemy") & STATEMENTS
    for node in nodes_of(path):
        function = node.func if isinstance(node, ast.Call) else None
        if isinstance(function, ast.Name) and function.id in builders:
            yield f"{function.id}() in line {function.lineno}"


def exchanged_types(path: Path) -> Iterator[str]:
    """Plain types of a store that other modules name."""
    if path.stem == "store":
        for node in tree_of(path).body:
            if (
                isinstance(node, ast.ClassDef)
                and f"{_module_of(path)}.{node.name}" in _taken_from_stores()
                and PLAIN_TYPES & _names_in(*node.bases, *node.decorator_list)
            ):
                yield node.name


@cache
def _taken_from_stores() -> frozenset[str]:
    """Full names of what modules take from stores: `from a.store import b` and `store.b`."""
    taken = set[str]()
    for path in SOURCE.rglob("*.py"):
        nodes, stores = nodes_of(path), dict[str, str]()
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    name = f"{node.module}.{alias.name}"
                    if alias.name == "store":
                        stores[alias.asname or alias.name] = name
                    elif node.module.endswith(".store"):
                        taken.add(name)
        taken |= {
            f"{stores[node.value.id]}.{node.attr}"
            for node in nodes
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in stores
        }
    return frozenset(taken)


def _module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def _names_in(*expressions: ast.expr) -> set[str]:
    return {
        name.id
        for expression in expressions
        for name in ast.walk(expression)
        if isinstance(name, ast.Name)
    }


def wire_types(path: Path) -> Iterator[str]:
    """Pydantic models: classes that derive from Pydantic's, or from a class of a `schema`."""
    if _is_room(path):
        return
    bases = (_imported(path, "pydantic") & WIRE_BASES) | _imported(path, "schema", "period")
    for node in tree_of(path).body:
        classes = [
            base for base in getattr(node, "bases", ()) if not isinstance(base, ast.Subscript)
        ]
        if isinstance(node, ast.ClassDef) and _names_in(*classes) & bases:
            bases.add(node.name)
            yield node.name


def _is_room(path: Path) -> bool:
    """Whether a module is a room of its own: it stands among rooms that share no `schema`."""
    folder = path.parent
    stands_among_rooms = any(folder.glob("*/__init__.py")) and not (folder / "schema.py").exists()
    return stands_among_rooms and path.stem not in {*RULES, "plugin"}


RULES: dict[str, Rule] = {
    "routes": handlers,
    "service": services,
    "store": statements,
    "model": exchanged_types,
    "schema": wire_types,
}
BELOW: dict[str, frozenset[str]] = {
    "store": frozenset({"penstock/metadb"}),
    "schema": frozenset({"penstock/http"}),
}
"""Rooms that a rule does not apply to, because every room of that kind stands on them: `metadb` has
the connections, tables and helpers of all stores, `http` the base classes of all wire types.
"""

ROOMS = sorted({path.parent.relative_to(SOURCE.parent).as_posix() for path in SOURCE.rglob("*.py")})


@pytest.mark.parametrize("file_name", RULES)
def test_rooms_use_the_same_file_names(file_name: str) -> None:
    misplaced = [
        f"{path.relative_to(SOURCE)}: {offender}"
        for room in ROOMS
        if room not in BELOW.get(file_name, ())
        for path in sorted((SOURCE.parent / room).glob("*.py"))
        if path.stem != file_name
        for offender in RULES[file_name](path)
    ]
    assert misplaced == [], f"belongs in {file_name}.py"


def test_every_room_that_a_rule_leaves_out_exists() -> None:
    assert {room for rooms in BELOW.values() for room in rooms} <= set(ROOMS)


def test_no_other_room_may_import_a_store() -> None:
    """A contract of import-linter protects every store, also those of new rooms."""
    contracts = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text("utf-8"))
    protected = [
        pattern
        for contract in contracts["tool"]["importlinter"]["contracts"]
        for pattern in contract.get("protected_modules", ())
    ]
    stores = [_module_of(path) for path in SOURCE.rglob("store.py")]
    unprotected = [
        store for store in stores if not any(fnmatchcase(store, name) for name in protected)
    ]
    assert unprotected == []
