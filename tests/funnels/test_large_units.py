"""A unit with very many events takes seconds, is counted by a rule, and breaks no report."""

import pytest

from penstock.base.ids import ScopeId, WebsiteId
from penstock.funnels.definitions.model import CountingUnit, Definition, Match, MatchType, Row
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.results.shaping import shape_report
from penstock.funnels.statements import entries, fold, packed
from penstock.funnels.statements.query import DataProfile, QueryParams, Strategy
from penstock.funnels.statements.report import build
from penstock.warehouse.client import Warehouse
from tests.cases import full_except

START_MS = 1_700_000_000_000
_INSERT = """
INSERT INTO events (website_id, kind, name, occurred_at, event_id, received_at, stated_at, scope_id,
                    visitor_id, source, properties, scalars, hashes)
SELECT {website:String}, 'event', {names:Array(String)}[1 + number % length({names:Array(String)})],
       fromUnixTimestamp64Milli({start:Int64} + number), leftPad(toString(number), 9, '0'), now64(),
       now64(), {website:String}, 'ann', 'server', '{}',
       concat('{"n":"n', toString(number), '"}')::JSON,
       concat('{"n":', toString(number * 8 + 2), '}')::JSON
FROM numbers({count:UInt32})"""


def row(*names: str, all_of: bool = False) -> Row:
    return Row(tuple(Match(MatchType.EVENT, name) for name in names), all_of=all_of)


def visitors(*rows: Row, sequence: str | None = None, window_s: int | None = None) -> Definition:
    return Definition(rows, CountingUnit.VISITOR, window_s, sequence_property=sequence)


FUNNELS = {
    "sequence numbers": visitors(row("A"), row("B"), row("C"), row("D"), sequence="n"),
    "a group as a step": visitors(row("A"), row("B", "C", all_of=True), row("D")),
    "a group as step 1": visitors(row("A", "B", all_of=True), row("C"), row("D")),
    "time alone": visitors(row("A"), row("B"), row("C"), row("D")),
}


@pytest.fixture
def ann(warehouse: Warehouse, tmp_path, request):
    """Store events of one visitor, a millisecond apart, and return a function to count funnels."""

    def store(count: int, names: str = "ABC"):
        website = f"web_{tmp_path.name}_{count}"
        warehouse.command(
            _INSERT, {"website": website, "count": count, "names": [*names], "start": START_MS}
        )
        params = QueryParams(
            (WebsiteId(website),), (ScopeId(website),), None, None, START_MS + 10**9
        )
        profile = DataProfile(count, START_MS, START_MS + count, False, False)
        limits = {"max_memory_usage": 4 * 1024**3, "max_execution_time": 60}

        def report(definition: Definition, strategy: Strategy = Strategy.GENERAL):
            statement = build(definition, params, profile, strategy)
            names, rows = warehouse.query(
                statement.sql, statement.parameters, {**ENGINE_SETTINGS, **limits}
            )
            records = [dict(zip(names, row, strict=True)) for row in rows]
            return shape_report(definition, params, records, 0).model_dump(mode="json")

        return report

    return store


def counts(report) -> list[int]:
    return [step["count"] for step in report["aggregate"]["steps"]]


def over_limit(report) -> int:
    count: int = report["dataQuality"]["unitsOverLimit"]
    return count


@pytest.mark.slow("ten thousand events of one visitor, up to the limit of comparisons")
@pytest.mark.parametrize(
    "kind", full_except(("sequence numbers", "time alone"), FUNNELS, "the largest groups")
)
def test_a_visitor_with_ten_thousand_events_fails_no_report(ann, kind):
    report, definition = ann(10_000), FUNNELS[kind]
    for strategy in (Strategy.GENERAL, Strategy.PACKED)[: 1 + kind.startswith("sequence")]:
        answer = report(definition, strategy)
        assert counts(answer) == [1] * (len(definition.rows) - 1) + [0]
        assert over_limit(answer) == (kind != "time alone")


def test_up_to_the_limit_every_entry_of_a_visitor_is_tried(ann):
    # D is in time only for the last A of the 1,400 events.
    report = ann(1_400, "A" * 699 + "D")
    definition = visitors(row("A"), row("D"), sequence="n", window_s=3600)
    answer = report(definition)
    assert (counts(answer), over_limit(answer)) == ([1, 1], 0)


@pytest.fixture(
    params=full_except([Strategy.PACKED], (Strategy.GENERAL, Strategy.PACKED), "counted either way")
)
def strategy(request) -> Strategy:
    return request.param


def test_beyond_the_limit_only_the_first_entries_are_tried(ann, strategy, monkeypatch):
    report = ann(40, "A" * 9 + "B")
    ends_soon = visitors(row("A"), row("B"), sequence="n", window_s=3600)
    assert counts(report(ends_soon, strategy)) == [1, 1]
    later = visitors(row("A"), row("B"), row("A"), sequence="n")
    for module in (entries, packed):
        monkeypatch.setattr(module, "MAX_COMPARISONS", 80)
    answer = report(later, strategy)
    assert (counts(answer), over_limit(answer)) == ([1, 1, 1], 1)
    assert over_limit(report(visitors(row("A"), row("B")), strategy)) == 0


def test_only_the_first_events_of_a_unit_beyond_the_limit_are_read(ann, strategy, monkeypatch):
    report = ann(30, "A" * 10 + "B" * 10 + "C" * 10)
    definition = visitors(row("A"), row("B"), row("C"))
    assert (counts(report(definition, strategy)), over_limit(report(definition))) == ([1, 1, 1], 0)
    for module in (fold, packed):
        monkeypatch.setattr(module, "MAX_UNIT_EVENTS", 20)
    answer = report(definition, strategy)
    assert (counts(answer), over_limit(answer)) == ([1, 1, 0], 1)
