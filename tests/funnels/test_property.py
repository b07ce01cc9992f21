"""The engine's statement and the trace against the reference evaluation, on random histories.

Compares every field of the counted report, and each unit's trace.

`PENSTOCK_EXAMPLES` is the number of examples in all: 90 by default, 20,000 in `make test-full`.
An example takes 0.45 s of CPU time. Nearly all of it is the engine's analysis of the statement:
storing the case takes 0.02 s.
"""

import ast
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.statements.query import QueryParams
from penstock.warehouse.client import Warehouse
from tests.funnels import reference
from tests.funnels.examples import example_count, example_settings, share_of_cases, shares_of
from tests.funnels.reference.report import Units, read_units, report
from tests.funnels.reports import evaluate
from tests.funnels.seed import member_keys, store_case
from tests.funnels.strategies import START_MS, Case, Rule, arrived, cases
from tests.funnels.traces import differing_traces

EXAMPLES = example_count(90)
SHARES = shares_of(EXAMPLES // 2, least=2)
"""Of each kind of funnel."""
EXAMPLES_OF_RULES = example_count(40)
SHARES_OF_RULES = shares_of(EXAMPLES_OF_RULES // 2, least=1)
"""Of each rule and kind of funnel."""

pytestmark = pytest.mark.usefixtures("count_examples")


@pytest.mark.slow("runs many random examples")
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("unit", CountingUnit)
def test_funnels_agree_with_the_reference_evaluation(
    bare_warehouse: Warehouse, unit: CountingUnit, share: int
) -> None:
    @share_of_cases(share)
    @example_settings(EXAMPLES // (2 * len(SHARES)), unit)
    @given(case=cases(unit))
    def agree(case: Case) -> None:
        assert_agreement(bare_warehouse, case)

    agree()


@pytest.mark.slow("runs many random examples")
@pytest.mark.parametrize("unit", CountingUnit)
@pytest.mark.parametrize("share", SHARES_OF_RULES)
@pytest.mark.parametrize("rule", Rule)
def test_funnels_of_a_rule_agree_with_the_reference_evaluation(
    bare_warehouse: Warehouse, rule: Rule, unit: CountingUnit, share: int
) -> None:
    @share_of_cases(share)
    @example_settings(EXAMPLES_OF_RULES // (2 * len(SHARES_OF_RULES)), f"{rule} {unit}")
    @given(case=cases(unit, rule))
    def agree(case: Case) -> None:
        assert_agreement(bare_warehouse, case)

    agree()


def test_the_reference_evaluation_shares_no_code_with_the_service() -> None:
    imported = {
        name.name if isinstance(node, ast.Import) else node.module or ""
        for path in Path(reference.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    outside = {name for name in imported if not name.startswith("tests.funnels.reference")}
    assert outside <= sys.stdlib_module_names | {"collections.abc"}


def assert_agreement(warehouse: Warehouse, case: Case) -> None:
    history, mark = store_case(warehouse, case.history, case.inserts)
    websites = tuple(mark + website for website in case.website_ids)
    units = read_case(case, history, websites)
    if differing := "\n".join(differing_traces(case, units)):
        raise AssertionError(f"traces differ\n{differing}\n\n{description(case)}")
    expected = reference_report(case, units)
    # Touches with equal times are those that arrived first and last.
    if not has_equal_numbers(units) and not case.definition.read_touches:
        turned = replace(history, events=arrived(history.events[::-1], seed=0))
        again = reference_report(case, read_case(case, turned, websites))
        assert canonical_json(again) == canonical_json(expected), (
            f"the order of arrival matters (- as sent, + turned round)\n"
            f"{difference(expected, again)}\n\n{description(case)}"
        )
    params = QueryParams(
        website_ids=websites,
        scope_ids=tuple(sorted({event.scope_id for event in history.events})),
        start_ms=case.start_ms,
        end_ms=case.end_ms,
        evaluated_at_ms=case.evaluated_at_ms,
        cohort=case.cohort,
        page=case.page,
        settled=case.settled,
        members=member_keys(warehouse, history),
    )
    answer = evaluate(warehouse, case.definition, params, strategy=case.strategy)
    counted = {part: answer[part] for part in expected}
    if canonical_json(counted) != canonical_json(expected):
        raise AssertionError(
            f"{case.strategy} differs (- reference evaluation, + engine)\n"
            f"{difference(expected, counted)}\n\n{description(case)}"
        )


def reference_report(case: Case, units: Units) -> dict[str, Any]:
    return report(
        units,
        case.evaluated_at_ms,
        case.start_ms,
        case.end_ms,
        case.cohort,
        case.page.number,
        case.page.size,
        settled=case.settled,
    )


def read_case(
    case: Case, history: reference.History, websites: tuple[str, ...] | None = None
) -> Units:
    return read_units(
        history,
        case.funnel,
        case.website_ids if websites is None else websites,
        case.evaluated_at_ms,
        case.goals,
        case.filters,
        case.internal,
    )


def has_equal_numbers(units: Units) -> bool:
    """Whether a unit has events with equal times and numbers, which are read as they arrive."""
    for events in units.by_unit.values():
        numbered = [event for event in events if event.number is not None]
        starts = {(event.start, event.number) for event in numbered}
        ends = {(event.end, event.number) for event in numbered}
        if min(len(starts), len(ends)) < len(numbered):
            return True
    return False


def canonical_json(report: Mapping[str, Any]) -> str:
    """A report as JSON text, which keeps `1`, `1.0` and `true` apart.

    Medians are rounded to a billionth of a minute.
    """

    def rounded(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: round(part, 9) if key == "medianCompletionMinutes" and part else rounded(part)
                for key, part in value.items()
            }
        return [rounded(part) for part in value] if isinstance(value, list) else value

    return json.dumps(rounded(report), sort_keys=True, indent=1, ensure_ascii=False)


def difference(expected: Mapping[str, Any], counted: Mapping[str, Any]) -> str:
    return "\n".join(
        unified_diff(
            canonical_json(expected).splitlines(),
            canonical_json(counted).splitlines(),
            lineterm="",
            n=2,
        )
    )


def description(case: Case) -> str:
    """A case for a reader: its rows, then its events by time, in milliseconds from the start."""
    definition, lines = case.definition, []
    window_ms = definition.window_s and definition.window_s * 1000
    for index, row in enumerate(definition.rows):
        kind = "diagnostic" if row.diagnostic else "exclude" if row.exclude else "step"
        kind += (
            (" all of" if row.all_of else "")
            + (" strict" if row.strict else "")
            + (" all" if row.strict_all else "")
        )
        matches = [
            f"{match.type} {match.value!r}"
            + "".join(f" [{f.property!r} {f.comparison}]" for f in match.filters)
            for match in row.matches
        ]
        lines.append(f"row {index}: {kind} {' | '.join(matches)}")
    unit, number, keys = (
        definition.counting_unit,
        definition.sequence_property,
        definition.breakdown_properties,
    )
    lines.append(f"{unit}, window {window_ms} ms, sequence {number!r}, by {keys}")
    ends = [
        None if ms is None else ms - START_MS
        for ms in (case.start_ms, case.end_ms, case.evaluated_at_ms)
    ]
    lines.append(
        f"query: period {ends[0]}..{ends[1]}, evaluated at {ends[2]},"
        f" websites {case.website_ids}, cohort {case.cohort}, {case.page},"
        f" filters {list(case.filters)}, settled {case.settled}, internal {list(case.internal)}"
    )
    for event in sorted(case.history.events, key=lambda event: (event.at_ms, event.event_id)):
        lines.append(
            f"{event.at_ms - START_MS:>12} {event.event_id} {event.kind} {event.name!r}"
            f" {event.visitor_id}@{event.scope_id} on {event.website_id}"
            f" {event.source}{' verified' if event.verified else ''}"
            f" {dict(event.properties)} {dict(event.fields)}"
        )
    lines.append(f"merges: {dict(case.history.merges)}")
    lines.append(f"traits: {case.history.traits}, cohorts: {case.history.cohorts}")
    return "\n".join(lines)
