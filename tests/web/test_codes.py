"""The page of error codes lists every code that the source can raise, and no other."""

import ast
from collections.abc import Iterator
from functools import cache

from penstock.events.imports.formats.table import READERS
from penstock.http import schema
from penstock.named_records.service import NamedRecords, RevisedRecords
from penstock.web.codes import FAULTS, PROBLEMS, WARNINGS
from tests.source_tree import SOURCE, nodes_of, tree_of

FROM_PYDANTIC = {"greater_than_equal", "less_than_equal"}
FROM_READERS = {f"not_{reader.name}" for reader in READERS}
FROM_RECORDS = {
    service.too_many_code()
    for service in (*NamedRecords.__subclasses__(), *RevisedRecords.__subclasses__())
    if getattr(service, "maximum", None) is not None
}
FROM_HTTP = {"malformed_request", "method_not_allowed", "request_refused", "internal_error"}


def _texts(node: ast.AST | None) -> Iterator[str]:
    """Texts that an expression can evaluate to: both arms of a conditional, constants by name."""
    if isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.Name) and node.id in _constants():
        yield _constants()[node.id]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


@cache
def _constants() -> dict[str, str]:
    """Texts that modules give a name in capitals."""
    assignments = (
        node
        for path in SOURCE.rglob("*.py")
        for node in tree_of(path).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    )
    return {
        node.targets[0].id: node.value.value
        for node in assignments
        if isinstance(node.targets[0], ast.Name)
        and node.targets[0].id.isupper()
        and isinstance(node.value.value, str)
    }


def _calls() -> Iterator[ast.Call]:
    for path in SOURCE.rglob("*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.Call):
                yield node


@cache
def _raised() -> tuple[set[str], set[str], set[str]]:
    """Codes of problems, faults and warnings in the source text."""
    problems, faults, warnings = set(), set(), set()
    for call in _calls():
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        by_name = {keyword.arg: keyword.value for keyword in call.keywords}
        position = {"RuleBroken": 0, "add_fault": 0, "Fault": 1, "fault": 1}.get(name)
        if position is not None:
            faults |= set(
                _texts(call.args[position] if len(call.args) > position else by_name.get("code"))
            )
        elif name == "Notice":
            warnings |= set(_texts(call.args[0]))
        elif "code" in by_name:
            problems |= set(_texts(by_name["code"]))
    return problems, faults, warnings


def _base_codes() -> set[str]:
    from penstock.base import errors

    return {
        kind.code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.PenstockError)
    }


def test_every_problem_code_is_documented():
    problems, _, _ = _raised()
    assert {
        code.name for code in PROBLEMS
    } == problems | _base_codes() | FROM_HTTP | FROM_READERS | FROM_RECORDS


def test_every_fault_code_is_documented():
    _, faults, _ = _raised()
    documented = {code.name for code in FAULTS}
    possible = faults | set(schema._CODES.values()) | FROM_PYDANTIC
    assert possible <= documented
    assert documented <= possible


def test_every_warning_is_documented():
    _, _, warnings = _raised()
    assert {code.name for code in WARNINGS} == warnings


def test_no_code_is_listed_twice():
    for codes in (PROBLEMS, FAULTS):
        assert len({code.name for code in codes}) == len(codes)
