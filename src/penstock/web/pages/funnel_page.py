"""Data that all pages about one funnel share."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from penstock.accounts.model import Website
from penstock.base.clock import parse_time
from penstock.base.errors import Invalid
from penstock.base.paging import Listing, Page
from penstock.funnels.comparisons.words import value_words
from penstock.funnels.definitions.ad_hoc import NO_CHANGES
from penstock.funnels.definitions.builtins import COHORT, COHORT_PREFIX, IN_COHORT, cohort_of
from penstock.funnels.definitions.operators import Operator
from penstock.funnels.definitions.revisions import filter_in_words, window_of
from penstock.funnels.definitions.schema import (
    FunnelRecord,
    RevisionRecord,
    SavedDefinition,
    SavedFilter,
    SavedStep,
)
from penstock.funnels.definitions.titles import row_title, step_titles
from penstock.funnels.internal_traffic.model import InternalTraffic
from penstock.funnels.internal_traffic.service import InternalTrafficService
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.results.schema import (
    AD_HOC,
    ImpossibleReason,
    ImpossibleStepRecord,
    ReportQuery,
    ResultsRecord,
    filters_as_text,
    keys_as_text,
)
from penstock.funnels.results.service import rows_never_received
from penstock.funnels.saved.schema import MAX_BREAKDOWNS
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.saved_cohorts.schema import SavedCohortRecord
from penstock.funnels.saved_cohorts.service import SavedCohortService
from penstock.funnels.segments.schema import SavedSegmentRecord
from penstock.funnels.segments.service import SavedSegmentService
from penstock.funnels.shown_rates import Figures, ShownRate, shown_rate
from penstock.funnels.statements.units import Outcome
from penstock.funnels.units.schema import TraceRecord, UnitRecord
from penstock.web.pages.schema import (
    address_with_selection,
    selection_of,
)
from penstock.web.view import View

_MAX_SEGMENTS = 20
"""Number of segments in the menu of a report. The page of segments lists all."""


def why_impossible(
    runner: FunnelQueryRunner,
    context: QueryContext,
    definition: SavedDefinition,
    report: ResultsRecord,
) -> dict[int, Markup]:
    """Return why no event can complete some steps, in words, by the index of their row."""
    never = rows_never_received(runner, context, report)

    def words(each: ImpossibleStepRecord) -> Markup:
        row = definition.steps[each.row]
        if each.reason is not ImpossibleReason.NO_EVENTS or row.mode:
            return Markup("<bdi>{}</bdi>").format(each.message.removesuffix("."))
        when = "never received" if each.row in never else "not received in this period"
        return Markup("<bdi>{}</bdi> was {}").format(row_title(row), when)

    return {
        each.row: words(each)
        for each in report.impossible_steps
        if definition.steps[each.row].required
    }


def no_window_note(units: str) -> str:
    """Return the note about a missing window, worded for the pages. The API's note calls units
    pending.

    units: plural of the counted unit.
    """
    unfinished = f"Unfinished {units} may still convert at any time."
    return f"This funnel has no conversion window. {unfinished}"


@dataclass(frozen=True, slots=True)
class FunnelPage:
    """A page about a funnel.

    definition: definition of the selected revision with the breakdown and window of the query.
    saved_definition: the same as saved. selection: the query parameters that select its units,
    unparsed. revisions: the latest hundred revisions, newest first; empty for a funnel that was
    never changed. segments: the newest segments. cohorts: the newest saved cohorts. cohort_names:
    names of the cohorts in the query and the breakdown by ID. segment: the segment of the query;
    None if it has none, or a deleted one. internal_traffic: see `ChangedDefinition`.
    """

    view: View
    funnel: FunnelRecord
    definition: SavedDefinition
    saved_definition: SavedDefinition
    revisions: list[RevisionRecord]
    query: ReportQuery
    selection: Mapping[str, Any]
    segments: Listing[SavedSegmentRecord]
    cohorts: Listing[SavedCohortRecord]
    cohort_names: Mapping[str, str]
    segment: SavedSegmentRecord | None
    internal_traffic: InternalTraffic | None

    @property
    def revision(self) -> int:
        """Number of the selected revision."""
        return self.query.revision or self.funnel.revision

    @property
    def website(self) -> Website | None:
        return self.view.website(self.query.website_id)

    @property
    def past_revision(self) -> RevisionRecord | None:
        """The selected revision; None if it is the current revision."""
        if self.query.revision in (None, self.funnel.revision):
            return None
        selected = (item for item in self.revisions if item.revision == self.query.revision)
        return next(selected, None)

    @property
    def required_steps(self) -> list[SavedStep]:
        return [row for row in self.definition.steps if row.required]

    @property
    def step_titles(self) -> list[str]:
        """See `step_titles`."""
        return step_titles(self.definition)

    @property
    def in_any_order(self) -> bool:
        return self.definition.order == "any"

    @property
    def excludes(self) -> bool:
        """Whether an event can exclude a unit."""
        return any(row.exclude or row.strict for row in self.definition.steps)

    @property
    def has_window(self) -> bool:
        """Whether unfinished units can drop off. Without a window, they stay pending."""
        return self.definition.window_s is not None

    @property
    def first_step(self) -> SavedStep:
        return self.required_steps[0]

    @property
    def window_in_words(self) -> str:
        return window_of(self.definition)

    @property
    def saved_window_in_words(self) -> str:
        return window_of(self.saved_definition)

    @property
    def filters_in_words(self) -> list[tuple[str, str | None]]:
        """The filters of the query in words, each with the parameter that is left without it."""
        filters = self.query.filters or ()
        rest = [[*filters[:index], *filters[index + 1 :]] for index in range(len(filters))]
        return [
            (self._words_of(item), filters_as_text(others) if others else None)
            for item, others in zip(filters, rest, strict=True)
        ]

    def _words_of(self, item: SavedFilter) -> str:
        name = self.cohort_names.get(item.value) if item.property == COHORT else None
        if item.property != COHORT:
            return filter_in_words(item)
        verb = "in" if item.operator == Operator.EQUALS else "not in"
        return f"{verb} cohort {name}" if name else f"{verb} a deleted cohort"

    def filters_with_cohort(self, cohort_id: str) -> str:
        """Return the query parameter `filters` with one more filter, by a saved cohort."""
        more = SavedFilter(property=COHORT, operator=Operator.EQUALS, value=cohort_id)
        return filters_as_text([*(self.query.filters or ()), more])

    @property
    def deleted_choice(self) -> str | None:
        """The kind of deleted record that the query names: segment or cohort; None if there is
        none.
        """
        if self.query.segment is not None and self.segment is None:
            return "segment"
        return "cohort" if any(map(self._is_deleted, self.query.filters or ())) else None

    @property
    def without_deleted_choice(self) -> dict[str, str | None]:
        """The changes of the address that remove a deleted segment and deleted cohorts."""
        rest = [item for item in self.query.filters or () if not self._is_deleted(item)]
        return {
            "segment": self.segment.id if self.segment else None,
            "filters": filters_as_text(rest) if rest else None,
        }

    def _is_deleted(self, item: SavedFilter) -> bool:
        return item.property == COHORT and item.value not in self.cohort_names

    @property
    def breakdown_text(self) -> str:
        """The breakdown properties in words, and where their values are from if that is not the
        entry; empty without a breakdown.
        """
        names = ", ".join(map(self.property_name, self.definition.breakdown_properties))
        return f"{names} {self.breakdown_at_text}".rstrip() if names else ""

    @property
    def breakdown_at_text(self) -> str:
        """Where the values of the breakdown are from, in words; empty for the entry."""
        at = self.definition.breakdown_at
        if at is None:
            return ""
        return f"at step {at}" if isinstance(at, int) else f"({at} value)"

    def property_name(self, key: str) -> str:
        """Return the name of a breakdown property: that of the cohort, for a saved cohort."""
        cohort_id = cohort_of(key)
        return key if cohort_id is None else self.cohort_names.get(cohort_id, "Deleted cohort")

    def breakdown_with_cohort(self, cohort_id: str) -> str:
        """Return the query parameter `breakdown` with one more property, a saved cohort.

        It replaces the last property if there are as many as a breakdown may have.
        """
        key = COHORT_PREFIX + cohort_id
        others = [each for each in self.definition.breakdown_properties if each != key]
        return keys_as_text([*others[: MAX_BREAKDOWNS - 1], key])

    @property
    def asks_ad_hoc(self) -> bool:
        """Whether the query changes the saved definition."""
        return replace(self.query.ad_hoc, internal=False) != NO_CHANGES

    @property
    def all_filters(self) -> str:
        """The filters of the query and of its segment, as JSON."""
        of_segment = self.segment.filters if self.segment else []
        return filters_as_text([*of_segment, *(self.query.filters or ())])

    @property
    def saved_segment_address(self) -> str:
        """The same page with a new segment, whose ID replaces `{id}`, instead of filters."""
        address = self.view.address(filters=None, segment=None, page=None, cursor=None)
        return f"{address}{'&' if '?' in address else '?'}segment={{id}}"

    def builder(self, path: str, **more: str) -> str:
        """Return the address of the builder, filled with the changes of the query."""
        changes = {name: self.selection[name] for name in AD_HOC if name in self.selection}
        return address_with_selection(path, {**more, **changes})

    @property
    def pending_word(self) -> str:
        """The word for units that have neither completed nor dropped off."""
        return "Pending" if self.has_window else "Not converted"

    @property
    def _path(self) -> str:
        return f"/funnels/{self.funnel.id}"

    def noun(self, count: int = 2) -> str:
        """Return the word for counted units: attempt, visitor or run, or its plural."""
        return f"{self.definition.unit_word}{'' if count == 1 else 's'}"

    def cohort_label(self, cohort: Mapping[str, Any]) -> str:
        """Return the values of a cohort in words: `paid · Germany`."""
        return " · ".join(self._value_words(key, value) for key, value in cohort.items())

    def _value_words(self, key: str, value: Any) -> str:
        if cohort_of(key) is None or value is None:
            return value_words(value)
        return f"{'in' if value == IN_COHORT else 'not in'} {self.property_name(key)}"

    @property
    def who(self) -> str:
        """The relative pronoun for counted units: visitors who, attempts that."""
        return "who" if self.definition.unit_word == "visitor" else "that"

    def rate(self, figures: Figures) -> ShownRate:
        """Return the rate that the page shows for some units."""
        return shown_rate(figures, has_window=self.has_window)

    def outcome(self, outcome: str) -> str:
        """Describe an outcome in words."""
        return {
            "completed": "Completed",
            "pending": self.pending_word,
            "droppedOff": "Dropped off",
            "excluded": "Excluded",
        }[outcome]

    def outcome_of(self, unit: UnitRecord | TraceRecord, evaluated_at: str) -> str:
        """Describe the outcome of a unit that entered, and whether its window is still open."""
        ends_at = unit.window_ends_at
        is_open = ends_at is not None and parse_time(evaluated_at) <= parse_time(ends_at)
        if unit.outcome is Outcome.COMPLETED and is_open:
            return "Completed, window open"
        return self.outcome(unit.outcome or "")

    def parameters(self, *, cohort: bool = True, **more: Any) -> dict[str, Any]:
        """Return query parameters for the API. cohort: whether to include the cohort filter."""
        window_s = self.definition.window_s or 0
        return {
            **self.query.parameters(self.view.now_ms, window_s=window_s, cohort=cohort),
            **{name: _as_parameter(value) for name, value in more.items() if value is not None},
        }

    def units(self, **conditions: Any) -> str:
        return address_with_selection(f"{self._path}/units", self.selection, **conditions)

    def trace(self, unit: str, **more: Any) -> str:
        path = f"{self._path}/units/{quote(unit, safe='')}"
        return address_with_selection(path, self.selection, **more)

    @property
    def alert_address(self) -> str:
        """The address of the form for an alert about the units of this page."""
        return address_with_selection("/alerts/new", self.selection, funnelId=self.funnel.id)

    def report_address(self) -> str:
        return address_with_selection(self._path, self.selection)

    def share_address(self) -> str:
        return address_with_selection(f"{self._path}/share", self.selection)

    def receipt_address(self) -> str:
        return address_with_selection(f"{self._path}/receipt", self.selection)

    def api(self, kind: str, *, cohort: bool = True, **more: Any) -> str:
        """Return the path of the API call for the same numbers."""
        query = urlencode(self.parameters(cohort=cohort, **more), quote_via=quote)
        return f"/api/funnels/{self.funnel.id}/{kind}" + (f"?{query}" if query else "")

    def curl(self, kind: str, *, cohort: bool = True, **more: Any) -> str:
        url = f"{self.view.settings.base_url}{self.api(kind, cohort=cohort, **more)}"
        return f"curl -H 'Authorization: Bearer YOUR_API_KEY' '{url}'"


def _as_parameter(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class FunnelPages:
    """Loads funnel pages. Handlers get it by the name `funnel_pages`."""

    view: View
    funnels: FunnelService
    segments: SavedSegmentService
    cohorts: SavedCohortService
    internal_traffic: InternalTrafficService

    def folders(self) -> Mapping[str | None, int]:
        """Return the number of funnels in each folder of the workspace. Blocks."""
        return self.funnels.folders(self.view.workspace_id)

    def load(self, funnel_id: str, query: ReportQuery) -> FunnelPage:
        """Load a page. Blocks.

        Raises `NotFound` for an unknown funnel, and `Malformed` for an unknown revision.
        """
        workspace_id = self.view.workspace_id
        funnel = self.funnels.get(workspace_id, funnel_id)
        is_current = query.revision in (None, funnel.revision)
        definition = (
            funnel.definition
            if is_current
            else self.funnels.definition_at(workspace_id, funnel_id, query.revision)[1]
        )
        revisions = (
            list(self.funnels.revisions(workspace_id, funnel_id, Page(1, 100)).data)
            if funnel.revision > 1
            else []
        )
        return FunnelPage(
            view=self.view,
            funnel=funnel,
            definition=replace(query.ad_hoc, filters=None).change_record(definition),
            saved_definition=definition,
            revisions=revisions,
            query=query,
            selection=selection_of(self.view.request.query_params),
            segments=self.segments.page(workspace_id, Page(1, _MAX_SEGMENTS)),
            cohorts=self.cohorts.page(workspace_id, Page(1, _MAX_SEGMENTS)),
            cohort_names=self._cohort_names(query, definition),
            segment=self._segment(query),
            internal_traffic=self._internal_traffic(query),
        )

    def _cohort_names(self, query: ReportQuery, definition: SavedDefinition) -> Mapping[str, str]:
        ids = [item.value for item in query.filters or () if item.property == COHORT]
        breakdown = query.breakdown or definition.breakdown_properties
        ids += [cohort_id for key in breakdown if (cohort_id := cohort_of(key))]
        return self.cohorts.names(self.view.workspace_id, ids) if ids else {}

    def _segment(self, query: ReportQuery) -> SavedSegmentRecord | None:
        if query.segment is None:
            return None
        try:
            return self.segments.for_request(self.view.workspace_id, query.segment)
        except Invalid:  # the parts of the page show the error
            return None

    def _internal_traffic(self, query: ReportQuery) -> InternalTraffic | None:
        if not self.internal_traffic.get(self.view.workspace_id).filters:
            return None
        return InternalTraffic.INCLUDED if query.internal else InternalTraffic.LEFT_OUT
