"""What a page about a funnel is about, and its parts that are loaded by themselves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from litestar.di import NamedDependency

from penstock.accounts.model import Website
from penstock.accounts.service import AccountService
from penstock.base.clock import Clock
from penstock.base.errors import PenstockError
from penstock.base.paging import Page
from penstock.funnels.definitions.records import FunnelRecord, RevisionRecord, SavedDefinition, SavedStep
from penstock.funnels.saved.service import FunnelService
from penstock.settings import Settings
from penstock.web.pages.asked import PeriodAsked, kept_address
from penstock.web.refusals import TOO_MUCH
from penstock.web.view import View


@dataclass(frozen=True, slots=True)
class Subject:
    """What a page about a funnel is about. definition: of the revision that is asked about. now_ms: when it is asked.

    revisions: the newest hundred, newest first.
    """

    view: View
    funnel: FunnelRecord
    definition: SavedDefinition
    revisions: list[RevisionRecord]
    websites: list[Website]
    asked: PeriodAsked
    now_ms: int
    base_url: str

    @property
    def given(self) -> Mapping[str, Any]:
        return dict(self.view.request.query_params.items())

    @property
    def website(self) -> Website | None:
        return next((one for one in self.websites if one.id == self.asked.website_id), None)

    @property
    def older(self) -> RevisionRecord | None:
        """The revision that is looked at, when it is not the saved one."""
        if self.asked.revision in (None, self.funnel.revision):
            return None
        return next((one for one in self.revisions if one.revision == self.asked.revision), None)

    @property
    def required(self) -> list[SavedStep]:
        return [row for row in self.definition.steps if not row.diagnostic]

    @property
    def _path(self) -> str:
        return f"/funnels/{self.funnel.id}"

    def noun(self, count: int = 2) -> str:
        """What is counted: attempt, attempts, visitor, visitors."""
        return f"{self.definition.counting_unit}{'' if count == 1 else 's'}"

    def parameters(self, *, cohort: bool = True, **more: Any) -> dict[str, Any]:
        """Of a question to the API, in its spelling."""
        return {
            **self.asked.parameters(self.now_ms, cohort=cohort),
            **{name: str(value) for name, value in more.items() if value is not None},
        }

    def units(self, **wanted: Any) -> str:
        return kept_address(f"{self._path}/units", self.given, **wanted)

    def trace(self, unit: str) -> str:
        return kept_address(f"{self._path}/units/{quote(unit, safe='')}", self.given)

    def back(self) -> str:
        return kept_address(self._path, self.given)

    def api(self, kind: str, *, cohort: bool = True, **more: Any) -> str:
        """The path of a question to the API."""
        query = urlencode(self.parameters(cohort=cohort, **more), quote_via=quote)
        return f"/api/funnels/{self.funnel.id}/{kind}" + (f"?{query}" if query else "")

    def curl(self, kind: str, *, cohort: bool = True, **more: Any) -> str:
        return f"curl -H 'Authorization: Bearer YOUR_API_KEY' '{self.base_url}{self.api(kind, cohort=cohort, **more)}'"


@dataclass(frozen=True, slots=True)
class Subjects:
    """A Litestar dependency named `subjects`."""

    view: View
    funnels: FunnelService
    accounts: AccountService
    settings: Settings
    clock: Clock

    def of(self, funnel_id: str, asked: PeriodAsked) -> Subject:
        """NotFound for a funnel of nobody here; Malformed for a revision that it never had. Blocks."""
        workspace_id = self.view.workspace_id
        funnel = self.funnels.get(workspace_id, funnel_id)
        is_saved = asked.revision in (None, funnel.revision)
        definition = funnel.definition if is_saved else self.funnels.at_revision(workspace_id, funnel_id, asked.revision)[1]
        revisions = list(self.funnels.revisions(workspace_id, funnel_id, Page(1, 100)).data)
        websites = self.accounts.websites(workspace_id)
        return Subject(self.view, funnel, definition, revisions, websites, asked, self.clock(), self.settings.base_url)


async def provide_subjects(
    view: NamedDependency[View],
    funnels: NamedDependency[FunnelService],
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
    clock: NamedDependency[Clock],
) -> Subjects:
    return Subjects(view, funnels, accounts, settings, clock)


@dataclass(frozen=True, slots=True)
class Part:
    """A part that was asked for: what it shows, or why it cannot."""

    shown: Any = None
    error: PenstockError | None = None

    @property
    def too_slow(self) -> bool:
        return self.error is not None and self.error.code in TOO_MUCH


def part_of(view: View, name: str, make: Callable[[], Any]) -> Part | None:
    """None while htmx does not ask for it: its place shows that it is loading. A refusal is told in the part itself."""
    if view.request.headers.get("hx-target") != name:
        return None
    try:
        return Part(make())
    except PenstockError as error:
        return Part(error=error)
