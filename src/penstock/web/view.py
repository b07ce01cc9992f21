"""The context of every page that requires a log-in: reader, query parameters, response."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import urlencode

from anyio import to_thread
from litestar import Response
from pydantic import ValidationError

from penstock.accounts.confirmations.service import ConfirmationService
from penstock.accounts.model import CurrentUser, Role, Website
from penstock.accounts.own_account.service import OwnAccountService
from penstock.accounts.service import AccountService
from penstock.accounts.session_cookies import session_token
from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.errors import Fault, Unauthorized
from penstock.base.ids import WorkspaceId
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.http.requests import AnyRequest, path_of, raw_path_of
from penstock.http.schema import Query, faults_of
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.service import JobService
from penstock.settings import Settings
from penstock.web.nav import NAV, tabs_at
from penstock.web.rendering import html

Q = TypeVar("Q", bound=Query)

_MAY_BE_EMPTY = {"breakdown", "folder"}
"""Parameters for which an empty value and no value mean different things: a report without
breakdown properties, and the funnels in no folder.
"""

_PERIOD = {"startAt", "endAt"}
"""Parameters that are valid only together."""


class LogInRequired(Exception):
    """The page needs a session. next_path: the path to open after the log-in."""

    def __init__(self, next_path: str) -> None:
        super().__init__(next_path)
        self.next_path = next_path


@dataclass
class View:
    """One page for one reader. Handlers get it by the name `view`, and its fields by theirs.

    now_ms: time of the request. ignored: the error message for each invalid query parameter, so
    that the page can show them.
    """

    request: AnyRequest
    reader: CurrentUser
    own_account: OwnAccountService
    confirmations: ConfirmationService
    website_service: WebsiteService
    settings: Settings
    clock: Clock
    now_ms: int = field(init=False)
    ignored: dict[str, str] = field(default_factory=dict, init=False)
    _websites: list[Website] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.now_ms = self.clock()

    @property
    def workspace_id(self) -> WorkspaceId:
        return self.reader.workspace.id

    @property
    def is_owner(self) -> bool:
        return self.reader.role is Role.OWNER

    @property
    def websites(self) -> list[Website]:
        """All websites and apps of the workspace. Blocks."""
        if self._websites is None:
            self._websites = self.website_service.websites(self.workspace_id)
        return self._websites

    @property
    def website_names(self) -> dict[str, str]:
        """The names of all websites and apps by ID. Blocks."""
        return {website.id: website.name for website in self.websites}

    def website(self, website_id: str | None) -> Website | None:
        """Return the website with this ID; None if the workspace has none. Blocks."""
        return next((site for site in self.websites if site.id == website_id), None)

    def website_name(self, website_id: str | None) -> str | None:
        """Return the name of the website with this ID; the ID if the workspace has none. Blocks."""
        website = self.website(website_id)
        return website_id if website is None else website.name

    @property
    def requested_part(self) -> str | None:
        """ID of the element that htmx replaces; None for a whole page."""
        headers = self.request.headers
        return None if "hx-history-restore-request" in headers else headers.get("hx-target")

    def query(self, model: type[Q], websites: Sequence[Website] | None = None) -> Q:
        """Parse the query parameters. Skips unknown parameters, and records invalid ones in
        `ignored`.

        websites: those that `websiteId` may name; None for any.
        """
        names = {info.alias or name for name, info in model.model_fields.items()}
        parameters = {
            name: ",".join(filter(None, values))  # a form sends each box that is checked
            for name, values in self._parameters.items()
            if name in names and (any(values) or name in _MAY_BE_EMPTY)
        }
        try:
            query = model.model_validate(parameters)
        except ValidationError as error:
            messages = {_parameter_of(fault): fault.message for fault in faults_of(error)}
            self.ignored.update(messages)
            invalid = set(messages) | (_PERIOD if _PERIOD & set(messages) else set())
            query = model.model_validate(
                {name: value for name, value in parameters.items() if name not in invalid}
            )
        website_id = getattr(query, "website_id", None)
        if websites is None or website_id in {None, *(website.id for website in websites)}:
            return query
        self.ignored["websiteId"] = "This workspace has no website or app with this ID."
        return query.model_copy(update={"website_id": None})

    def address(self, **changes: Any) -> str:
        """Return this page's path and query with changed parameters. None removes a parameter."""
        parameters = {**self._parameters, **changes}
        query = urlencode(
            {name: value for name, value in parameters.items() if value is not None}, doseq=True
        )
        return raw_path_of(self.request) + (f"?{query}" if query else "")

    @cached_property
    def _parameters(self) -> Mapping[str, Any]:
        return self.request.query_params.dict()

    def render(
        self, template: str, *, parts: Sequence[str] = (), status: int = 200, **content: Any
    ) -> Response[bytes]:
        """Render the page, or only one block of its template when htmx requests that part.

        parts: blocks that htmx may request. Each is one element whose ID is the block's name.
        """
        block = self.requested_part if self.requested_part in parts else None
        path = path_of(self.request)
        shared = {
            "reader": self.reader,
            "view": self,
            "path": path,
            "nav": [entry for entry in NAV if self.is_owner or not entry.for_owners],
            "tabs": tabs_at(path),
            "base_url": self.settings.base_url,
            "now_ms": self.now_ms,
        }
        if block is None:
            memberships = self.own_account.workspaces(self.reader.user, Page(1, MAX_PAGE_SIZE))
            shared["memberships"] = memberships.data
            shared["asks_to_confirm"] = self.confirmations.needs_confirmation(self.reader.user)
        return html(self.request, template, {**shared, **content}, block=block, status=status)


def _parameter_of(fault: Fault) -> str:
    return fault.field.partition(".")[0].partition("[")[0]


async def provide_session_user(request: AnyRequest, accounts: AccountService) -> CurrentUser | None:
    """Return the user of a valid session cookie, or None. Any origin may link, because pages only
    read.
    """
    token = session_token(request)
    if not token:
        return None
    try:
        return await to_thread.run_sync(accounts.session, token)
    except Unauthorized:
        return None


async def provide_reader(request: AnyRequest, session_user: CurrentUser | None) -> CurrentUser:
    """Return the user of the session cookie. Raises `LogInRequired` if there is no valid
    session.
    """
    if session_user is None:
        query = request.scope["query_string"].decode("latin-1")
        raise LogInRequired(path_of(request) + (f"?{query}" if query else ""))
    request.state.is_owner = session_user.role is Role.OWNER  # for the navigation of error pages
    return session_user


async def provide_respond_page(view: View, jobs: JobService) -> CancellableResponse:
    """Provide responses within the workspace's limits, for pages that query the warehouse."""
    return CancellableResponse(view.request, view.reader.caller, jobs)


def safe_next(path: str | None) -> str:
    """Return the path to open after the log-in: a page on this host, or `/` for anything else."""
    if not path or not path.startswith("/") or path.startswith(("//", "/\\", "/login", "/api/")):
        return "/"
    return path if path.isprintable() and "\\" not in path else "/"
