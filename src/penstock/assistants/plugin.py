"""The assistants room. Its tools call the API, so it has no services."""

from dataclasses import dataclass

from penstock.assistants.routes import ROUTES, provide_key_caller
from penstock.core import Room


@dataclass(frozen=True)
class AssistantsRoom(Room):
    routes = ROUTES
    request_objects = {"key_caller": provide_key_caller}  # noqa: RUF012
