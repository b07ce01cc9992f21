"""What every page behind the log-in stands on: who reads it, and how it is answered. A Litestar dependency named `view`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from anyio import to_thread
from litestar import Request, Response
from litestar.di import NamedDependency
from pydantic import ValidationError

from penstock.accounts.callers import SESSION_COOKIE
from penstock.accounts.model import SignedIn, Website
from penstock.accounts.people.own import OwnAccountService
from penstock.accounts.service import AccountService
from penstock.base.errors import Unauthorized
from penstock.base.ids import WorkspaceId
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.http.schema import Query
from penstock.jobs.answered import Answered
from penstock.jobs.jobs import Jobs
from penstock.web.nav import NAV, SETTINGS
from penstock.web.rendering import html

AnyRequest = Request[Any, Any, Any]
Q = TypeVar("Q", bound=Query)


class LogInFirst(Exception):
    """Whoever asks for the page is not signed in. next_path: where to go on after the log-in."""

    def __init__(self, next_path: str) -> None:
        super().__init__(next_path)
        self.next_path = next_path


@dataclass(frozen=True, slots=True)
class View:
    """One page for one reader."""

    request: AnyRequest
    reader: SignedIn
    own_account: OwnAccountService

    @property
    def workspace_id(self) -> WorkspaceId:
        return self.reader.workspace.id

    def query(self, model: type[Q]) -> Q:
        """The address's parameters. A page is no API: what it does not know or cannot read is left out, and the rest holds."""
        given = {name: value for name, value in self.request.query_params.items() if value != ""}
        known = {field.alias or name for name, field in model.model_fields.items()}
        given = {name: value for name, value in given.items() if name in known}
        try:
            return model.model_validate(given)
        except ValidationError as error:
            wrong = {item["loc"][0] for item in error.errors(include_url=False, include_input=False) if item["loc"]}
            return model.model_validate({name: value for name, value in given.items() if name not in wrong})

    def address(self, **changes: Any) -> str:
        """This page's path with some parameters changed; None takes one out."""
        given: dict[str, Any] = {**self.request.query_params.dict(), **changes}
        query = urlencode({name: value for name, value in given.items() if value is not None}, doseq=True)
        path: str = self.request.scope["raw_path"].decode("ascii").partition("?")[0]  # as it was sent: an ID may hold an encoded slash
        return path + (f"?{query}" if query else "")

    def render(self, template: str, *, parts: Sequence[str] = (), status: int = 200, **content: Any) -> Response[bytes]:
        """The page; or, when htmx asks for a part of it, that block of its template alone, so that both say the same.

        parts: names of the blocks that may be asked for, each of which is one element with the block's name as its ID.
        """
        target = self.request.headers.get("hx-target")
        block = target if target in parts and "hx-history-restore-request" not in self.request.headers else None
        shared = {"reader": self.reader, "view": self, "path": self.request.url.path, "nav": NAV, "settings_nav": SETTINGS}
        if block is None:
            shared["joined"] = self.own_account.workspaces(self.reader.user, Page(1, MAX_PAGE_SIZE)).data
        return html(self.request, template, {**shared, **content}, block=block, status=status)


async def provide_view(
    request: AnyRequest, accounts: NamedDependency[AccountService], own_account: NamedDependency[OwnAccountService]
) -> View:
    """`LogInFirst` without a session that holds."""
    reader = await reader_of(request, accounts)
    if reader is None:
        query = request.scope["query_string"].decode("latin-1")
        raise LogInFirst(request.url.path + (f"?{query}" if query else ""))
    return View(request, reader, own_account)


async def provide_answered(view: NamedDependency[View], jobs: NamedDependency[Jobs]) -> Answered:
    """The way of a page that asks the warehouse: within the limits of the workspace, and no longer than its reader waits."""
    return Answered(view.request, view.workspace_id, jobs)


async def reader_of(request: AnyRequest, accounts: AccountService) -> SignedIn | None:
    """Who is signed in, if anyone. Pages only read, so they are shown wherever the link to them stood."""
    token = request.cookies.get(SESSION_COOKIE)
    if not token:
        return None
    try:
        return await to_thread.run_sync(accounts.session, token)
    except Unauthorized:
        return None


def chosen_website(websites: list[Website], website_id: str | None) -> Website | None:
    """The website that the switcher shows: the one asked for, or the first. None when the workspace has none."""
    return next((one for one in websites if one.id == website_id), websites[0] if websites else None)


def names_of(websites: list[Website]) -> dict[str, str]:
    """By ID."""
    return {website.id: website.name for website in websites}


def without_foreign(query: Q, websites: list[Website]) -> Q:
    """The same without a `websiteId` that is not the workspace's, as with all that a page cannot read."""
    known = {website.id for website in websites}
    return query if getattr(query, "website_id") in known else query.model_copy(update={"website_id": None})  # noqa: B009


def safe_next(path: str | None) -> str:
    """Where to go on after the log-in: a path on this host, never an address elsewhere; `/` when it is anything else."""
    if not path or not path.startswith("/") or path.startswith(("//", "/\\", "/login", "/api/")):
        return "/"
    return path if path.isprintable() and "\\" not in path else "/"
