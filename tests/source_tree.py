"""The source code of Penstock as syntax trees. Each process parses a file once."""

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import penstock

SOURCE = Path(penstock.__file__).parent


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file. Do not change it, because tests share it."""
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes_of(path: Path) -> Sequence[ast.AST]:
    """Return all nodes of a file, in the order of `ast.walk`."""
    return tuple(ast.walk(tree_of(path)))
