"""Wire types for drivers of a loss."""

from typing import Annotated, Literal

from pydantic import Field

from penstock.base.scalar import Scalar
from penstock.funnels.definitions.schema import SavedFilter
from penstock.funnels.queries.schema import CohortQuery, EventsOf, HeadRecord
from penstock.funnels.results.schema import RangeRecord
from penstock.http.schema import Record


class DriversQuery(CohortQuery):
    """The query parameters for drivers."""

    step: Annotated[
        int, Field(ge=1, le=19, description="The loss after this step: before the next one.")
    ]
    of: EventsOf = "unit"


class DriverRecord(Record):
    """Compares units that have a property value at entry, a trait of their visitor, or an event
    soon after the step, with all other units.
    """

    kind: Annotated[
        Literal["property", "event"],
        Field(description="property: a property of the entry event, or a trait of its visitor."),
    ]
    property: Annotated[
        str | None,
        Field(
            description="Property of the entry event, or trait of its visitor, such as "
            "`$trait.plan`; null for an event."
        ),
    ]
    value: Annotated[
        Scalar | None,
        Field(
            description="Value of the property at entry, or of the trait at evaluatedAt; null if "
            "it is missing, and for an event."
        ),
    ]
    event_type: Annotated[str | None, Field(description="null for a property.")]
    name: Annotated[str | None, Field(description="Name of the event; null for a property.")]
    filter: Annotated[
        SavedFilter | None,
        Field(
            description="Send it in `filters` to select only these units; null for an event. The "
            "list of units accepts an event as `eventType` and `eventName`, with the same `step` "
            "and `of`."
        ),
    ]
    units: int
    lost: Annotated[int, Field(description="Those of `units` that dropped off after the step.")]
    loss_rate: float
    other_units: int
    other_lost: int
    other_loss_rate: float
    difference: Annotated[float, Field(description="lossRate minus otherLossRate.")]
    difference_interval: Annotated[
        RangeRecord, Field(description="95% confidence interval of the difference (Newcombe).")
    ]
    excess_lost: Annotated[
        float,
        Field(
            description="Lost units beyond those that otherLossRate would give; negative if fewer "
            "were lost. Effects are ranked by its size."
        ),
    ]
    test: Annotated[str, Field(description="z or fisher, as in a comparison.")]
    p_value: Annotated[float, Field(description="Two-sided p-value of this group only.")]
    p_value_corrected: Annotated[
        float, Field(description="p-value corrected for the number of `tested` groups (Holm).")
    ]
    clear: Annotated[bool, Field(description="Whether pValueCorrected is below 0.05.")]


class DriversRecord(HeadRecord):
    """Properties, traits and events associated with the loss after a step, over settled units.

    An effect shows an association, not a cause. Without a conversion window, no unit is settled,
    and `data` is empty.
    """

    step: int
    at_risk: Annotated[int, Field(description="Settled units that reached the step.")]
    examined: Annotated[
        int, Field(description="Those that were examined: a random part if there are over 100,000.")
    ]
    lost: Annotated[int, Field(description="Examined units that got no further.")]
    within_minutes: Annotated[
        float | None,
        Field(
            description="Events count within this time after the step, the median time until the "
            "next step. Units that continued sooner are left out, because units that stay longer "
            "have more time for events. null if no unit continued."
        ),
    ]
    tested: Annotated[
        int, Field(description="Number of groups with at least 30 units in it and outside it.")
    ]
    data: Annotated[
        list[DriverRecord],
        Field(description="At most 50 groups: clear effects first, then the largest."),
    ]
