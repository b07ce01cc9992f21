"""Wire types for the verdict on a report."""

from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.funnels.queries.parameters import Selection
from penstock.funnels.queries.schema import CohortQuery, HeadRecord
from penstock.http.period import InTimezone
from penstock.http.schema import Record


class VerdictQuery(CohortQuery, InTimezone):
    """Query parameters for a verdict."""

    def selection(self) -> Selection:
        return replace(super().selection(), page=Page(1, MAX_PAGE_SIZE))


class ShownBy(StrEnum):
    """A response about a funnel that shows the figures behind a phrase."""

    RESULTS = "results"
    UNITS = "units"
    DRIVERS = "drivers"
    COMPARE = "compare"
    PERIODS = "periods"


class ShowsRecord(Record):
    """The response with the figures behind a phrase."""

    by: Annotated[
        ShownBy, Field(description="Last part of its path: `/api/funnels/{funnel_id}/{by}`.")
    ]
    parameters: Annotated[
        dict[str, Any],
        Field(
            description="Query parameters to add to those of this request. The values are JSON, so "
            "encode objects such as `cohort` as JSON text."
        ),
    ]


class PhraseRecord(Record):
    """Part of a sentence. shows: the response with its figures; null for connecting words."""

    text: str
    shows: ShowsRecord | None = None


class SentenceRecord(Record):
    """A sentence of the verdict. text: the texts of its phrases, joined."""

    text: str
    phrases: list[PhraseRecord]


class VerdictRecord(HeadRecord):
    """The results of a report in sentences, as far as its data support them.

    Rates, losses and comparisons are those of settled units. A statement about a share needs 30
    settled units on each side, and a difference is stated only if its 95% interval excludes 0.
    """

    largest_loss: Annotated[
        int | None,
        Field(
            description="The step after which most settled units dropped off; null if too few units"
            " are settled or none dropped off."
        ),
    ]
    sentences: Annotated[
        list[SentenceRecord], Field(description="Empty if there are too few data.")
    ]
