"""Wiring of the dashboard, which uses the services of all other rooms."""

from dataclasses import dataclass

from penstock.core import Room
from penstock.web.routes import ROUTES


@dataclass(frozen=True)
class WebRoom(Room):
    routes = ROUTES
