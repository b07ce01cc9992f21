"""The routes of all pages. Readers without a session are sent to the log-in; errors are pages."""

from litestar import Router
from litestar.di import Provide

from penstock.web.assets import asset
from penstock.web.error_pages import PAGE_HANDLERS
from penstock.web.pages import (
    docs,
    funnels,
    goals,
    imports,
    links,
    live,
    people,
    report,
    session,
    settings,
    units,
    visitors,
    websites,
    welcome,
)
from penstock.web.pages.funnel_page import provide_funnel_pages
from penstock.web.view import provide_respond, provide_view

AREAS = (
    session,
    welcome,
    funnels,
    report,
    units,
    goals,
    live,
    visitors,
    links,
    imports,
    websites,
    people,
    settings,
)
"""Modules of pages; a new one is added here."""

PAGES = Router(
    "/",
    route_handlers=[route for area in AREAS for route in area.ROUTES],
    dependencies={
        "view": Provide(provide_view),
        "respond": Provide(provide_respond),
        "funnel_pages": Provide(provide_funnel_pages),
    },
    exception_handlers=PAGE_HANDLERS,
    opt={"page": True},
)

ROUTES = (PAGES, asset, *docs.ROUTES)
