"""Pages for API keys, the workspace, internal traffic and the audit log."""

from litestar import Response
from litestar.response import Redirect

from penstock.accounts.audit.service import AuditLog
from penstock.accounts.keys.service import KeyService
from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.clock import iso
from penstock.funnels.internal_traffic.service import InternalTrafficService
from penstock.http.schema import PageQuery
from penstock.settings import DAY_S
from penstock.web.nav import SETTINGS
from penstock.web.page_routes import page
from penstock.web.view import View


@page("/settings")
def first_settings() -> Redirect:
    return Redirect(SETTINGS[0].href, status_code=302)


@page("/settings/api-keys")
def api_keys(view: View, key_service: KeyService) -> Response[bytes]:
    return view.render(
        "settings/keys.html",
        parts=("keys",),
        keys=key_service.keys(view.workspace_id, view.query(PageQuery).pagination),
        expiries=[
            (iso(view.now_ms + days * DAY_S * 1000), f"In {days} days") for days in (30, 90, 365)
        ],
        now=iso(view.now_ms),
    )


@page("/settings/workspace")
def workspace(view: View, limits: WorkspaceService) -> Response[bytes]:
    return view.render("settings/workspace.html", limits=limits.settings(view.workspace_id))


@page("/settings/internal-traffic")
def internal_traffic_page(view: View, internal_traffic: InternalTrafficService) -> Response[bytes]:
    record = internal_traffic.get(view.workspace_id)
    return view.render(
        "settings/internal_traffic.html",
        record=record,
        filters=[item.model_dump() for item in record.filters],
    )


@page("/settings/audit-log")
def audit_entries(view: View, audit_log: AuditLog) -> Response[bytes]:
    page = view.query(PageQuery).pagination
    entries = audit_log.entries(view.reader.caller, page) if view.is_owner else None
    return view.render("settings/audit_log.html", entries=entries)


ROUTES = (first_settings, api_keys, workspace, internal_traffic_page, audit_entries)
