"""Imports and deletions: what was asked for and how far it is."""

from typing import Annotated

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath
from pydantic import Field

from penstock.accounts.service import AccountService
from penstock.activity.schema import Text, VisitorDetailRecord, VisitorsQuery, WebsiteQuery
from penstock.activity.visitors import VisitorService
from penstock.base.errors import NotFound
from penstock.base.ids import WorkspaceId
from penstock.events.deletions.model import STEPS, Deletion, State
from penstock.events.deletions.service import DeletionService
from penstock.events.imports.model import ImportJob, ImportState
from penstock.events.imports.service import ImportService
from penstock.http.schema import PageQuery, Query, RecordsQuery
from penstock.jobs.answered import Answered
from penstock.settings import Settings
from penstock.web.nav import Entry
from penstock.web.view import View, names_of, without_foreign

IMPORT_TABS = (Entry("Imports", "/imports"), Entry("Deletions", "/deletions"))

Moment = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$")]
"""As a browser's field gives it; read as UTC."""


class NewDeletionQuery(Query):
    """What a deletion is to be of, before it is confirmed."""

    website_id: str | None = None
    visitor_id: Text | None = None
    user_id: Text | None = None
    from_: Annotated[Moment | None, Field(alias="from")] = None
    to: Moment | None = None


@get("/imports", sync_to_thread=True)
def list_imports(
    view: NamedDependency[View],
    accounts: NamedDependency[AccountService],
    imports: NamedDependency[ImportService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    websites = accounts.websites(view.workspace_id)
    found = imports.page(view.workspace_id, without_foreign(view.query(RecordsQuery), websites))
    return view.render(
        "imports/list.html",
        parts=("list",),
        found=found,
        polls=any(job.is_open for job in found.data),
        shares={job.id: share_read(job) for job in found.data},
        websites=websites,
        names=names_of(websites),
        most_bytes=settings.max_import_bytes,
        tabs=IMPORT_TABS,
    )


@get("/imports/{import_id:str}", sync_to_thread=True)
def read_import(
    view: NamedDependency[View],
    import_id: FromPath[str],
    accounts: NamedDependency[AccountService],
    imports: NamedDependency[ImportService],
) -> Response[bytes]:
    job = imports.find(view.workspace_id, import_id)
    found = imports.rejects(view.workspace_id, import_id, view.query(PageQuery).asked)
    names = names_of(accounts.websites(view.workspace_id))
    return view.render("imports/import.html", parts=("import",), job=job, share=share_read(job), found=found, names=names)


@get("/deletions", sync_to_thread=True)
def list_deletions(
    view: NamedDependency[View], accounts: NamedDependency[AccountService], deletions: NamedDependency[DeletionService]
) -> Response[bytes]:
    websites = accounts.websites(view.workspace_id)
    found = deletions.page(view.workspace_id, without_foreign(view.query(RecordsQuery), websites))
    return view.render(
        "imports/deletions.html",
        parts=("list",),
        found=found,
        polls=any(one.state is not State.DONE for one in found.data),
        shares={one.id: share_deleted(one) for one in found.data},
        names=names_of(websites),
        tabs=IMPORT_TABS,
    )


@get("/deletions/new")
async def new_deletion(
    view: NamedDependency[View],
    accounts: NamedDependency[AccountService],
    visitors: NamedDependency[VisitorService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """First what is to go, then, with that in the address, what exactly goes with it."""

    def made() -> Response[bytes]:
        websites = accounts.websites(view.workspace_id)
        query = without_foreign(view.query(NewDeletionQuery), websites)
        website = next((one for one in websites if one.id == query.website_id), None)
        is_span = query.from_ is not None and query.to is not None
        if website is None or not (query.visitor_id or query.user_id or is_span):
            return view.render("imports/deletion_new.html", query=query, names=names_of(websites))
        return view.render(
            "imports/deletion_confirm.html",
            query=query,
            website=website,
            is_span=is_span and not query.visitor_id and not query.user_id,
            one=_visitor_of(visitors, view.workspace_id, query),
            sharing=[one for one in websites if one.scope_id == website.scope_id],
        )

    return await answered(made)


def _visitor_of(visitors: VisitorService, workspace_id: WorkspaceId, query: NewDeletionQuery) -> VisitorDetailRecord | None:
    visitor_id = query.visitor_id
    if visitor_id is None and query.user_id is not None:
        found = visitors.visitors(workspace_id, VisitorsQuery(websiteId=query.website_id, search=query.user_id)).data
        visitor_id = next((one.visitor_id for one in found if one.user_id == query.user_id), None)
    if visitor_id is None:
        return None
    try:
        return visitors.visitor(workspace_id, visitor_id, WebsiteQuery(websiteId=query.website_id))
    except NotFound:
        return None


def share_read(job: ImportJob) -> float:
    """Of an import's file, from 0 to 1."""
    if job.state is ImportState.DONE:
        return 1.0
    return job.bytes_read / job.bytes_total if job.bytes_total else 0.0


def share_deleted(deletion: Deletion) -> float:
    """Of a deletion's steps, from 0 to 1."""
    steps = STEPS[deletion.target]
    return 1.0 if deletion.step is None else steps.index(deletion.step) / len(steps)


ROUTES = (list_imports, read_import, list_deletions, new_deletion)
