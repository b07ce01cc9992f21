"""Evaluates a report directly on the engine, without cache, authorisation or coverage."""

from collections.abc import Sequence
from typing import Any

from penstock.funnels.definitions.model import Definition
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.queries.profiles import read_profile
from penstock.funnels.queries.shared_fold import SharedFolds
from penstock.funnels.results.shaping import shape_report
from penstock.funnels.statements.query import DataProfile, QueryParams, Strategy
from penstock.funnels.statements.report import build
from penstock.warehouse.client import Warehouse


def evaluate(
    warehouse: Warehouse,
    definition: Definition,
    params: QueryParams,
    *,
    strategy: Strategy = Strategy.AUTO,
    profile: DataProfile | None = None,
) -> dict[str, Any]:
    """Return the parts `aggregate`, `cohorts` and `dataQuality` of a report.

    If shards can share the fold, it is computed both ways, which must agree.
    """
    statement = build(definition, params, profile or read_profile(warehouse, params), strategy)
    settings = {**ENGINE_SETTINGS, **statement.settings}
    names, rows = warehouse.query(statement.sql, statement.parameters, settings)
    report = shaped(definition, params, names, rows)
    if statement.shared is not None:
        folds = SharedFolds(warehouse)
        assert shaped(definition, params, *folds.query(statement, settings)) == report
        assert folds.is_sharing
    return report


def shaped(
    definition: Definition, params: QueryParams, names: Sequence[str], rows: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    named = [dict(zip(names, row, strict=True)) for row in rows]
    return shape_report(definition, params, named, 0).model_dump(mode="json")
