"""Wiring of the dashboard, which uses the services of all other rooms."""

from dataclasses import dataclass

from penstock.core import Room
from penstock.web.pages.funnel_page import FunnelPages
from penstock.web.routes import ROUTES
from penstock.web.view import View, provide_reader, provide_respond_page, provide_session_user


@dataclass(frozen=True)
class WebRoom(Room):
    routes = ROUTES
    request_objects = {  # noqa: RUF012
        "session_user": provide_session_user,
        "reader": provide_reader,
        "view": View,
        "respond_page": provide_respond_page,
        "funnel_pages": FunnelPages,
    }
