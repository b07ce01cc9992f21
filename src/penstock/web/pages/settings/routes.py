"""Pages for API keys, the workspace, internal traffic and the audit log."""

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.response import Redirect

from penstock.accounts.audit.service import AuditLog
from penstock.accounts.keys.service import KeyService
from penstock.accounts.websites.service import WebsiteService
from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.clock import Clock, iso
from penstock.funnels.definitions.operators import operators_by_group
from penstock.funnels.internal_traffic.service import InternalTrafficService
from penstock.http.schema import PageQuery
from penstock.settings import DAY_S, Settings
from penstock.web.nav import SETTINGS
from penstock.web.view import View, names_of


@get("/settings")
async def first_settings() -> Redirect:
    return Redirect(SETTINGS[0].href, status_code=302)


@get("/settings/api-keys", sync_to_thread=True)
def api_keys(
    view: NamedDependency[View],
    key_service: NamedDependency[KeyService],
    website_service: NamedDependency[WebsiteService],
    clock: NamedDependency[Clock],
) -> Response[bytes]:
    websites = website_service.websites(view.workspace_id)
    return view.render(
        "settings/keys.html",
        parts=("keys",),
        keys=key_service.keys(view.workspace_id, view.query(PageQuery).pagination),
        websites=websites,
        website_names=names_of(websites),
        expiries=[
            (iso(clock() + days * DAY_S * 1000), f"In {days} days") for days in (30, 90, 365)
        ],
        now_ms=clock(),
    )


@get("/settings/workspace", sync_to_thread=True)
def workspace(
    view: NamedDependency[View],
    limits: NamedDependency[WorkspaceService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    return view.render(
        "settings/workspace.html", limits=limits.own_limits(view.workspace_id), operator=settings
    )


@get("/settings/internal-traffic", sync_to_thread=True)
def internal_traffic_page(
    view: NamedDependency[View], internal_traffic: NamedDependency[InternalTrafficService]
) -> Response[bytes]:
    record = internal_traffic.get(view.workspace_id)
    return view.render(
        "settings/internal_traffic.html",
        record=record,
        filters=[item.model_dump() for item in record.filters],
        operator_groups=operators_by_group(),
    )


@get("/settings/audit-log", sync_to_thread=True)
def audit_entries(
    view: NamedDependency[View], audit_log: NamedDependency[AuditLog]
) -> Response[bytes]:
    page = view.query(PageQuery).pagination
    entries = audit_log.entries(view.reader.caller, page) if view.is_owner else None
    return view.render("settings/audit_log.html", entries=entries)


ROUTES = (first_settings, api_keys, workspace, internal_traffic_page, audit_entries)
