"""Reading a funnel's results: the question, the engine's answer, and what history it stands on."""

from collections.abc import Callable, Mapping
from typing import Any

from penstock.accounts.service import AccountService
from penstock.base.clock import Clock, iso, iso_or_none
from penstock.base.errors import Fault, Invalid, Unavailable
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Page
from penstock.funnels.coverage import ReadGaps, coverage_of
from penstock.funnels.evaluation import evaluate, facts_of
from penstock.funnels.model import Definition
from penstock.funnels.query import Question
from penstock.funnels.results_schema import PreviewIn, ResultsQuery, ResultsRecord
from penstock.funnels.service import FunnelService
from penstock.settings import Settings
from penstock.warehouse.client import QueryFailed, Warehouse

_TIMEOUT_EXCEEDED, _MEMORY_LIMIT_EXCEEDED = 159, 241
"""Error codes of the engine."""


class ResultsService:
    """Use cases of results. Its methods block; call them from a worker thread."""

    def __init__(
        self,
        warehouse: Warehouse,
        accounts: AccountService,
        funnels: FunnelService,
        settings: Settings,
        clock: Clock,
        *,
        wait_until_shipped: Callable[[float], bool],
        read_gaps: ReadGaps,
    ) -> None:
        """wait_until_shipped: waits for events acknowledged before the call, False when that took too long."""
        self._warehouse, self._accounts, self._funnels = warehouse, accounts, funnels
        self._settings, self._clock = settings, clock
        self._wait_until_shipped, self._read_gaps = wait_until_shipped, read_gaps

    def results(self, workspace_id: WorkspaceId, funnel_id: str, query: ResultsQuery) -> ResultsRecord:
        """The report of a saved funnel. NotFound, Unauthorized (a foreign website), Invalid (the cohort filter), Unavailable."""
        record = self._funnels.get(workspace_id, funnel_id)
        definition = self._funnels.resolved(workspace_id, record.definition)
        return self._report(workspace_id, definition, query, funnel_id=record.id, revision=record.revision)

    def preview(self, workspace_id: WorkspaceId, body: bytes) -> ResultsRecord:
        """The report of a definition that is not saved. Errors as of `results`, and Malformed."""
        sent = self._funnels.read(workspace_id, body, PreviewIn)
        return self._report(workspace_id, self._funnels.resolved(workspace_id, sent.saved()), sent, funnel_id=None, revision=None)

    def _report(
        self,
        workspace_id: WorkspaceId,
        definition: Definition,
        asked: ResultsQuery | PreviewIn,
        *,
        funnel_id: str | None,
        revision: int | None,
    ) -> ResultsRecord:
        _check_cohort(definition, asked.cohort or {})
        fresh = self._wait_until_shipped(self._settings.fresh_wait_s)
        question = self._question(workspace_id, asked)
        facts, counted = self._ask(definition, question)
        gaps = self._read_gaps(workspace_id, question.website_ids)
        coverage = coverage_of(question, definition.window_s, facts, gaps, counted.pop("openWindows"), fresh=fresh)
        return ResultsRecord.model_validate(
            {
                "funnelId": funnel_id,
                "definitionRevision": revision,
                "countingUnit": definition.counting_unit,
                "evaluatedAt": iso(question.evaluated_at_ms),
                "period": {"startAt": iso_or_none(question.start_ms), "endAt": iso_or_none(question.end_ms)},
                "websiteId": asked.website_id,
                "coverage": coverage,
                **counted,
            }
        )

    def _question(self, workspace_id: WorkspaceId, asked: ResultsQuery | PreviewIn) -> Question:
        if asked.website_id is not None:
            websites = [self._accounts.owned_website(workspace_id, asked.website_id)]
        else:
            websites = self._accounts.websites(workspace_id)
        return Question(
            website_ids=tuple(WebsiteId(website.id) for website in websites),
            scope_ids=tuple({website.scope_id for website in websites}),
            start_ms=_as_ms(asked.start_at),
            end_ms=_as_ms(asked.end_at),
            evaluated_at_ms=self._clock(),
            cohort={name: value for name, value in (asked.cohort or {}).items() if not isinstance(value, dict | list)},
            page=Page(asked.page, asked.page_size),
        )

    def _ask(self, definition: Definition, question: Question) -> tuple[Any, dict[str, Any]]:
        limits = {"max_execution_time": self._settings.query_timeout_s, "max_memory_usage": self._settings.query_memory_bytes}
        try:
            facts = facts_of(self._warehouse, question)
            return facts, evaluate(self._warehouse, definition, question, facts=facts, limits=limits)
        except QueryFailed as error:
            raise self._explained(error) from error

    def _explained(self, error: QueryFailed) -> Exception:
        """What a caller can do about a query that the engine stopped; any other failure is ours."""
        if error.code == _TIMEOUT_EXCEEDED:
            limit = f"{self._settings.query_timeout_s:g} seconds"
            return Unavailable(f"The funnel took longer than {limit}. Ask for a shorter period or one website.", code="query_timeout")
        if error.code == _MEMORY_LIMIT_EXCEEDED:
            return Unavailable("The funnel needed too much memory. Ask for a shorter period or one website.", code="query_too_large")
        if error.code == 0:
            return Unavailable("The event store does not answer right now; try again.", code="warehouse_unavailable")
        return error


def _as_ms(at: int | str | None) -> int | None:
    return None if at is None else int(at)


def _check_cohort(definition: Definition, cohort: Mapping[str, Any]) -> None:
    """A cohort filter names entry properties of the funnel and gives scalars or null. Source: contract, "Funnels"."""
    known = ", ".join(definition.breakdown_properties) or "none"
    faults = [
        Fault(f"cohort.{name}", "not_a_breakdown", f"Is not a breakdown property of this funnel; it has: {known}.")
        for name in cohort
        if name not in definition.breakdown_properties
    ]
    faults += [
        Fault(f"cohort.{name}", "not_a_scalar", "Must be a string, a number, true, false or null.")
        for name, value in cohort.items()
        if isinstance(value, dict | list)
    ]
    if faults:
        raise Invalid(faults)
