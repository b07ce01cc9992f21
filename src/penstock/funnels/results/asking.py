"""From what a caller asks about a funnel to the engine and back: the way that every answer about a funnel takes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from math import isfinite
from typing import Any, NamedTuple, TypeVar

from penstock.accounts.model import Website
from penstock.accounts.service import AccountService
from penstock.base.clock import Clock, iso, iso_or_none
from penstock.base.errors import Fault, Invalid, Malformed, Unavailable
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Page
from penstock.base.scalar import Scalar
from penstock.funnels.definitions.model import Definition
from penstock.funnels.results import evaluation
from penstock.funnels.results.evaluation import ENGINE_SETTINGS
from penstock.funnels.results.schema import CohortQuery, PeriodQuery, PreviewIn, ResultsQuery, ServedFrom
from penstock.funnels.results.sharing import Shared
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.statements.query import Facts, Question, Statement
from penstock.funnels.statements.report import build
from penstock.http.bodies import bad_parameter
from penstock.settings import Settings
from penstock.warehouse.client import QueryFailed, Warehouse
from penstock.warehouse.work import current_work

T = TypeVar("T")

_TIMEOUT_EXCEEDED, _MEMORY_LIMIT_EXCEEDED, _QUERY_WAS_CANCELLED = 159, 241, 394
"""Error codes of the engine."""

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


class Rows(NamedTuple):
    """What a statement answered. Shared by requests: to be read only."""

    names: Sequence[str]
    rows: Sequence[Sequence[Any]]
    computed_at_ms: int


@dataclass(slots=True)
class Service:
    """How an answer came about, as far as it has. computed_at_ms: of the newest statement; queried: whether one ran for this answer."""

    computed_at_ms: int | None = None
    queried: bool = False

    def note(self, computed_at_ms: int, *, queried: bool) -> None:
        self.computed_at_ms = max(computed_at_ms, self.computed_at_ms or 0)
        self.queried = self.queried or queried


@dataclass(frozen=True, slots=True)
class Inquiry:
    """One question about one funnel, ready for the engine.

    funnel_id, revision: None for a definition that is not saved. website_id: as asked, None for all. facts: of the data that is read.
    fresh: whether everything that was acknowledged before the question can be read. version: of the data, as `content_of`. parts: in which
    they lay then, as `parts_of`.
    """

    workspace_id: WorkspaceId
    definition: Definition
    question: Question
    facts: Facts
    website_id: str | None
    fresh: bool
    version: int
    parts: int
    funnel_id: str | None = None
    revision: int | None = None
    service: Service = field(default_factory=Service, compare=False)

    @property
    def head(self) -> dict[str, Any]:
        """The head of the answer (`HeadRecord`). To be read when all statements of the answer were asked."""
        computed_at_ms = self.service.computed_at_ms
        return {
            "funnelId": self.funnel_id,
            "definitionRevision": self.revision,
            "goals": [asdict(goal) for goal in self.definition.goals],
            "countingUnit": self.definition.counting_unit,
            "evaluatedAt": iso(self.question.evaluated_at_ms),
            "computedAt": iso(self.question.evaluated_at_ms if computed_at_ms is None else computed_at_ms),
            "servedFrom": ServedFrom.QUERY if self.service.queried or computed_at_ms is None else ServedFrom.CACHE,
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
            found, kept = self._asked(statement), False
        else:
            key = _key(inquiry, statement)
            still = partial(self._is_as_it_was, inquiry.question, inquiry.parts)
            found, kept = self._answered(lambda: self._rows.get(key, lambda: self._asked(statement), still=still))
        if inquiry is not None:
            inquiry.service.note(found.computed_at_ms, queried=not kept)
        return [dict(zip(found.names, row, strict=True)) for row in found.rows]

    def _asked(self, statement: Statement) -> Rows:
        names, rows = self._answered(
            lambda: self._warehouse.query(statement.sql, statement.parameters, {**ENGINE_SETTINGS, **self._limits()})
        )
        return Rows(names, rows, self._clock())

    @contextmanager
    def blocks(self, statement: Statement) -> Iterator[Iterator[list[dict[str, Any]]]]:
        """The rows of a statement in blocks, for answers that are too long to hold. A connection is busy until the context ends."""
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
            scope_ids=tuple({website.scope_id: None for website in websites}),
            start_ms=_as_ms(asked.start_at),
            end_ms=_as_ms(asked.end_at),
            evaluated_at_ms=self._clock(),
            cohort=filtered,
            page=Page(asked.page, asked.page_size) if isinstance(asked, ResultsQuery | PreviewIn) else Page(),
        )
        if isinstance(asked, ResultsQuery):
            question = replace(question, sort=asked.sort, descending=asked.order == "desc")
        version, parts = self._answered(lambda: self._version(question))
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
            return self._answered(now)
        key = (workspace_id, definition, question.website_ids, question.scope_ids, question.start_ms, question.end_ms, version)
        still = partial(self._is_as_it_was, question, parts)
        return self._answered(lambda: self._moments.get(key, now, holds=lambda moment: moment.holds_at(self._clock()), still=still).value)

    def _websites(self, workspace_id: WorkspaceId, website_id: str | None) -> Sequence[Website]:
        if website_id is not None:
            return [self._accounts.owned_website(workspace_id, website_id)]
        return self._accounts.websites(workspace_id)

    def _limits(self) -> Mapping[str, Any]:
        """Of the workspace, where the request has some; else the operator's."""
        work = current_work()
        operators = {"max_execution_time": self._settings.query_timeout_s, "max_memory_usage": self._settings.query_memory_bytes}
        return operators if work is None else {**operators, **work.limits}

    def _answered(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except QueryFailed as error:
            raise self._explained(error) from error

    def _explained(self, error: QueryFailed) -> Exception:
        """What a caller can do about a query that the engine stopped; any other failure is ours."""
        limits = self._limits()
        seconds, memory = f"{limits['max_execution_time']:g} seconds", f"{limits['max_memory_usage']:,} bytes of memory"
        if error.code == _TIMEOUT_EXCEEDED:
            return Unavailable(f"The funnel took longer than {seconds}, the queryTimeoutSeconds in force. {_WAY_OUT}", code="query_timeout")
        if error.code == _MEMORY_LIMIT_EXCEEDED:
            return Unavailable(f"The funnel needed more than {memory}, the queryMemoryBytes in force. {_WAY_OUT}", code="query_too_large")
        if error.code in (0, _QUERY_WAS_CANCELLED):
            return Unavailable("The event store does not answer right now; try again.", code="warehouse_unavailable")
        return error


def bad_parameters(faults: Mapping[str, str]) -> Malformed:
    """Query parameters that are well-formed, but do not fit the funnel. faults: what is wrong, by parameter."""
    return bad_parameter(*(Fault(parameter, "does_not_fit", wrong) for parameter, wrong in faults.items()))


_WAY_OUT = "Ask for a shorter period or one website, or raise the limit in the workspace's settings."


def _key(inquiry: Inquiry, statement: Statement) -> bytes:
    """Stands for all that the rows of a statement depend on."""
    said = repr((inquiry.workspace_id, inquiry.version, statement.sql, sorted(statement.parameters.items())))
    return sha256(said.encode("utf-8", "surrogatepass")).digest()


def _as_ms(at: int | str | None) -> int | None:
    return None if at is None else int(at)


def _checked_cohort(definition: Definition, cohort: Mapping[str, Any]) -> dict[str, Scalar | None]:
    """A cohort filter names entry properties of the funnel and gives scalars or null. Source: contract, "Funnels"."""
    faults = [
        Fault(f"cohort.{name}", "not_a_breakdown", definition.not_a_breakdown())
        for name in cohort
        if name not in definition.breakdown_properties
    ]
    faults += [
        Fault(f"cohort.{name}", "not_a_scalar", "Must be a string, a finite number, true, false or null.")
        for name, value in cohort.items()
        if isinstance(value, dict | list) or (isinstance(value, float) and not isfinite(value))
    ]
    if faults:
        raise Invalid(faults)
    return dict(cohort)
