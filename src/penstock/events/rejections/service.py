"""Rejected items and bodies of this node, for the people who send them.

In memory since the node's start: the last 500 of each workspace. Accepted events never come here.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from threading import Lock
from typing import Any

from penstock.accounts.model import Website
from penstock.base.clock import Clock
from penstock.base.errors import Fault, Invalid, PenstockError
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.events.batch import ItemResult
from penstock.events.redaction import redact
from penstock.events.rejections.model import Rejection
from penstock.http.bodies import parse_json

_MAX_PER_WORKSPACE = 500
_MAX_PER_BODY = 50


class RejectionLog:
    """A rejection belongs to the workspace of the key, else of the website that the item names.

    One with neither belongs to nobody and is not recorded.
    """

    def __init__(self, clock: Clock, find_website: Callable[[str], Website | None]) -> None:
        """find_website: finds a website of any workspace; may block."""
        self._clock, self._find_website = clock, find_website
        self._rejections: dict[WorkspaceId, deque[Rejection]] = {}
        self._numbers = count(1)
        self._lock = Lock()

    def page(
        self, workspace_id: WorkspaceId, website_id: WebsiteId | None, page: Page
    ) -> Listing[Rejection]:
        """Newest first. website_id: only rejections of this website, or of an unknown one."""
        with self._lock:
            rejections = [
                rejection
                for rejection in self._rejections.get(workspace_id, ())
                if website_id is None or rejection.website_id in (None, website_id)
            ]
        rejections.reverse()
        return Listing(rejections[page.offset : page.offset + page.size], page, len(rejections))

    def record_body(
        self, route: str, body: bytes, error: PenstockError, workspace_id: WorkspaceId | None = None
    ) -> None:
        """Record a body that was rejected as a whole. workspace_id: of the key. Blocks."""
        if error.status < 500:
            item = _json_or_none(body)
            self._record(
                route,
                item,
                error.code,
                error.faults or (Fault("", error.code, error.detail),),
                workspace_id,
                is_batch=isinstance(item, dict) and "events" in item,
            )

    def record_items(
        self,
        route: str,
        body: bytes,
        results: Sequence[ItemResult],
        workspace_id: WorkspaceId | None = None,
    ) -> None:
        """Record the rejected items of an accepted batch. Blocks."""
        batch = _json_or_none(body)
        defaults = {name: batch[name] for name in ("websiteId",) if name in batch}
        rejected = [index for index, result in enumerate(results) if result.receipt is None]
        for index in rejected[:_MAX_PER_BODY]:
            item = batch["events"][index]
            item = {**defaults, **item} if isinstance(item, dict) else item
            self._record(route, item, Invalid.code, results[index].faults, workspace_id)

    def _record(
        self,
        route: str,
        item: Any,
        code: str,
        faults: tuple[Fault, ...],
        workspace_id: WorkspaceId | None,
        *,
        is_batch: bool = False,
    ) -> None:
        website_id = item.get("websiteId") if isinstance(item, Mapping) else None
        website = self._find_website(website_id) if isinstance(website_id, str) else None
        if website is not None and workspace_id not in (None, website.workspace_id):
            website = None  # of another workspace
        owner = website.workspace_id if website else workspace_id
        if owner is None:
            return
        excerpt = None if item is None or is_batch else redact(item)
        with self._lock:
            rejection = Rejection(
                number=next(self._numbers),
                at_ms=self._clock(),
                route=route,
                website_id=website.id if website else None,
                code=code,
                faults=faults,
                item=excerpt,
            )
            of_owner = self._rejections.setdefault(owner, deque(maxlen=_MAX_PER_WORKSPACE))
            of_owner.append(rejection)


def _json_or_none(body: bytes) -> Any:
    """The body's JSON; None when it has none."""
    try:
        return parse_json(body)
    except PenstockError:
        return None
