"""Lists of filters that belong to no match: those of segments and of internal traffic."""

from typing import Annotated, Any

from pydantic import ValidatorFunctionWrapHandler, WrapValidator

from penstock.funnels.definitions.cost import (
    MAX_COST,
    MatchCost,
    cost_fault,
    filter_units,
    read_match,
)
from penstock.funnels.definitions.schema import MAX_FILTERS, FilterIn, limit_items
from penstock.http.schema import RuleBroken, RulesBroken


def limit_cost(limit: int, owner: str) -> WrapValidator:
    """Limit the cost of a list of filters. owner: words for their owner."""

    def check(filters: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        units = filter_units(read_match({"filters": filters}).filters)
        if (too_costly := cost_fault([MatchCost(owner, units)], "", limit)) is not None:
            raise RulesBroken([too_costly])
        return validate(filters)

    return WrapValidator(check)


def _not_empty(filters: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    if filters == []:
        raise RuleBroken("too_few", "Add at least one filter.")
    return validate(filters)


SegmentFilters = Annotated[
    list[FilterIn],
    limit_items(MAX_FILTERS),
    limit_cost(MAX_COST, "this segment"),
    WrapValidator(_not_empty),
]
"""The filters of a segment: one to `MAX_FILTERS`."""
