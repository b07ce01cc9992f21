"""Rejected items and bodies of this node, for the people who send them.

In memory since the node's start: the last 500 of each workspace, within a limit of bytes for each
and for all. Accepted events never come here.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
from typing import Any

from penstock.accounts.model import Website
from penstock.base.clock import Clock
from penstock.base.errors import Fault, Invalid, PenstockError
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.events.batch import MAX_RECORDED, ItemResult
from penstock.events.redaction import redact
from penstock.events.rejections.model import Rejection
from penstock.http.bodies import parse_json

_MAX_PER_WORKSPACE = 500
_MAX_WORKSPACE_BYTES = 1024**2
_MAX_BYTES = 32 * 1024**2
_MAX_FAULTS = 10


@dataclass(slots=True)
class _OfWorkspace:
    """The rejections of one workspace, oldest first. size: of all, in bytes."""

    rejections: deque[Rejection] = field(default_factory=deque)
    size: int = 0

    def add(self, rejection: Rejection) -> None:
        self.rejections.append(rejection)
        self.size += rejection.size
        while len(self.rejections) > _MAX_PER_WORKSPACE or self.size > _MAX_WORKSPACE_BYTES:
            self.size -= self.rejections.popleft().size


class RejectionLog:
    """A rejection belongs to the workspace of the key, else of the website that the item names.

    One with neither belongs to nobody and is not recorded.
    """

    def __init__(self, clock: Clock, find_website: Callable[[str], Website | None]) -> None:
        """find_website: finds a website of any workspace; may block."""
        self._clock, self._find_website = clock, find_website
        # The workspace whose last rejection is the oldest comes first.
        self._workspaces: OrderedDict[WorkspaceId, _OfWorkspace] = OrderedDict()
        self._size = 0
        self._numbers = count(1)
        self._lock = Lock()

    def page(
        self, workspace_id: WorkspaceId, website_id: WebsiteId | None, page: Page
    ) -> Listing[Rejection]:
        """Newest first. website_id: only rejections of this website, or of an unknown one."""
        with self._lock:
            of_workspace = self._workspaces.get(workspace_id, _OfWorkspace())
            rejections = [
                rejection
                for rejection in of_workspace.rejections
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
                error.more_faults,
                workspace_id,
                is_batch=isinstance(item, dict) and "events" in item,
            )

    def record_items(
        self, route: str, results: Sequence[ItemResult], workspace_id: WorkspaceId | None = None
    ) -> None:
        """Record the first rejected items of an accepted batch. Blocks."""
        rejected = [result for result in results if result.receipt is None]
        for _, faults, more_faults, item in rejected[:MAX_RECORDED]:
            self._record(route, item, Invalid.code, faults, more_faults, workspace_id)

    def _record(
        self,
        route: str,
        item: Any,
        code: str,
        faults: tuple[Fault, ...],
        more_faults: int,
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
                faults=faults[:_MAX_FAULTS],
                more_faults=more_faults + len(faults[_MAX_FAULTS:]),
                item=excerpt,
            )
            self._add(owner, rejection)

    def _add(self, owner: WorkspaceId, rejection: Rejection) -> None:
        of_owner = self._workspaces.setdefault(owner, _OfWorkspace())
        self._size -= of_owner.size
        of_owner.add(rejection)
        self._size += of_owner.size
        self._workspaces.move_to_end(owner)
        while self._size > _MAX_BYTES:
            self._size -= self._workspaces.popitem(last=False)[1].size


def _json_or_none(body: bytes) -> Any:
    """The body's JSON; None when it has none."""
    try:
        return parse_json(body)
    except PenstockError:
        return None
