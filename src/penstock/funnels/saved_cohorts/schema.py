"""Wire types for saved cohorts."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from penstock.base.table_files import TableFormat
from penstock.funnels.saved_cohorts.model import MAX_VISITORS, CohortKind
from penstock.http.schema import (
    OMITTABLE,
    Input,
    Name,
    Query,
    Record,
    RuleBroken,
    without_nul,
)

_MAX_PARAMETERS, _MAX_NAME_CHARS, _MAX_VALUE_CHARS = 20, 50, 50_000


def _check_parameters(parameters: Any) -> Any:
    """Validator: limit the number and the sizes of saved query parameters."""
    if not isinstance(parameters, dict):
        return parameters
    if len(parameters) > _MAX_PARAMETERS:
        raise RuleBroken("too_many", f"Must have at most {_MAX_PARAMETERS} entries.")
    for name, value in parameters.items():
        if isinstance(name, str) and len(name) > _MAX_NAME_CHARS:
            raise RuleBroken("too_long", "There is no parameter with such a long name.")
        if isinstance(value, str) and len(value) > _MAX_VALUE_CHARS:
            limit = f"Must have at most {_MAX_VALUE_CHARS:,} characters."
            raise RuleBroken("too_long", limit, name)
        if isinstance(value, str):
            without_nul(value)
    return parameters


SavedParameters = Annotated[
    dict[str, str], BeforeValidator(_check_parameters), Field(default_factory=dict)
]


class CohortIn(Input):
    """A new cohort of the visitors of a list of units, or of visitors that are named."""

    name: Name
    kind: Annotated[
        CohortKind,
        Field(
            description="`list`: the visitors now, at most "
            f"{MAX_VISITORS:,}. `rule`: the visitors each time the cohort is used."
        ),
    ]
    funnel_id: str
    parameters: SavedParameters
    """The query parameters of the list of units, as texts, such as {"step": "2", "outcome":
    "droppedOff"}.
    """
    visitors: Annotated[
        dict[str, list[str]] | None,
        Field(
            description="Visitor IDs by website ID: the visitors of a `list`, instead of those of "
            f"the list of units. At most {MAX_VISITORS:,}. Unknown visitors are left out.",
        ),
        OMITTABLE,
    ] = None

    @field_validator("visitors", mode="before")
    @classmethod
    def _check_number(cls, visitors: Any, info: ValidationInfo) -> Any:
        if not isinstance(visitors, dict):
            return visitors
        if info.data.get("kind") is CohortKind.RULE:
            raise RuleBroken("not_for_type", "Only a list can name its visitors.")
        if sum(len(ids) for ids in visitors.values() if isinstance(ids, list)) > MAX_VISITORS:
            raise RuleBroken("too_many", f"Must name at most {MAX_VISITORS:,} visitors.")
        return visitors

    @field_validator("visitors")
    @classmethod
    def _reject_nul(cls, visitors: dict[str, list[str]] | None) -> dict[str, list[str]] | None:
        for website_id, ids in (visitors or {}).items():
            without_nul(website_id)
            without_nul("".join(ids))
        return visitors


class CohortChange(Input):
    """The new name of a cohort."""

    name: Name


class SavedCohortRecord(Record):
    """A saved cohort. Filters refer to it by its ID."""

    id: str
    name: str
    kind: CohortKind
    funnel_id: str
    parameters: dict[str, str]
    """Query parameters of the list of units."""
    visitors: int | None
    """Visitors of a list, without those deleted since. null for a rule."""
    created_at: str
    updated_at: str


class CohortVisitorRecord(Record):
    """A visitor of a saved cohort."""

    visitor_id: str
    """The canonical visitor's ID."""
    user_id: str | None
    website_id: str | None
    """A website that knows the visitor under this ID."""


class CohortExportQuery(Query):
    """Query parameters for a file with the visitors of a saved cohort."""

    format: TableFormat = "csv"
    """File format."""
