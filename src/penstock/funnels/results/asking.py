"""From what a caller asks about a funnel to the engine and back: the way that every answer about a funnel takes."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from math import isfinite
from typing import Any, NamedTuple

from penstock.accounts.service import AccountService
from penstock.base.clock import Clock
from penstock.base.errors import Fault, Invalid, Malformed
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Page
from penstock.base.scalar import Scalar
from penstock.funnels.definitions.model import Definition
from penstock.funnels.results import evaluation
from penstock.funnels.results.engine import Engine, Rows
from penstock.funnels.results.inquiry import Inquiry
from penstock.funnels.results.schema import CohortQuery, PeriodQuery, PreviewIn, ResultsQuery
from penstock.funnels.results.sharing import Shared
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.statements.query import Facts, Question, Statement
from penstock.funnels.statements.report import build
from penstock.http.bodies import bad_parameter
from penstock.settings import Settings
from penstock.warehouse.client import WaitUntilShipped, Warehouse

_MOMENTS_KEPT = 1_000
_ROWS_KEPT, _ROWS_KEPT_OF_ONE = 20_000, 1_000
"""A row, one cohort's numbers, takes one to two kilobytes."""


class Moment(NamedTuple):
    """When a question is evaluated, and what was known of the data then."""

    evaluated_at_ms: int
    facts: Facts

    def holds_at(self, now_ms: int) -> bool:
        """Whether the same question, asked now of the same data, has the same counts."""
        until_ms = self.facts.holds_until_ms
        return self.evaluated_at_ms <= now_ms and (until_ms is None or now_ms <= until_ms)


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
        wait_until_shipped: WaitUntilShipped,
    ) -> None:
        self.engine = Engine(warehouse, settings, clock)
        self._warehouse, self._accounts, self._funnels = warehouse, accounts, funnels
        self._settings, self._clock = settings, clock
        self._wait_until_shipped = wait_until_shipped
        self._versions: Shared[int] = Shared(most=_MOMENTS_KEPT)
        self._moments: Shared[Moment] = Shared(most=_MOMENTS_KEPT)
        self._rows: Shared[Rows] = Shared(most=_ROWS_KEPT, weigh=lambda rows: 1 + len(rows.rows), heaviest=_ROWS_KEPT_OF_ONE)

    def saved(self, workspace_id: WorkspaceId, funnel_id: str, asked: PeriodQuery) -> Inquiry:
        """About a saved funnel.

        NotFound, Unauthorized (a foreign website), Invalid (the cohort filter), Malformed (the revision), Conflict (a goal that has gone).
        """
        revision, saved = self._funnels.at_revision(workspace_id, funnel_id, asked.revision)
        definition = self._funnels.resolved(workspace_id, saved)
        return self._inquiry(workspace_id, definition, asked, funnel_id=funnel_id, revision=revision)

    def read_draft(self, workspace_id: WorkspaceId, body: bytes) -> PreviewIn:
        """A definition that is not saved. Malformed when it is not JSON, Invalid with every fault when it breaks rules."""
        return self._funnels.read(workspace_id, body, PreviewIn)

    def draft(self, workspace_id: WorkspaceId, sent: PreviewIn) -> Inquiry:
        """About a definition that is not saved. Errors as of `saved`."""
        return self._inquiry(workspace_id, self._funnels.resolved(workspace_id, sent.saved()), sent)

    def now_ms(self) -> int:
        return self._clock()

    def counted(self, inquiry: Inquiry) -> dict[str, Any]:
        """The counted part of a report, as `evaluate`."""
        statement = build(inquiry.definition, inquiry.question, inquiry.facts)
        return evaluation.counted(inquiry.definition, inquiry.question, self.records(statement, inquiry))

    def records(self, statement: Statement, inquiry: Inquiry | None = None) -> list[dict[str, Any]]:
        """The rows of a statement, by column; their values are to be read only.

        inquiry: what the statement belongs to. With it, equal statements at once run once, and rows are used again while the data are the
        same; the inquiry's head tells of it.
        """
        if inquiry is None or not inquiry.fresh:
            found, kept = self.engine.rows(statement), False
        else:
            key = _key(inquiry, statement)
            still = partial(self._is_as_it_was, inquiry.question, inquiry.parts)
            with self.engine.explaining():
                found, kept = self._rows.get(key, lambda: self.engine.rows(statement), still=still)
        if inquiry is not None:
            inquiry.service.note(found.computed_at_ms, queried=not kept)
        return [dict(zip(found.names, row, strict=True)) for row in found.rows]

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
        websites = self._accounts.websites_asked(workspace_id, asked.website_id)
        fresh = self._wait_until_shipped(self._settings.fresh_wait_s)
        question = Question(
            website_ids=tuple(WebsiteId(website.id) for website in websites),
            scope_ids=tuple({website.scope_id: None for website in websites}),
            start_ms=_as_ms(asked.start_at),
            end_ms=_as_ms(asked.end_at),
            evaluated_at_ms=self._clock(),
            cohort=filtered,
            page=Page(asked.page, asked.page_size) if isinstance(asked, ResultsQuery | PreviewIn) else Page(),
        )
        if isinstance(asked, ResultsQuery):
            question = replace(question, sort=asked.sort, descending=asked.order == "desc")
        with self.engine.explaining():
            version, parts = self._version(question)
            moment = self._moment(workspace_id, definition, question, version, parts, fresh=fresh)
        question = replace(question, evaluated_at_ms=moment.evaluated_at_ms)
        return Inquiry(workspace_id, definition, question, moment.facts, asked.website_id, fresh, version, parts, funnel_id, revision)

    def _version(self, question: Question) -> tuple[int, int]:
        """Of the data as they are now, or newer ones; and their parts. The same parts have the same content, read once for them."""
        parts = evaluation.parts_of(self._warehouse, question)
        key = (question.website_ids, question.scope_ids, parts)
        still = partial(self._is_as_it_was, question, parts)
        return self._versions.get(key, lambda: evaluation.content_of(self._warehouse, question), still=still).value, parts

    def _is_as_it_was(self, question: Question, parts: int) -> bool:
        """Whether nothing came or went since.

        A version may come back, when a deletion takes away what came in meanwhile. So nothing is kept that was read while parts changed.
        """
        return evaluation.parts_of(self._warehouse, question) == parts

    def _moment(
        self, workspace_id: WorkspaceId, definition: Definition, question: Question, version: int, parts: int, *, fresh: bool
    ) -> Moment:
        """When to evaluate a question: now, unless it was evaluated before and neither data nor time can have changed a count since.

        So an answer is computed again only when that can differ, and the cohorts and pages of one report are of one moment.
        """

        def now() -> Moment:
            at = replace(question, evaluated_at_ms=self._clock())
            return Moment(at.evaluated_at_ms, evaluation.facts_of(self._warehouse, at, definition.window_s))

        if not fresh:
            return now()
        key = (workspace_id, definition, question.website_ids, question.scope_ids, question.start_ms, question.end_ms, version)
        still = partial(self._is_as_it_was, question, parts)
        return self._moments.get(key, now, holds=lambda moment: moment.holds_at(self._clock()), still=still).value


def bad_parameters(wrong: Mapping[str, str], *others: Fault) -> Malformed:
    """Query parameters that are well-formed, but do not fit the funnel. wrong: what is, by parameter. others: faults of another code."""
    return bad_parameter(*(Fault(parameter, "does_not_fit", told) for parameter, told in wrong.items()), *others)


def _key(inquiry: Inquiry, statement: Statement) -> bytes:
    """Stands for all that the rows of a statement depend on."""
    said = repr((inquiry.workspace_id, inquiry.version, statement.sql, sorted(statement.parameters.items())))
    return sha256(said.encode("utf-8", "surrogatepass")).digest()


def _as_ms(at: int | str | None) -> int | None:
    return None if at is None else int(at)


def _checked_cohort(definition: Definition, cohort: Mapping[str, Any]) -> dict[str, Scalar | None]:
    """A cohort filter names entry properties of the funnel and gives scalars or null. Source: contract, "Funnels"."""
    faults = [definition.not_a_breakdown(f"cohort.{name}") for name in cohort if name not in definition.breakdown_properties]
    faults += [
        Fault(f"cohort.{name}", "not_a_scalar", "Must be a string, a finite number, true, false or null.")
        for name, value in cohort.items()
        if isinstance(value, dict | list) or (isinstance(value, float) and not isfinite(value))
    ]
    if faults:
        raise Invalid(faults)
    return dict(cohort)
