"""Wire types for internal traffic."""

from typing import Annotated

from pydantic import Field

from penstock.funnels.definitions.filter_lists import limit_cost
from penstock.funnels.definitions.filters import EventField
from penstock.funnels.definitions.schema import MAX_FILTERS, FilterIn, SavedFilter, limit_items
from penstock.http.schema import Input, Iso, Record

MAX_COST = 40
"""Maximum cost of the filters. It is in addition to the limit of each funnel, so that these filters
never make a funnel too costly.
"""


class InternalFilterIn(FilterIn):
    """One condition on a property of an entry event. `$first_time` cannot be such a property."""

    property: EventField


_InternalFilters = Annotated[
    list[InternalFilterIn], limit_items(MAX_FILTERS), limit_cost(MAX_COST, "internal traffic")
]


class InternalTrafficIn(Input):
    """The filters of internal traffic, which replace the old ones."""

    filters: Annotated[
        _InternalFilters,
        Field(
            description="An entry event that passes any of them is internal. Empty: no event is "
            "internal."
        ),
    ]


class InternalTrafficRecord(Record):
    """The filters of internal traffic.

    revision: 0 until filters are set; increases with each change. updated_at: null until then.
    """

    filters: list[SavedFilter]
    revision: int
    updated_at: Iso | None
