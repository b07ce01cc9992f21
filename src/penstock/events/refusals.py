"""What was refused of what came in, kept for a while for the people who send it.

In the memory of this node, since its start: the last 500 of each workspace. Nothing of it is on a path that an accepted event takes.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from threading import Lock
from typing import Any, NamedTuple

from penstock.accounts.model import Website
from penstock.base.clock import Clock
from penstock.base.errors import Fault, Invalid, PenstockError
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.events.batch import Outcome
from penstock.events.excerpts import excerpt
from penstock.http.bodies import parse_json

_KEPT = 500
_KEPT_OF_ONE_BODY = 50


class Refusal(NamedTuple):
    """One refused item, or a whole body. number: rises with each. website_id: None where it could not be told.

    code: of the problem document, or of an item in a batch `invalid`. item: an excerpt; None where there was nothing to read.
    """

    number: int
    at_ms: int
    route: str
    website_id: WebsiteId | None
    code: str
    faults: tuple[Fault, ...]
    item: str | None


class Refusals:
    """Whose a refusal is: of the workspace of the key, else of the website that the item names. Others are nobody's and not kept."""

    def __init__(self, clock: Clock, find_website: Callable[[str], Website | None]) -> None:
        """find_website: of whatever workspace; may block."""
        self._clock, self._find_website = clock, find_website
        self._kept: dict[WorkspaceId, deque[Refusal]] = {}
        self._numbers = count(1)
        self._lock = Lock()

    def page(self, workspace_id: WorkspaceId, website_id: WebsiteId | None, page: Page) -> Listing[Refusal]:
        """Newest first. website_id: only its own, and those of which the website could not be told."""
        with self._lock:
            kept = [one for one in self._kept.get(workspace_id, ()) if website_id is None or one.website_id in (None, website_id)]
        kept.reverse()
        return Listing(kept[page.offset : page.offset + page.size], page, len(kept))

    def note_body(self, route: str, body: bytes, error: PenstockError, workspace_id: WorkspaceId | None = None) -> None:
        """A body that was refused as a whole. workspace_id: of the key, if the route takes one. Blocks."""
        if error.status < 500:
            item = _readable(body)
            faults = error.faults or (Fault("", error.code, error.detail),)
            self._note(route, item, error.code, faults, workspace_id, is_batch=isinstance(item, dict) and "events" in item)

    def note_items(self, route: str, body: bytes, outcomes: Sequence[Outcome], workspace_id: WorkspaceId | None = None) -> None:
        """The refused items of a batch that was taken. Blocks."""
        sent = _readable(body)
        shared = {name: sent[name] for name in ("websiteId",) if name in sent}
        refused = [place for place, outcome in enumerate(outcomes) if outcome.receipt is None]
        for place in refused[:_KEPT_OF_ONE_BODY]:
            item = sent["events"][place]
            item = {**shared, **item} if isinstance(item, dict) else item
            self._note(route, item, Invalid.code, outcomes[place].faults, workspace_id)

    def _note(
        self, route: str, item: Any, code: str, faults: tuple[Fault, ...], workspace_id: WorkspaceId | None, *, is_batch: bool = False
    ) -> None:
        named = item.get("websiteId") if isinstance(item, Mapping) else None
        website = self._find_website(named) if isinstance(named, str) else None
        if website is not None and workspace_id not in (None, website.workspace_id):
            website = None  # another's
        owner = website.workspace_id if website else workspace_id
        if owner is None:
            return
        shown = None if item is None or is_batch else excerpt(item)
        with self._lock:
            number, kept = next(self._numbers), self._kept.setdefault(owner, deque(maxlen=_KEPT))
            kept.append(Refusal(number, self._clock(), route, website.id if website else None, code, faults, shown))


def _readable(body: bytes) -> Any:
    """The body's JSON; None when it has none."""
    try:
        return parse_json(body)
    except PenstockError:
        return None
