"""Every filter value that the parser accepts can be evaluated and means what the docs say."""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.scalar import plain_text, tagged
from penstock.funnels.definitions.filters import parse_comparison
from penstock.funnels.definitions.model import Filter
from penstock.funnels.definitions.operators import Operator
from penstock.funnels.definitions.regexes import PatternChecker
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.statements.binder import Binder
from penstock.funnels.statements.matching import filter_condition
from penstock.funnels.statements.sources import SMALL_BLOCKS
from penstock.http.schema import RuleBroken
from penstock.warehouse.client import Warehouse
from tests.funnels.definitions import Json
from tests.funnels.examples import example_count, example_settings
from tests.funnels.reference import Event, History
from tests.funnels.reference.matching import holds, scalar
from tests.funnels.seed import isolated, store
from tests.funnels.strategies import START_MS, VALUES

EXAMPLES = example_count(1000) // 10
FILTERS_TOGETHER = 20
"""Filters in one statement: the statement takes longer than the filters."""

REGEXES = (Operator.MATCHES_REGEX, Operator.NOT_MATCHES_REGEX)
PROPERTY = "p"

examples = example_settings(max(5, EXAMPLES))

numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["007", "-0", "1e3", "1E-3", "0.10", "1" * 300, "1e-400", "9007199254740993"]),
)
number_lists = st.lists(numbers, min_size=2, max_size=2).map(
    lambda ends: f"[{', '.join(sorted(ends, key=float))}]"
)
scalars = st.one_of(st.text(max_size=5), st.integers(), st.floats(allow_nan=False), st.booleans())
scalar_lists = st.lists(scalars, min_size=1, max_size=5).map(json.dumps)
offsets = st.sampled_from(["", "Z", "+00:00", "-0330", "+05:45", "+23:59", "-23:59"])
fractions = st.sampled_from(["", ".1", ".12", ".1234567", ".999999999999"])
dates = st.dates().map(str)
times = st.builds(
    lambda time, space, fraction, offset: (
        f"{time:%Y-%m-%d}".zfill(10) + f"{space}{time:%H:%M:%S}{fraction}{offset}"
    ),
    st.datetimes(),
    st.sampled_from("T "),
    fractions,
    offsets,
)
epochs = st.integers(-(10**15) + 1, 10**15 - 1).map(str)
texts = st.one_of(st.text(max_size=20), st.sampled_from([tagged(value)[1:] for value in VALUES]))
garbage = st.text("0123456789+-.eE:TZ []\",'\\{}nulatrfsNIy", max_size=30)
patterns = st.one_of(st.sampled_from(["p.o", "^$", "(?i)PRO", "\\.", "é", "[^a]"]), garbage)
values = st.one_of(
    *(texts, garbage, patterns, numbers, number_lists, scalar_lists, dates, times, epochs),
    st.none(),
)


@pytest.fixture(scope="module")
def events(warehouse: Warehouse) -> tuple[Event, ...]:
    return stored(warehouse, VALUES)


def stored(warehouse: Warehouse, values: Sequence[Any]) -> tuple[Event, ...]:
    """Events of a website of their own: one event without a value, then one for each value."""
    property_sets: list[dict[str, Any]] = [{PROPERTY: value} for value in values]
    history, _ = isolated(
        History(
            tuple(
                Event(
                    f"evt_{index:03}",
                    "filters",
                    "event",
                    "a",
                    START_MS + index,
                    "ann",
                    "people",
                    properties=properties,
                )
                for index, properties in enumerate([{}, *property_sets])
            )
        )
    )
    store(warehouse, history)
    return history.events


@examples
@given(
    candidates=st.lists(
        st.tuples(st.sampled_from(Operator), values),
        min_size=FILTERS_TOGETHER,
        max_size=4 * FILTERS_TOGETHER,
    )
)
@pytest.mark.slow("runs many random examples")
def test_every_accepted_filter_can_be_evaluated_and_counts_as_in_plain_python(
    warehouse: Warehouse,
    events: tuple[Event, ...],
    candidates: list[tuple[Operator, str | None]],
) -> None:
    check_regex = PatternChecker(warehouse).begin()
    accepted = []
    for operator, value in candidates:
        try:
            comparison = parse_comparison(operator, value, check_regex)
        except RuleBroken:
            continue
        accepted.append((Filter(PROPERTY, comparison), value))
    if not accepted:
        return
    rows = evaluated(warehouse, events, [item for item, _ in accepted])
    assert len(rows) == len(events)
    for event in events:
        value = scalar(event.properties.get(PROPERTY))
        for (item, text), counted in zip(accepted, rows[event.event_id], strict=True):
            # Python's `re` reads some patterns differently from RE2: they only have to run.
            if item.comparison.operator not in REGEXES:
                sent = sent_filter(item.comparison.operator, text)
                assert counted == holds(sent, value), (sent, value)


def sent_filter(operator: Operator, value: str | None) -> Json:
    return {"property": PROPERTY, "operator": operator.value, "value": value}


CASED = "".join(
    character for character in map(chr, range(sys.maxunicode)) if character.casefold() != character
)
"""All characters that case folding changes."""


def test_case_is_ignored_for_every_letter(warehouse: Warehouse) -> None:
    texts = (CASED, "Straße", "STRASSE", "ΟΔΟΣ", "οδος α", "İ", "i", "ı", "")
    events = stored(warehouse, texts)
    variants = (str, str.upper, str.lower, str.casefold, str.swapcase)
    operands = [
        (operator, variant(text))
        for operator in (Operator.EQUALS_IGNORE_CASE, Operator.CONTAINS_IGNORE_CASE)
        for text in texts
        for variant in variants
    ]
    filters = [Filter(PROPERTY, parse_comparison(*operand, any_regex)) for operand in operands]
    rows = evaluated(warehouse, events, filters)
    for event, text in zip(events[1:], texts, strict=True):
        expected = [holds(sent_filter(*operand), scalar(text)) for operand in operands]
        assert rows[event.event_id] == expected
    assert rows[events[1].event_id][: len(variants)] == [True] * len(variants)


def evaluated(
    warehouse: Warehouse, events: tuple[Event, ...], filters: list[Filter]
) -> dict[str, list[int]]:
    """For each event ID, a 0 or 1 for each filter."""
    binder = Binder()
    conditions = ", ".join(filter_condition(item, binder) for item in filters)
    website = binder.bind("String", events[0].website_id)
    sql = f"SELECT event_id, [{conditions}] FROM events {SMALL_BLOCKS} WHERE website_id = {website}"  # noqa: S608
    return dict(warehouse.query(sql, binder.values, ENGINE_SETTINGS)[1])


@given(st.datetimes(), st.integers(-1439, 1439), st.sampled_from(["T", " "]), st.booleans())
def test_a_time_means_the_same_however_it_is_written(
    local: datetime, offset_min: int, space: str, colon: bool
) -> None:
    local = local.replace(microsecond=local.microsecond // 1000 * 1000)
    time = local.replace(tzinfo=timezone(timedelta(minutes=offset_min)))
    sign, (hours, minutes) = "-" if offset_min < 0 else "+", divmod(abs(offset_min), 60)
    offset = f"{sign}{hours:02}{':' if colon else ''}{minutes:02}"
    value = f"{local.date()}{space}{local:%H:%M:%S}.{local.microsecond // 1000:03}{offset}"
    expected = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    comparison = parse_comparison(Operator.BEFORE, value, any_regex)
    assert comparison.operand == expected


@given(st.lists(scalars.filter(lambda item: item not in (float("inf"), float("-inf")))))
def test_a_list_is_compared_as_the_texts_of_its_items(items: list[Any]) -> None:
    items = [item for item in items if not (isinstance(item, str) and "\0" in item)][:100] or [""]
    comparison = parse_comparison(Operator.IN, json.dumps(items), any_regex)
    assert comparison.operand == tuple(plain_text(item) for item in items)


def any_regex(pattern: str) -> None:
    """Accepts every pattern."""
