"""All pages under one roof: who is not signed in is led to the log-in, and a refusal is a page."""

from litestar import Router
from litestar.di import Provide

from penstock.web.assets import asset
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
from penstock.web.pages.subject import provide_subjects
from penstock.web.refusals import PAGE_HANDLERS
from penstock.web.view import provide_answered, provide_view

AREAS = (session, welcome, funnels, report, units, goals, live, visitors, links, imports, websites, people, settings)
"""A new module of pages gets its place here."""

PAGES = Router(
    "/",
    route_handlers=[route for area in AREAS for route in area.ROUTES],
    dependencies={"view": Provide(provide_view), "answered": Provide(provide_answered), "subjects": Provide(provide_subjects)},
    exception_handlers=PAGE_HANDLERS,
    opt={"page": True},
)

ROUTES = (PAGES, asset, *docs.ROUTES)
