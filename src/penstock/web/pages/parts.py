"""Parts of pages that load separately, so that a slow query does not delay its page."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.base.errors import PenstockError
from penstock.funnels.queries.single_flight_cache import NotCached
from penstock.web.error_pages import LIMIT_CODES
from penstock.web.view import View


@dataclass(frozen=True, slots=True)
class PagePart:
    """A part of a page: its content, or an error in place of the content."""

    content: Any = None
    error: PenstockError | None = None

    @property
    def too_slow(self) -> bool:
        """Whether a limit of the workspace stopped its query."""
        return self.error is not None and self.error.code in LIMIT_CODES


def load_part(view: View, name: str, load: Callable[[], Any]) -> PagePart | None:
    """Load the part if htmx requests the element with its ID. None means that the page shows a
    skeleton.
    """
    if view.requested_part != name:
        return None
    try:
        return PagePart(load())
    except PenstockError as error:
        return PagePart(error=error)


def load_parts(
    view: View, loads: Mapping[str, Callable[[], Any]], *, in_page: bool
) -> Mapping[str, PagePart | None]:
    """Load several parts like `load_part`.

    in_page: whether the page itself includes all parts before the first part that is not cached.
    loads: functions that load the parts; if the page itself calls them, they raise `NotCached`
    instead of waiting.
    """
    parts = {name: load_part(view, name, load) for name, load in loads.items()}
    if in_page and view.requested_part is None:
        with suppress(NotCached, PenstockError):  # The part itself shows the error.
            for name, load in loads.items():
                parts[name] = PagePart(load())
    return parts
