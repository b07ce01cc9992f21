"""Use cases for the quarantine: record, list and count refused items.

An entry belongs to the workspace of the key or, without a key, of the item's website. An item with
neither a key nor a known website is not recorded.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from msgspec import json

from penstock.accounts.websites.service import WebsiteService
from penstock.base.calendar import utc_day
from penstock.base.clock import LATEST_MS
from penstock.base.errors import Fault, Invalid, PenstockError, Unavailable
from penstock.base.event_limits import MAX_EVENT_BYTES
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.core import Core
from penstock.events import store as events_store
from penstock.events.batch import ItemResult, defaults_of
from penstock.events.intake import Intake
from penstock.events.model import EventCounts, Refusal
from penstock.events.quarantine import store
from penstock.events.quarantine.model import EVENT_ROUTES, QuarantineEntry, SentBody
from penstock.events.quarantine.schema import AllEventCountsRecord, EventCountsRecord
from penstock.http.lists import EVENT_LIST, parse_object_with_list

log = structlog.get_logger()

MAX_PER_BODY = 100
"""Maximum number of refused items stored from one body. The others are only counted."""


class QuarantineService:
    """Shows senders the items that the intake refused and the rows that the warehouse refused."""

    def __init__(self, core: Core, websites: WebsiteService, intake: Intake) -> None:
        self._database, self._clock, self._validation = core.database, core.clock, core.validation
        self._websites, self._intake = websites, intake

    # Methods that record refused items

    async def record_body(self, body: SentBody, error: PenstockError) -> None:
        """Record a body that was refused as a whole."""
        if error.status < 500 and error.status != 429:
            read = partial(self._refusals_of_body, body, error)
            await self.read_and_record(body.workspace_id, read)

    async def record_items(self, body: SentBody, results: Sequence[ItemResult]) -> None:
        """Record the refused items of an accepted batch."""
        read = partial(self._refusals_of_items, body, results)
        await self.read_and_record(body.workspace_id, read)

    async def record(self, refusals: Sequence[Refusal]) -> None:
        """Record refused items of a body whose other items were stored."""
        try:
            await self._intake.store(refusals)
        except Unavailable as error:
            log.warning("refusals_not_recorded", reason=error.code)

    async def read_and_record(
        self, workspace_id: WorkspaceId | None, read: Callable[[], list[Refusal]]
    ) -> None:
        """Read the refusals when it is the workspace's turn, and record them.

        read: returns the refusals; parses the body again, which may take a long time.
        """
        try:
            refusals = await self._validation.run(workspace_id, read)
        except Unavailable as error:  # The response still lists the refused items.
            log.warning("refusals_not_recorded", reason=error.code)
            return
        if refusals:
            await self.record(refusals)

    def _refusals_of_body(self, body: SentBody, error: PenstockError) -> list[Refusal]:
        item = self._object_or_none(body.content)
        is_batch = isinstance(item, dict) and "events" in item
        faults = error.faults or (Fault("", error.code, error.detail),)
        entry = self._entry(body, item, error.code, faults)
        if entry is None:
            return []
        if is_batch:
            return [Refusal(entry, is_event=False)]
        is_event = body.route in EVENT_ROUTES and item is not None
        return [Refusal(entry._replace(content=content_of(item)), is_event)]

    def _refusals_of_items(self, body: SentBody, results: Sequence[ItemResult]) -> list[Refusal]:
        batch = parse_object_with_list(body.content, "events", EVENT_LIST)
        defaults = defaults_of(batch)
        refusals = list[Refusal]()
        for index, result in enumerate(results):
            if result.receipt is not None:
                continue
            content = None
            try:
                item = batch["events"][index]
                item = {**defaults, **item} if isinstance(item, dict) else item
                content = content_of(item)
            except Invalid:  # The item is too large.
                item = defaults
            entry = self._entry(body, item, Invalid.code, result.faults)
            if entry is not None:
                is_event = body.route in EVENT_ROUTES and item is not None
                is_stored = len(refusals) < MAX_PER_BODY
                refusals.append(Refusal(entry._replace(content=content), is_event, is_stored))
        return refusals

    def _entry(
        self, body: SentBody, item: Any, code: str, faults: tuple[Fault, ...]
    ) -> QuarantineEntry | None:
        """Return an item's entry, without content; None if its workspace is not known."""
        website_id = item.get("websiteId") if isinstance(item, Mapping) else None
        website = self._websites.find_website(website_id) if isinstance(website_id, str) else None
        if website is not None and body.workspace_id not in (None, website.workspace_id):
            website = None  # The website belongs to another workspace.
        owner = website.workspace_id if website else body.workspace_id
        if owner is None:
            return None
        return QuarantineEntry(
            workspace_id=owner,
            website_id=website.id if website else None,
            at_ms=self._clock(),
            origin=body.route,
            code=code,
            faults=faults,
            is_public=body.workspace_id is None,
            sender=body.sender,
        )

    def _object_or_none(self, body: bytes) -> dict[str, Any] | None:
        """Parse a body. Returns None if it is not an object or is too large to parse."""
        try:
            return parse_object_with_list(body, "events", EVENT_LIST)
        except PenstockError:
            return None

    # Methods that read; they block

    def page(
        self,
        workspace_id: WorkspaceId,
        website_id: WebsiteId | None,
        page: Page,
        *,
        with_unknown: bool = True,
    ) -> Listing[QuarantineEntry]:
        """List entries, newest first. website_id: the website to list; None for all.

        with_unknown: whether to include entries whose website is unknown.
        """
        with self._database.read() as db:
            return store.page(db, workspace_id, website_id, page, with_unknown=with_unknown)

    def entries(
        self, workspace_id: WorkspaceId, website_id: WebsiteId
    ) -> Iterator[QuarantineEntry]:
        """Yield every entry of a website, oldest first, reading in pages."""
        number = 0
        while True:
            with self._database.read() as db:
                entries = store.after(db, workspace_id, website_id, number)
            if not entries:
                return
            yield from entries
            number = entries[-1].number

    def counts(self, workspace_id: WorkspaceId) -> AllEventCountsRecord:
        """Return the event counts of each website in the workspace."""
        website_ids = [website.id for website in self._websites.websites(workspace_id)]
        with self._database.read() as db:
            counts = events_store.counts_of(db, website_ids)
        records = (
            EventCountsRecord.from_object(
                counts.get(website_id, EventCounts()), website_id=website_id
            )
            for website_id in website_ids
        )
        return AllEventCountsRecord(data=tuple(records))

    def lost_on_devices(
        self, website_ids: Collection[WebsiteId], from_ms: int | None, to_ms: int | None
    ) -> int:
        """Return the number of events that clients reported as dropped on the UTC days of a period.

        from_ms, to_ms: the period; None if it has no start or no end.
        """
        first_day = 0 if from_ms is None else utc_day(from_ms)
        last_day = utc_day(LATEST_MS if to_ms is None else to_ms)
        with self._database.read() as db:
            return events_store.lost_events_of(db, website_ids, first_day, last_day)

    def entries_by_reason(self) -> dict[str, float]:
        """Return the number of entries in all workspaces, by reason."""
        with self._database.read() as db:
            return store.entries_by_reason(db)


def content_of(item: Any) -> str | None:
    """Return an item as JSON; None if there is no item or it is too large to store."""
    content = None if item is None else json.encode(item)
    if content is None or len(content) > MAX_EVENT_BYTES:
        return None
    return content.decode()
