"""docs/development/architecture.md names functions that exist."""

import ast
import re
from pathlib import Path

from tests.source_tree import tree_of

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "development" / "architecture.md"
REFERENCES = re.findall(r"`([\w/]+\.py): ([\w.]+)`", PAGE.read_text("utf-8"))
FILES = re.findall(r"`([\w/]+\.py)[:`]", PAGE.read_text("utf-8"))


def names_of(path: Path) -> set[str]:
    """Functions, classes and methods (`Class.method`) of a file."""
    names = set()
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (ast.FunctionDef, ast.AsyncFunctionDef)
            names |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, methods)}
    return names


def test_every_function_exists() -> None:
    missing = [
        f"{file}: {name}"
        for file, name in REFERENCES
        if name not in names_of(ROOT / "src" / "penstock" / file)
    ]
    assert missing == []


def test_every_file_exists() -> None:
    assert len(REFERENCES) > 30
    assert [file for file in FILES if not (ROOT / "src" / "penstock" / file).is_file()] == []
