"""Parts of pages that load separately, so that a slow query delays no page."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.base.errors import PenstockError
from penstock.web.error_pages import LIMIT_CODES
from penstock.web.view import View


@dataclass(frozen=True, slots=True)
class PagePart:
    """A part of a page: its content, or the error that takes its place."""

    content: Any = None
    error: PenstockError | None = None

    @property
    def too_slow(self) -> bool:
        """Whether a limit of the workspace stopped its query."""
        return self.error is not None and self.error.code in LIMIT_CODES


def load_part(view: View, name: str, load: Callable[[], Any]) -> PagePart | None:
    """A part that htmx requests by its element's ID. None in the page, which shows a skeleton."""
    if view.request.headers.get("hx-target") != name:
        return None
    try:
        return PagePart(load())
    except PenstockError as error:
        return PagePart(error=error)
