"""The glossary: its code names exist, and no term has two lines."""

import ast
import re
from collections import Counter
from pathlib import Path

import penstock

SOURCE = Path(penstock.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "development" / "glossary.md"


def first_column(text):
    """First cells of all table rows, without headers."""
    cells = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    return [cell for cell in cells if cell not in ("term", "name")]


def public_names():
    """Modules, and classes, functions and constants that modules define at their top level."""
    names = set()
    for path in SOURCE.rglob("*.py"):
        names |= {path.stem, path.parent.name}
        for node in ast.parse(path.read_text("utf-8")).body:
            match node:
                case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                    names.add(node.name)
                case (
                    ast.Assign(targets=[ast.Name(id=name)])
                    | ast.AnnAssign(target=ast.Name(id=name))
                ):
                    names.add(name)
    return {name for name in names if not name.startswith("_")}


def test_every_code_name_of_the_glossary_exists():
    _, code = PAGE.read_text("utf-8").split("\n## Code\n")
    names = {name for cell in first_column(code) for name in re.findall(r"`(\w+)`", cell)}
    assert len(names) > 80
    assert sorted(names - public_names()) == []


def test_every_term_has_one_line():
    cells = first_column(PAGE.read_text("utf-8"))
    assert [cell for cell, count in Counter(cells).items() if count > 1] == []
