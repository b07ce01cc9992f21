"""Regular expressions over input take linear time: RE2 matches them, never Python's `re`."""

import ast
import re
from collections.abc import Iterable, Iterator
from re import _constants as opcode
from re import _parser as parser
from time import thread_time

import pytest

from penstock.base.patterns import Pattern
from penstock.jobs.prefer import prefers_async
from tests.source_tree import SOURCE, nodes_of

NO_INPUT = {"cli"}
"""Rooms that read only what the operator's own service answers."""
ENGINES = {"re", "regex"}
PLAIN = {"escape"}
"""Functions of `re` that apply no pattern."""
REPEATS = {opcode.MAX_REPEAT, opcode.MIN_REPEAT, opcode.POSSESSIVE_REPEAT}
JS_REGEX = re.compile(
    r"[(,=:&|!?]\s?/((?:[^/\\\n\s[*]|\\.|\[[^\n]*?\])(?:[^/\\\n[]|\\.|\[[^\n]*?\])*)/"
)


def uses_of_re(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """The lines that import a backtracking engine."""
    for node in nodes:
        if isinstance(node, ast.Import):
            names = {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module in ENGINES:
            names = ENGINES if {name.name for name in node.names} - PLAIN else set()
        else:
            continue
        if names & ENGINES:
            yield node.lineno


def test_no_module_applies_python_regular_expressions() -> None:
    strays = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in NO_INPUT
        for line in uses_of_re(nodes_of(path))
    ]
    assert strays == []


def repeats_in_repeats(parsed: parser.SubPattern, inside: bool = False) -> bool:
    """Whether an unbounded repeat holds another: the usual cause of exponential backtracking."""
    for code, argument in parsed:
        if code in REPEATS:
            unbounded = argument[1] == opcode.MAXREPEAT
            if (inside and unbounded) or repeats_in_repeats(argument[2], inside or unbounded):
                return True
        elif code is opcode.BRANCH:
            if any(repeats_in_repeats(branch, inside) for branch in argument[1]):
                return True
        elif code is opcode.SUBPATTERN:
            if repeats_in_repeats(argument[3], inside):
                return True
        elif code in (opcode.ASSERT, opcode.ASSERT_NOT) and repeats_in_repeats(argument[1], inside):
            return True
    return False


def test_no_script_of_the_dashboard_and_the_client_has_a_repeat_in_a_repeat() -> None:
    count = 0
    scripts = (SOURCE / "web/static").rglob("*.js")
    sources = (SOURCE.parents[1] / "sdk/js/src").rglob("*.ts")
    for path in sorted([*scripts, *sources]):
        if "vendor" in path.parts:
            continue
        for line in path.read_text("utf-8").splitlines():
            for [pattern] in (match.groups() for match in JS_REGEX.finditer(line)):
                count += 1
                python = re.sub(r"\\p\{\w+\}", r"\\w", pattern)
                assert not repeats_in_repeats(parser.parse(python)), f"{path.name}: {pattern}"
    assert count > 10


@pytest.mark.parametrize("pattern", ["(a+)+", "(?:a|b*)*", "x(y(z*))+", "([a-z]+;?)*"])
def test_the_search_for_repeats_in_repeats_finds_them(pattern: str) -> None:
    assert repeats_in_repeats(parser.parse(pattern))


@pytest.mark.parametrize(
    "header",
    [
        "x" + ";  " * 20_000 + "\0",
        "x" + ";  " * 16 + "\0",
        '"' + "\\" * 1_300,
        ";=" * 1_300,
        'a="b' * 1_000,
        "," * 4_000,
        ("respond-async;a=" + "b " * 2_000) + '"',
    ],
)
def test_a_hostile_prefer_header_takes_no_time(header: str) -> None:
    started_s = thread_time()
    assert not prefers_async([header])
    assert thread_time() - started_s < 1


def test_a_pattern_that_would_backtrack_takes_no_time() -> None:
    started_s = thread_time()
    assert not Pattern("(a|a)*(a*)*b").fullmatch("a" * 100_000)
    assert thread_time() - started_s < 5


def test_a_lone_surrogate_matches_as_an_unknown_character() -> None:
    assert Pattern("[a-z]+").fullmatch("a\ud800") is None
    assert Pattern("[a-z]+").search("\ud800abc") is not None
    assert Pattern("b").sub(lambda _: "c", "a\udfffb") == "a\ufffdc"
