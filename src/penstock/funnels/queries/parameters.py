"""The caller's selection, checked against the funnel and turned into query parameters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from penstock.base.errors import Fault, Invalid, Malformed
from penstock.base.paging import Page
from penstock.base.paths import page_path_or_text
from penstock.base.unicode_text import composed
from penstock.funnels.definitions.ad_hoc import NO_CHANGES, AdHocChanges
from penstock.funnels.definitions.builtins import PATH
from penstock.funnels.definitions.model import Definition
from penstock.funnels.queries.scope import WebsiteScope
from penstock.funnels.statements.query import QueryParams, Sort
from penstock.http.bodies import bad_parameter


@dataclass(frozen=True, slots=True)
class Selection:
    """The units that a caller selects, and the page and order of their cohorts.

    website_id: None for all websites. start_ms, end_ms: the reporting period; both or neither are
    set. cohort: exact value by breakdown property; None if the value is missing. search: see
    `QueryParams`. ad_hoc: changes to the saved funnel for this query only. as_of_ms: evaluate the
    query as of this time; None for the current time.
    """

    website_id: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    cohort: Mapping[str, Any] = field(default_factory=dict)
    page: Page = field(default_factory=Page)
    sort: Sort = Sort.ENTERED
    descending: bool = True
    search: str = ""
    ad_hoc: AdHocChanges = NO_CHANGES
    as_of_ms: int | None = None


def check_cohort(definition: Definition, cohort: Mapping[str, Any]) -> None:
    """Raise Invalid unless the filter sets only breakdown properties, to scalars or null.

    Source: contract, "Funnels".
    """
    faults = [
        definition.breakdown_fault(f"cohort.{name}")
        for name in cohort
        if name not in definition.breakdown_properties
    ]
    faults += [
        Fault(
            f"cohort.{name}",
            "not_a_scalar",
            "Must be a string, a finite number, true, false or null.",
        )
        for name, value in cohort.items()
        if isinstance(value, dict | list) or (isinstance(value, float) and not isfinite(value))
    ]
    if faults:
        raise Invalid(faults)


def query_params(scope: WebsiteScope, selection: Selection, evaluated_at_ms: int) -> QueryParams:
    """Return the parameters of statements. The cohort filter must have passed `check_cohort`."""
    return QueryParams(
        website_ids=scope.website_ids,
        scope_ids=scope.scope_ids,
        start_ms=selection.start_ms,
        end_ms=selection.end_ms,
        evaluated_at_ms=evaluated_at_ms,
        cohort={
            name: page_path_or_text(value) if name == PATH and isinstance(value, str) else value
            for name, value in selection.cohort.items()
        },
        page=selection.page,
        sort=selection.sort,
        descending=selection.descending,
        search=composed(selection.search),
        settled=selection.ad_hoc.settled,
    )


def check_step(definition: Definition, step: int) -> None:
    """Raise Malformed unless another step follows this step."""
    n = len(definition.steps)
    if step >= n:
        raise unfit_parameters({"step": f"Must be less than {n}: this funnel has {n} steps."})


def check_pair(
    definition: Definition, names: tuple[str, str], first: int | None, last: int | None
) -> tuple[int, int] | None:
    """Return a requested pair of steps, or None if none is requested.

    names: the parameters of both steps. Raises Malformed unless both are sent or none, and the
    second is a later step of the funnel.
    """
    if first is None and last is None:
        return None
    if first is None or last is None:
        earlier, later = names
        missing = earlier if first is None else later
        message = f"Send {earlier} and {later} together. {earlier} is the earlier step."
        raise unfit_parameters({missing: message})
    n = len(definition.steps)
    faults = {
        name: f"This funnel has {n} steps."
        for name, step in zip(names, (first, last), strict=True)
        if step > n
    }
    if not faults and last <= first:
        faults = {names[1]: f"Must be a later step than {names[0]}."}
    if faults:
        raise unfit_parameters(faults)
    return first, last


def unfit_parameters(messages: Mapping[str, str], *others: Fault) -> Malformed:
    """Return the error for well-formed query parameters that do not fit the funnel.

    messages: the message for each such parameter. others: faults with other codes.
    """
    return bad_parameter(
        *(Fault(name, "does_not_fit", message) for name, message in messages.items()), *others
    )
