"""From what a caller asks about a funnel to the engine and back: the way that every answer about a funnel takes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from penstock.accounts.model import Website
from penstock.accounts.service import AccountService
from penstock.base.clock import Clock, iso, iso_or_none
from penstock.base.errors import Fault, Invalid, Malformed, Unavailable
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Page
from penstock.base.scalar import Scalar
from penstock.funnels.evaluation import ENGINE_SETTINGS, evaluate, facts_of
from penstock.funnels.model import Definition
from penstock.funnels.query import Facts, Question, Statement
from penstock.funnels.results_schema import CohortQuery, PeriodQuery, PreviewIn, ResultsQuery
from penstock.funnels.service import FunnelService
from penstock.http.bodies import bad_parameter
from penstock.settings import Settings
from penstock.warehouse.client import QueryFailed, Warehouse

T = TypeVar("T")

_TIMEOUT_EXCEEDED, _MEMORY_LIMIT_EXCEEDED = 159, 241
"""Error codes of the engine."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """One question about one funnel, ready for the engine.

    funnel_id, revision: None for a definition that is not saved. website_id: as asked, None for all. facts: of the data that is read.
    fresh: whether everything that was acknowledged before the question can be read.
    """

    workspace_id: WorkspaceId
    definition: Definition
    question: Question
    facts: Facts
    website_id: str | None
    fresh: bool
    funnel_id: str | None = None
    revision: int | None = None

    @property
    def head(self) -> dict[str, Any]:
        """The head of the answer (`HeadRecord`)."""
        return {
            "funnelId": self.funnel_id,
            "definitionRevision": self.revision,
            "goals": [asdict(goal) for goal in self.definition.goals],
            "countingUnit": self.definition.counting_unit,
            "evaluatedAt": iso(self.question.evaluated_at_ms),
            "period": {"startAt": iso_or_none(self.question.start_ms), "endAt": iso_or_none(self.question.end_ms)},
            "websiteId": self.website_id,
        }


class Asker:
    """Its methods block; call them from a worker thread. What the engine stops or cannot answer is `Unavailable`."""

    def __init__(
        self,
        warehouse: Warehouse,
        accounts: AccountService,
        funnels: FunnelService,
        settings: Settings,
        clock: Clock,
        *,
        wait_until_shipped: Callable[[float], bool],
    ) -> None:
        """wait_until_shipped: waits for events acknowledged before the call, False when that took too long."""
        self._warehouse, self._accounts, self._funnels = warehouse, accounts, funnels
        self._settings, self._clock = settings, clock
        self._wait_until_shipped = wait_until_shipped

    def saved(self, workspace_id: WorkspaceId, funnel_id: str, asked: PeriodQuery) -> Inquiry:
        """About a saved funnel.

        NotFound, Unauthorized (a foreign website), Invalid (the cohort filter), Malformed (the revision), Conflict (a goal that has gone).
        """
        revision, saved = self._funnels.at_revision(workspace_id, funnel_id, asked.revision)
        definition = self._funnels.resolved(workspace_id, saved)
        return self._inquiry(workspace_id, definition, asked, funnel_id=funnel_id, revision=revision)

    def draft(self, workspace_id: WorkspaceId, body: bytes) -> Inquiry:
        """About a definition that is not saved. Errors as of `saved`, and Malformed."""
        sent = self._funnels.read(workspace_id, body, PreviewIn)
        return self._inquiry(workspace_id, self._funnels.resolved(workspace_id, sent.saved()), sent)

    def counted(self, inquiry: Inquiry) -> dict[str, Any]:
        """The counted part of a report, as `evaluate`."""

        def ask() -> dict[str, Any]:
            return evaluate(self._warehouse, inquiry.definition, inquiry.question, facts=inquiry.facts, limits=self._limits())

        return self._answered(ask)

    def records(self, statement: Statement) -> list[dict[str, Any]]:
        """The rows of a statement, by column."""

        def ask() -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
            return self._warehouse.query(statement.sql, statement.parameters, {**ENGINE_SETTINGS, **self._limits()})

        names, rows = self._answered(ask)
        return [dict(zip(names, row, strict=True)) for row in rows]

    @contextmanager
    def blocks(self, statement: Statement) -> Iterator[Iterator[list[dict[str, Any]]]]:
        """The rows of a statement in blocks, for answers that are too long to hold. The engine is busy until the context ends."""
        settings = {**ENGINE_SETTINGS, **self._limits()}
        try:
            with self._warehouse.blocks(statement.sql, statement.parameters, settings) as blocks:
                yield ([dict(zip(names, row, strict=True)) for row in rows] for names, rows in blocks)
        except QueryFailed as error:
            raise self._explained(error) from error

    def _inquiry(
        self,
        workspace_id: WorkspaceId,
        definition: Definition,
        asked: PeriodQuery | PreviewIn,
        funnel_id: str | None = None,
        revision: int | None = None,
    ) -> Inquiry:
        cohort = asked.cohort or {} if isinstance(asked, CohortQuery | PreviewIn) else {}
        filtered = _checked_cohort(definition, cohort)
        websites = self._websites(workspace_id, asked.website_id)
        fresh = self._wait_until_shipped(self._settings.fresh_wait_s)
        question = Question(
            website_ids=tuple(WebsiteId(website.id) for website in websites),
            scope_ids=tuple({website.scope_id for website in websites}),
            start_ms=_as_ms(asked.start_at),
            end_ms=_as_ms(asked.end_at),
            evaluated_at_ms=self._clock(),
            cohort=filtered,
            page=Page(asked.page, asked.page_size) if isinstance(asked, ResultsQuery | PreviewIn) else Page(),
        )
        facts = self._answered(lambda: facts_of(self._warehouse, question))
        return Inquiry(workspace_id, definition, question, facts, asked.website_id, fresh, funnel_id, revision)

    def _websites(self, workspace_id: WorkspaceId, website_id: str | None) -> Sequence[Website]:
        if website_id is not None:
            return [self._accounts.owned_website(workspace_id, website_id)]
        return self._accounts.websites(workspace_id)

    def _limits(self) -> Mapping[str, Any]:
        return {"max_execution_time": self._settings.query_timeout_s, "max_memory_usage": self._settings.query_memory_bytes}

    def _answered(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
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


def bad_parameters(faults: Mapping[str, str]) -> Malformed:
    """Query parameters that are well-formed, but do not fit the funnel. faults: what is wrong, by parameter."""
    return bad_parameter(*(Fault(parameter, "does_not_fit", wrong) for parameter, wrong in faults.items()))


def _as_ms(at: int | str | None) -> int | None:
    return None if at is None else int(at)


def _checked_cohort(definition: Definition, cohort: Mapping[str, Any]) -> dict[str, Scalar | None]:
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
    return dict(cohort)
