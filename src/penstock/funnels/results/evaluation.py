"""Asking the engine and reading its rows into the counted part of a report."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.base.clock import LATEST_MS
from penstock.base.paging import Page
from penstock.base.scalar import untagged
from penstock.funnels.definitions.model import Definition
from penstock.funnels.results.report import aggregate_of, data_quality_of
from penstock.funnels.statements.query import Facts, Question, Strategy
from penstock.funnels.statements.report import build
from penstock.warehouse.client import Warehouse
from penstock.warehouse.queries import load

ENGINE_SETTINGS: Mapping[str, Any] = {
    "enable_named_columns_in_function_tuple": 1,  # the fold names the fields of its tuples
    "enable_materialized_cte": 1,
    "prefer_column_name_to_alias": 1,  # totals keep the names of the columns that they add up
    "join_use_nulls": 0,
    "force_grouping_standard_compatibility": 1,
    # Rewrites that find nothing in this statement; trying them takes half of the time of a small report.
    "optimize_and_compare_chain": 0,
    "optimize_syntax_fuse_functions": 0,
    "optimize_redundant_comparisons": 0,
    "optimize_extract_common_expressions": 0,
}


def facts_of(warehouse: Warehouse, question: Question, window_s: int | None = None) -> Facts:
    """First and last retained event of the websites, what the statement has to care for, and until when it all holds.

    window_s: of the funnel; None: unlimited.
    """
    open_from_ms, open_until_ms = _entries_with_open_windows(question, window_s)
    _, rows = warehouse.query(
        load("facts"),
        {
            "websites": list(question.website_ids),
            "scopes": list(question.scope_ids),
            "evaluated_at": question.evaluated_at_ms,
            "open_from": open_from_ms,
            "open_until": open_until_ms,
        },
    )
    events, first, last, providers, aliases, next_event, first_open = rows[0]
    changes = [next_event - 1] if next_event else []
    changes += [first_open + window_s * 1000] if first_open and window_s is not None else []
    return Facts(events, first if events else None, last if events else None, bool(providers), bool(aliases), min(changes, default=None))


def _entries_with_open_windows(question: Question, window_s: int | None) -> tuple[int, int]:
    """When an event lies that may be the entry of a unit whose window is open: at or after the first, before the second."""
    if window_s is None:
        return 0, 0  # a window that never ends does not change with time
    since_ms = max(question.evaluated_at_ms - window_s * 1000, question.start_ms or 0, 0)
    return since_ms, LATEST_MS if question.end_ms is None else question.end_ms


def parts_of(warehouse: Warehouse, question: Question) -> int:
    """A number that stays only while what is stored of the websites does. Quick, but it may change without need."""
    return _number(warehouse, "parts", question)


def content_of(warehouse: Warehouse, question: Question) -> int:
    """A number that differs whenever what is stored of the websites does. Reads two columns of all of their events."""
    return _number(warehouse, "content", question)


def _number(warehouse: Warehouse, name: str, question: Question) -> int:
    _, rows = warehouse.query(load(name), {"websites": list(question.website_ids), "scopes": list(question.scope_ids)})
    return int(rows[0][0])


def evaluate(
    warehouse: Warehouse,
    definition: Definition,
    question: Question,
    *,
    strategy: Strategy = Strategy.AUTO,
    facts: Facts | None = None,
) -> dict[str, Any]:
    """`aggregate`, `cohorts`, `dataQuality` and `openWindows` of a report."""
    statement = build(definition, question, facts or facts_of(warehouse, question), strategy)
    names, rows = warehouse.query(statement.sql, statement.parameters, ENGINE_SETTINGS)
    return counted(definition, question, [dict(zip(names, row, strict=True)) for row in rows])


def counted(definition: Definition, question: Question, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the rows of the statement say, as `evaluate`."""
    total = next((record for record in records if record["is_total"]), _EMPTY)
    cohorts = [_cohort(definition, record) for record in records if not record["is_total"]]
    count = total["wanted_cohorts"]
    if not definition.breakdown_properties:
        # Without a breakdown there is one cohort, also when nobody entered.
        cohorts = [{"cohort": {}, "label": {}, **aggregate_of(definition, total)}] if question.page.number == 1 else []
        count = 1
    return {
        "aggregate": aggregate_of(definition, total),
        "cohorts": {**_paging(question.page), "total": count, "data": cohorts},
        "dataQuality": data_quality_of(definition, total),
        "openWindows": total["open_windows"],
    }


_EMPTY: Mapping[str, Any] = {
    "wanted_cohorts": 0, "entered": 0, "counts": [], "pendings": [], "options": [], "open_windows": 0, "median_ms": None,
    "seen_units": [], "seen_events": [], "skips": 0, "ties": 0, "invalid": 0, "tied": 0, "several": 0, "disordered": 0,
    "missing": [], "conflicting": [], "unitless": 0, "unverified": 0,
}  # fmt: skip


def _cohort(definition: Definition, record: Mapping[str, Any]) -> dict[str, Any]:
    values = [untagged(text) for text in record["texts"]]
    cohort = dict(zip(definition.breakdown_properties, values, strict=True))
    label = {name: "Unknown" if value is None else value for name, value in cohort.items()}
    return {"cohort": cohort, "label": label, **aggregate_of(definition, record)}


def _paging(page: Page) -> dict[str, int]:
    return {"page": page.number, "pageSize": page.size}
