"""Query parameters of pages. They contain a page's whole state, so that a link restores it."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from pydantic import BeforeValidator, Field

from penstock.base.scalar import Scalar
from penstock.funnels.results.schema import SELECTION, ReportQuery
from penstock.funnels.statements.flows import Where
from penstock.funnels.statements.units import UnitSort


class UnitsPageQuery(ReportQuery):
    """The state of a list of units. `sort` orders units instead of cohorts."""

    sort: UnitSort = UnitSort.ENTRY  # type: ignore[assignment]


def _read_json(text: Any) -> Any:
    """Raises `ValueError` for text that is not JSON."""
    return json.loads(text)


MAX_PICKED = 6
"""Maximum number of cohorts with their own bars: one for each colour."""

Picked = Annotated[list[dict[str, Scalar | None] | None], Field(max_length=MAX_PICKED)]


class ReportPageQuery(ReportQuery):
    """The state of a report page.

    bars: whether to compare each step with all entries or with the previous step. show: name of the
    tab below them. pair: two steps, such as `1-3`.
    """

    bars: Literal["overall", "steps"] = "overall"
    show: str | None = None
    picked: Annotated[Picked | None, BeforeValidator(_read_json)] = None
    measure: Literal["rate", "counts", "cohorts", "loss"] = "rate"
    pair: Annotated[str | None, Field(pattern=r"^\d{1,2}-\d{1,2}$")] = None
    property_: Annotated[str | None, Field(alias="property")] = None
    baseline: str | None = None
    step: Annotated[int, Field(ge=1, le=19)] = 1
    outcome: Literal["pending", "droppedOff", "excluded", "both"] = "droppedOff"
    where: Where = Where.AFTER
    of: Literal["unit", "visitor"] = "unit"


def selection_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query parameters of a page that select its units."""
    return {
        name: parameters[name]
        for name in SELECTION
        if parameters.get(name) or (name == "breakdown" and name in parameters)
    }


def address_with_selection(path: str, selection: Mapping[str, Any], **changes: Any) -> str:
    """Return the address of a page about the same units. changes: None removes a parameter."""
    query = {**selection, **changes}
    text = urlencode({name: value for name, value in query.items() if value is not None})
    return path + (f"?{text}" if text else "")
